"""Filters of a query that the source decides itself: rows that they leave out never reach Spark, and flows that they
rule out are not read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from ipaddress import ip_address
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
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

from zmtpscope.records import RECORDS
from zmtpscope.spark.flows import Endpoints, of_hosts, of_ports
from zmtpscope.spark.settings import COMPARING

PORTS = frozenset({"src_port", "dst_port", "port_0", "port_1"})
HOSTS = frozenset({"src_ip", "dst_ip", "ip_0", "ip_1"})

PYTHON = {"int": int, "bool": bool, "text": str}
"""The types of columns that filters compare, and of the values that they are compared with."""

COMPARED: dict[type[Filter], Callable[[pa.Array, Any], pa.Array]] = {
    EqualTo: pc.equal,
    GreaterThan: pc.greater,
    GreaterThanOrEqual: pc.greater_equal,
    LessThan: pc.less,
    LessThanOrEqual: pc.less_equal,
    EqualNullSafe: lambda column, value: pc.fill_null(pc.equal(column, value), False),
    In: lambda column, values: pc.if_else(pc.is_null(column), None, pc.is_in(column, pa.array(values, column.type))),
    StringStartsWith: pc.starts_with,
    StringEndsWith: pc.ends_with,
    StringContains: pc.match_substring,
}


def can_decide(record: str, filter_: Filter) -> bool:
    """Whether rows are left out here by a filter as Spark would leave them out."""
    if isinstance(filter_, Not):
        return can_decide(record, filter_.child)
    path: tuple[str, ...] = getattr(filter_, "attribute", ())
    types = {field.name: field.type for field in RECORDS[record].fields}
    type_ = types.get(path[0]) if len(path) == 1 else None
    if type_ is None:
        return False
    if isinstance(filter_, IsNull | IsNotNull):
        return True
    expected = PYTHON.get(type_)
    return type(filter_) in COMPARED and all(type(value) is expected for value in _values(filter_))


def _values(filter_: Filter) -> Sequence[Any]:
    value = getattr(filter_, "value", None)
    return value if isinstance(value, tuple | list) else (value,)


def filtered(batch: pa.RecordBatch, filters: Collection[Filter]) -> pa.RecordBatch:
    """The rows for which all filters are true."""
    for filter_ in filters:
        batch = batch.filter(_decided(batch, filter_))
    return batch


def _decided(batch: pa.RecordBatch, filter_: Filter) -> pa.Array:
    """True, false or null for each row, as in SQL."""
    if isinstance(filter_, Not):
        return pc.invert(_decided(batch, filter_.child))
    column = batch.column(filter_.attribute[0])  # type: ignore[attr-defined]
    if isinstance(filter_, IsNull | IsNotNull):
        return column.is_null() if isinstance(filter_, IsNull) else column.is_valid()
    return COMPARED[type(filter_)](column, filter_.value)  # type: ignore[attr-defined]


def endpoints_of(record: str, filter_: Filter) -> Endpoints | None:
    """What flows must have whose rows a filter may leave in; None where it may be any flow."""
    if record in COMPARING or not isinstance(filter_, EqualTo | In):
        return None
    column = filter_.attribute[0]
    try:
        if column in PORTS:
            return of_ports([value for value in _values(filter_) if 0 <= value < 1 << 16])
        if column in HOSTS:
            return of_hosts([ip_address(value).packed for value in _values(filter_)])
    except ValueError:
        pass  # no address: no row has it, and the filter itself says so
    return None
