"""Filters of a query that the source decides itself: rows that they leave out never reach Spark, and flows that they
rule out are not read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from ipaddress import ip_address
from typing import Any, NamedTuple

import numpy as np
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

from zmtpscope.capture.segments import Mask, SegmentBlock
from zmtpscope.records import RECORDS
from zmtpscope.spark.flows import partitions_of

COMPARING = frozenset({"finding", "zre_pair"})
"""Record types that compare connections: what they say of one depends on others, so one worker reads all."""

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


class Endpoints(NamedTuple):
    """Ports or addresses one of which a flow must have, as they stand in a key."""

    values: frozenset[bytes]
    are_ports: bool

    def select(self, keys: Sequence[bytes]) -> Mask:
        """Which flows have one."""
        if self.are_ports:
            found = [key[-4:-2] in self.values or key[-2:] in self.values for key in keys]
        else:
            found = [
                key[: len(key) // 2 - 2] in self.values or key[len(key) // 2 - 2 : -4] in self.values for key in keys
            ]
        return np.array(found, np.bool_)


def _addresses(key: bytes) -> tuple[bytes, bytes]:
    size = (len(key) - 4) // 2
    return key[:size], key[size:-4]


def of_ports(ports: Collection[int]) -> Endpoints:
    """One of these ports."""
    return Endpoints(frozenset(port.to_bytes(2, "big") for port in ports), are_ports=True)


def of_hosts(hosts: Collection[bytes]) -> Endpoints:
    """One of these addresses."""
    return Endpoints(frozenset(hosts), are_ports=False)


def asked_for(ports: Collection[int], hosts: Collection[bytes]) -> tuple[Endpoints, ...]:
    """What flows must have where the options `port` and `host` name these; nothing is named: anything."""
    return (*([of_ports(ports)] if ports else []), *([of_hosts(hosts)] if hosts else []))


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


class FlowFilter(NamedTuple):
    """The flows of a run that one partition reads."""

    partition: int
    partitions: int
    endpoints: tuple[Endpoints, ...]
    """A flow must have one of each."""

    def select(self, block: SegmentBlock) -> SegmentBlock:
        """What the partition reads of a block: all datagrams belong to the first."""
        if self.partitions == 1 and not self.endpoints:
            return block
        chosen: Mask = np.ones(len(block.keys), np.bool_)
        if self.partitions > 1:
            chosen = partitions_of(block.keys, self.partitions) == self.partition
        datagrams: Mask = np.full(len(block.datagrams.keys), self.partition == 0)
        for each in self.endpoints:
            chosen &= each.select(block.keys)
            datagrams &= each.select(block.datagrams.keys)
        return block.select(chosen, datagrams=datagrams)
