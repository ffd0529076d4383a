"""Filters that the source decides leave out the rows that SQL would leave out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from zmtpscope.spark.filters import can_decide, endpoints_of, filtered

numbers = st.integers(0, 3)
texts = st.text("aé\0", max_size=2)
columns = {"packet": numbers, "topic": texts, "complete": st.booleans()}
MEANT = {
    EqualTo: lambda left, right: left == right,
    EqualNullSafe: lambda left, right: left == right,
    GreaterThan: lambda left, right: left > right,
    GreaterThanOrEqual: lambda left, right: left >= right,
    LessThan: lambda left, right: left < right,
    LessThanOrEqual: lambda left, right: left <= right,
    In: lambda left, right: left in right,
    StringStartsWith: str.startswith,
    StringEndsWith: str.endswith,
    StringContains: str.__contains__,
}


@st.composite
def filters(draw: st.DrawFn) -> Filter:
    name = draw(st.sampled_from(list(columns)))
    kinds = [EqualTo, EqualNullSafe, In, IsNull, IsNotNull, Not]
    if name != "complete":
        kinds += [GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual]
    if name == "topic":
        kinds += [StringStartsWith, StringEndsWith, StringContains]
    kind: Any = draw(st.sampled_from(kinds))
    if kind is Not:
        return Not(draw(filters()))
    if kind in (IsNull, IsNotNull):
        return kind((name,))  # type: ignore[no-any-return]
    if kind is In:
        return In((name,), tuple(draw(st.lists(columns[name], min_size=1, max_size=3))))
    return kind((name,), draw(columns[name]))  # type: ignore[no-any-return]


def in_sql(filter_: Any, row: dict[str, Any]) -> bool | None:
    """What SQL says of a row: true, false or unknown."""
    if isinstance(filter_, Not):
        inner = in_sql(filter_.child, row)
        return None if inner is None else not inner
    value = row[filter_.attribute[0]]
    if isinstance(filter_, IsNull | IsNotNull):
        return (value is None) == isinstance(filter_, IsNull)
    if value is None:
        return False if isinstance(filter_, EqualNullSafe) else None
    return bool(MEANT[type(filter_)](value, filter_.value))  # type: ignore[operator]


@given(
    rows=st.lists(st.fixed_dictionaries({name: st.none() | values for name, values in columns.items()}), max_size=5),
    chosen=st.lists(filters(), max_size=3),
)
@example(rows=[{"packet": None, "topic": None, "complete": None}], chosen=[Not(EqualTo(("packet",), 1))])
def test_filters_mean_what_sql_means(rows: list[dict[str, Any]], chosen: list[Filter]) -> None:
    batch = pa.RecordBatch.from_pylist(
        rows, pa.schema([("packet", pa.int64()), ("topic", pa.string()), ("complete", pa.bool_())])
    )
    assert all(can_decide("message", each) for each in chosen)
    assert filtered(batch, chosen).to_pylist() == [row for row in rows if all(in_sql(each, row) for each in chosen)]


@pytest.mark.parametrize(
    "filter_",
    [
        EqualTo(("payload", "protocol"), "json"),  # inside of a struct
        EqualTo(("bodies",), [b"a"]),
        EqualTo(("packet",), 1.5),
        EqualTo(("packet",), None),
        In(("packet",), (1, None)),
        Not(In(("topic",), ("a", None))),
        EqualTo(("nothing",), 1),
    ],
)
def test_what_is_no_plain_comparison_is_left_to_spark(filter_: Filter) -> None:
    assert not can_decide("message", filter_)


def test_flows_are_ruled_out_by_ports_and_addresses() -> None:
    here = bytes((10, 0, 0, 1, 10, 0, 0, 2, 0x15, 0xB3, 0xC0, 0))
    there = bytes(range(32)) + bytes((0xC0, 0, 0x15, 0xB4))

    def left(filter_: Filter) -> list[bool]:
        endpoints = endpoints_of("message", filter_)
        assert endpoints is not None
        chosen: list[bool] = endpoints.select([here, there]).tolist()
        return chosen

    assert left(EqualTo(("src_port",), 0x15B3)) == [True, False]
    assert left(In(("dst_port",), (0xC000, 1))) == [True, True]
    assert left(EqualTo(("src_port",), 70000)) == [False, False]
    assert left(EqualTo(("src_ip",), "10.0.0.2")) == [True, False]
    assert left(EqualTo(("dst_ip",), "10:1112:1314:1516:1718:191a:1b1c:1d1e")) == [False, False]
    assert left(EqualTo(("dst_ip",), "1:203:405:607:809:a0b:c0d:e0f")) == [False, True]
    assert endpoints_of("message", EqualTo(("src_ip",), "elsewhere")) is None
    assert endpoints_of("message", Not(EqualTo(("src_port",), 1))) is None
    assert endpoints_of("finding", EqualTo(("src_port",), 1)) is None  # which may be about two connections
