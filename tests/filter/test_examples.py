"""The examples of fields are filters that work, each about its field."""

from __future__ import annotations

import pytest

from zmtpscope.filter import Filter
from zmtpscope.filter.examples import EXAMPLES, example_of
from zmtpscope.filter.fields import FIELDS
from zmtpscope.records import RECORDS

OWN = {f"{type_.name}.{field.name}" for type_ in RECORDS.values() for field in type_.fields}


FIELDS_OF_RECORDS = {field.name for type_ in RECORDS.values() for field in type_.fields}


def test_each_example_has_a_field() -> None:
    assert set(EXAMPLES) <= OWN | FIELDS_OF_RECORDS | set(FIELDS)


@pytest.mark.parametrize("name", sorted(EXAMPLES.keys() | FIELDS_OF_RECORDS | FIELDS.keys()))
def test_an_example_is_a_filter_about_its_field(name: str) -> None:
    field = FIELDS.get(name.partition(".")[2] if name in OWN else name)
    reads = Filter(EXAMPLES.get(name) or example_of(name, None)).reads
    assert reads >= ({name} if field is None else set(field.reads))


def test_names_that_mean_something_else_have_one_of_their_own() -> None:
    assert example_of("reason", "gap") != example_of("reason", "command") == example_of("reason", None)
