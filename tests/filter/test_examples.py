"""The examples of fields are filters that work, each about its field."""

from __future__ import annotations

import pytest

from zmtpscope.filter import Filter
from zmtpscope.filter.examples import EXAMPLES, example_of
from zmtpscope.filter.fields import FIELDS
from zmtpscope.records import RECORDS

OWN = {f"{type_.name}.{field.name}" for type_ in RECORDS.values() for field in type_.fields}


def test_each_field_has_one() -> None:
    plain = {name for name in EXAMPLES if name not in OWN}
    assert plain == set(FIELDS) | {field.name for type_ in RECORDS.values() for field in type_.fields}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_a_filter_about_its_field(name: str) -> None:
    field = FIELDS.get(name.partition(".")[2] if name in OWN else name)
    reads = Filter(EXAMPLES[name]).reads
    assert reads >= ({name} if field is None else set(field.reads))


def test_names_that_mean_something_else_have_one_of_their_own() -> None:
    assert example_of("reason", "gap") != example_of("reason", "command") == example_of("reason", None)
