"""A filter on columns selects the records that it selects one by one, as a usual batch."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.export.test_arrow import ODD
from tests.export.test_json_lines import mixed_batches
from tests.readings import CAPTURE_FILES
from tests.rows_by_hand import values_of
from tests.suites import examples
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser, Batch, Options
from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.export.json_lines import text_of
from zmtpscope.filter import Filter
from zmtpscope.filter.conditions import Compared, Comparison, FieldOperand, IsThere, Predicate, Within
from zmtpscope.filter.fields import FIELDS, Type
from zmtpscope.filter.rows import Rows
from zmtpscope.filter.selection import Selection
from zmtpscope.payloads.registry import Registry

FILES = [path for path in CAPTURE_FILES if path.stem != "many-small"]

VALUES: dict[Type, list[str]] = {
    Type.NUMBER: ["0", "1", "2", "3", "5", "10", "100", "1.5", "1KiB", "0.3", "40000", "18446744073709551615"],
    Type.TRUTH: ["true", "false"],
    Type.TEXT: [
        "A",
        "data",
        "message",
        "PUB",
        '""',
        '"a"',
        "READY",
        "full",
        "proven",
        "3.1",
        "json",
        r'"\\x00"',
        "error",
    ],
    Type.OCTETS: ['""', "A", "00", r'"\x00"', "01:41", "READY", "hello"],
    Type.MEMBERS: ["1", "true", "text", '"text"', "0.5"],
    Type.ADDRESS: ["127.0.0.1", "10.0.0.0/8", "0.0.0.0/0", "::/0", "127.0.0.0/9"],
    Type.TIME: ["0", "1", '"2024-01-01"', "1500000000"],
    Type.DURATION: ["0", "1s", "20ms", "2500", "0.5"],
}
SOME: dict[Type, Any] = dict.fromkeys(Type, 0) | {Type.TEXT: "x", Type.ADDRESS: "::1", Type.OCTETS: b"x"}
ORDERED = ["==", "!=", "<", "<=", ">", ">="]
SEARCHED = (Type.TEXT, Type.OCTETS, Type.MEMBERS)


@st.composite
def conditions(draw: st.DrawFn) -> str:
    field = FIELDS[draw(st.sampled_from(list(FIELDS)))]
    name, type_ = field.name, field.type
    if draw(st.booleans()) and type_ in (Type.TEXT, Type.OCTETS):
        name = draw(st.sampled_from([f"{name}[0]", f"{name}[1:]", f"{name}[-2:1]", f"lower({name})", f"len({name})"]))
        type_ = Type.NUMBER if name.startswith("len") else type_
    elif type_ is Type.MEMBERS:
        name = draw(st.sampled_from([name, f"{name}.name", f"{name}.price", f'{name}["header"][0]']))
    value = st.sampled_from((name == field.name and field.words) or VALUES[type_])
    ways = ["there", "compare", "in"]
    if type_ in SEARCHED:
        ways += ["contains", "matches"]
    way = draw(st.sampled_from(ways))
    quantifier = draw(st.sampled_from(["", "", "all ", "any "]))
    if way == "there":
        return name
    if way == "compare":
        unordered = type_ in (Type.TRUTH, Type.ADDRESS)
        operator = draw(st.sampled_from(ORDERED[:2] if unordered else ORDERED))
        return f"{quantifier}{name} {operator} {draw(value)}"
    if way == "in":
        members = ", ".join(draw(st.lists(value, min_size=1, max_size=3)))
        return f"{quantifier}{name} in {{{members}}}"
    if way == "contains":
        return f"{quantifier}{name} contains {draw(value)}"
    return f"{quantifier}{name} matches {draw(st.sampled_from(['a', '^.$', '[0-9]+', 'PUB|SUB', '^$']))!r}"


def filters() -> st.SearchStrategy[str]:
    return st.recursive(
        conditions(),
        lambda inner: st.one_of(
            inner.map(lambda text: f"not ({text})"),
            st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda parts: "({}) {} ({})".format(*parts)),
        ),
        max_leaves=5,
    )


def assert_rows_are_records(text: str, batch: Batch, options: Options, start: int | None) -> None:
    found = Filter(text)
    selection = Selection(found, batch, options, start)
    for (item, index), values in zip(batch.in_order(), values_of(batch, options), strict=True):
        assert selection.has(item, index) == found.holds(values | {"capture_start_ns": start}), (text, values)


@examples(400)
@given(filters(), mixed_batches(), st.sampled_from(ODD), st.none() | st.integers(0, 2_000_000_000))
def test_a_filter_over_columns_is_that_of_each_record(
    text: str, batch: Batch, options: Options, start: int | None
) -> None:
    assert_rows_are_records(text, batch, options, start)


@pytest.mark.parametrize("path", FILES[::7], ids=lambda path: path.stem)
@examples(30)
@given(data=st.data())
def test_a_filter_over_the_columns_of_a_capture_is_that_of_each_record(path: Any, data: st.DataObject) -> None:
    options = Options(payloads=Registry(), frames=True)
    text = data.draw(filters())
    captures = open_captures([str(path)])
    for batch in Analyser(options).run(captures):
        assert_rows_are_records(text, batch, options, captures.statistics.first_time)


@examples(50)
@given(mixed_batches().filter(lambda batch: bool(batch.messages)), st.sampled_from(ODD), st.data())
def test_every_field_of_rows_compares_with_what_rows_have_as_in_records(
    batch: Batch, options: Options, data: st.DataObject
) -> None:
    """Where a value is not known, its column may hold anything."""
    columns = MessageColumns.of(batch, options)
    rows = Rows(columns, None)
    records = [columns.values(row) for row in range(len(columns))]
    for field in FIELDS.values():
        values = [value for record in records for value in field.values(record)] or [SOME[field.type]]
        value = data.draw(st.sampled_from(values))
        predicates: list[Predicate] = [IsThere(), Comparison(operator.eq, value), Comparison(operator.ne, value)]
        if field.type in (Type.NUMBER, Type.TIME, Type.DURATION):
            predicates += [Comparison(operator.le, value), Comparison(operator.gt, value), Within(value, value + 2)]
        for predicate in predicates:
            for is_all in (False, True):
                condition = Compared(FieldOperand(field), predicate, is_all)
                selected = rows.that_fulfil(condition).tolist()
                assert selected == list(map(condition.holds, records)), (field.name, predicate, is_all)


@examples(200)
@given(filters(), mixed_batches(), st.sampled_from(ODD))
def test_a_selected_batch_has_the_lines_of_the_whole(text: str, batch: Batch, options: Options) -> None:
    selection = Selection(Filter(text), batch, options, None)
    lines = b"".join(text_of(batch, options)).splitlines()
    wanted = [line for line, (item, index) in zip(lines, batch.in_order(), strict=True) if selection.has(item, index)]
    assert b"".join(text_of(selection.as_batch(), options)).splitlines() == wanted


def test_every_field_can_be_asked_for() -> None:
    for field in FIELDS.values():
        Filter(field.name)
        Filter(f"{field.name} == {(field.words or VALUES[field.type])[0]}")
