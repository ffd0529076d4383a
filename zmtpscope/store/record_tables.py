"""Pack records other than messages and frames.

Numbers are columns. All other fields of a record are one value in the spool, since few distinct ones occur.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from zmtpscope.dissect import Record
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.batch import RANKS, Unit
from zmtpscope.dissect.records.tables import PacketSlice
from zmtpscope.records import RECORDS, empty
from zmtpscope.store.packed import Columns, Int64, Optional, Packed
from zmtpscope.store.streams import Words
from zmtpscope.zmtp.reader import FieldNode

OF_STREAM = Stream._fields
SET = ("schema", "record")
"""Fields that are equal in all records of a type."""

NUMBERS = {
    name: tuple(
        field.name for field in type_.fields if field.type in ("int", "bool") and field.name not in (*OF_STREAM, *SET)
    )
    for name, type_ in RECORDS.items()
}
"""Fields that are stored as columns."""
TRUTHS = {
    name: frozenset(field.name for field in type_.fields if field.type == "bool") for name, type_ in RECORDS.items()
}
REST = {
    name: tuple(field.name for field in type_.fields if field.name not in (*OF_STREAM, *SET, "file", *NUMBERS[name]))
    for name, type_ in RECORDS.items()
}
"""Fields that are no columns, but kept together."""

LARGE = 2**63
"""Larger numbers exceed signed 64 bits, and are kept with the fields that are no columns."""

ORDER = ("ordinal", "place", "side", "source", "offset")
"""The sort key of records of one type. Places and offsets are unsigned 64-bit numbers."""

UNSIGNED = 2**64 - 1


@dataclass(slots=True)
class Units(Columns):
    """For each record: the `Regime` by which its octets are parsed, and offset and size of octets, packets and field
    trees in the spool.

    The size is 0 for a record without octets.
    """

    regimes: Words
    places: Packed
    sizes: Packed


@dataclass(slots=True)
class PackedRecords(Columns):
    """Packed records of one type.

    `places` and `sizes` are spool offset and size of the fields that are not numbers. `units` is None if no record has
    octets.
    """

    type: str
    streams: Packed
    files: Words
    numbers: dict[str, Optional]
    order: dict[str, Packed]
    places: Packed
    sizes: Packed
    units: Units | None

    def __len__(self) -> int:
        return len(self.streams)

    @property
    def times(self) -> Int64:
        return self.numbers["ts_ns"].values.all()

    def record(self, place: int, stream_of: Callable[[int], Stream], read: Callable[[int, int], bytes]) -> Record:
        values = empty(self.type)
        values["schema"], values["record"], values["file"] = 1, self.type, self.files[place]
        values.update(stream_of(self.streams[place])._asdict())
        truths = TRUTHS[self.type]
        for name, column in self.numbers.items():
            number = column[place]
            values[name] = bool(number) if number is not None and name in truths else number
        rest, large = marshal.loads(read(self.places[place], self.sizes[place]))
        values.update(zip(REST[self.type], rest, strict=True))
        values.update(large)
        unit = None
        if self.units is not None and (size := self.units.sizes[place]):
            start, octets, slices, tree = marshal.loads(read(self.units.places[place], size))
            packets = [PacketSlice(*each) for each in slices]
            unit = Unit(self.units.regimes[place], start, octets, packets, None if tree is None else _node(tree))
        ordinal, at, side, source, offset = (self.order[name][place] for name in ORDER)
        return Record.of(
            self.type, (ordinal, at & UNSIGNED, side, source, offset & UNSIGNED, RANKS[self.type]), values, unit
        )


def pack_records(
    type_: str, records: Sequence[Record], code_of: Callable[[Stream], int], keep: Callable[[bytes], tuple[int, int]]
) -> PackedRecords:
    """Pack records of one type.

    `code_of` returns the number of a connection or flow in the chunk. `keep` stores octets in the spool (equal ones
    once), and returns their offset and size.
    """
    streams, kept = [], []
    numbers: dict[str, list[int | None]] = {name: [] for name in NUMBERS[type_]}
    for record in records:
        values = record.values
        streams.append(code_of(Stream(*[values[name] for name in OF_STREAM])))
        large = {}
        for name, column in numbers.items():
            number = values[name]
            if number is not None and not -LARGE <= number < LARGE:
                large[name], number = number, None
            column.append(number)
        kept.append(keep(marshal.dumps(([values[name] for name in REST[type_]], large), 2)))
    # a place may need all 64 bits, and an ordinal may be negative
    orders = np.array([[number & UNSIGNED for number in record.order[:-1]] for record in records], np.uint64)
    orders = orders.view(np.int64)
    places = np.array(kept, np.int64)
    return PackedRecords(
        type_,
        Packed.of(np.array(streams, np.int64)),
        Words.of(record.values["file"] for record in records),
        {name: Optional.of(column) for name, column in numbers.items()},
        {name: Packed.of(orders[:, column]) for column, name in enumerate(ORDER)},
        Packed.of(places[:, 0]),
        Packed.of(places[:, 1]),
        _pack_units([record.unit for record in records], keep),
    )


def _pack_units(units: Sequence[Unit | None], keep: Callable[[bytes], tuple[int, int]]) -> Units | None:
    if not any(units):
        return None
    kept = []
    for unit in units:
        if unit is None:
            kept.append((0, 0))
            continue
        tree = None if unit.tree is None else _as_tuple(unit.tree)
        slices = [tuple(each) for each in unit.slices]
        kept.append(keep(marshal.dumps((unit.offset, bytes(unit.octets), slices, tree), 2)))
    places = np.array(kept, np.int64)
    regimes = Words.of(None if unit is None else unit.regime for unit in units)
    return Units(regimes, Packed.of(places[:, 0]), Packed.of(places[:, 1]))


def _as_tuple(node: FieldNode) -> tuple[Any, ...]:
    return node.name, node.start, node.length, node.value, [_as_tuple(child) for child in node.children]


def _node(values: tuple[Any, ...]) -> FieldNode:
    name, start, length, value, children = values
    return FieldNode(name, start, length, value, [_node(child) for child in children])


def _no_units(count: int) -> Units:
    nothing = Packed(0, count, None)
    return Units(Words([None], nothing), nothing, nothing)


def join_records(parts: Sequence[PackedRecords], stream_begins: Sequence[int]) -> PackedRecords:
    """Concatenate tables; `stream_begins[i]` is added to the connection numbers of table i."""
    if any(part.units is not None for part in parts):
        parts = [replace(part, units=part.units or _no_units(len(part))) for part in parts]
    return PackedRecords.joined(parts, streams=stream_begins)
