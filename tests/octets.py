"""Properties of the records of any capture, checked from the records alone: independent of the code that counts.

Records are dicts by the names of `zmtpscope.records`, as in JSON lines.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Record = Mapping[str, Any]

SUMMANDS = ("units", "gaps", "unfinished", "undissected")
"""The parts into which the octets of a stream are divided, by the names of
`zmtpscope.dissect.records.sink.OctetSums`."""
UNITS = frozenset({"greeting", "command", "message"})
MANY = "many "
"""Start of the reason of a record that represents many gaps or leftovers."""
NAMING = UNITS | {"gap", "leftover"}

INSIDE = {
    "gap": UNITS | {"leftover"},
    "command": UNITS | {"leftover"},
    "message": {"leftover"},
    "leftover": {"message"},
}
"""Records that may contain each record: the inner one accounts for its octets, the outer one for its remaining ones."""


@dataclass
class OctetRange:
    """The octets `start..stop` of the stream of a side, which `record` covers; it accounts for `named` of them
    itself."""

    start: int
    stop: int
    record: Record
    named: int = 0

    @property
    def summand(self) -> str:
        kind: str = self.record["record"]
        return "units" if kind in UNITS else "gaps" if kind == "gap" else self.record["kind"]

    @property
    def is_for_many(self) -> bool:
        """Whether the record represents many gaps or leftovers."""
        return self.record["record"] in ("gap", "leftover") and self.record["reason"].startswith(MANY)

    def __str__(self) -> str:
        return f"{self.record['record']} {self.start}..{self.stop}"


@dataclass
class Naming:
    """The number of octets of all sides by part of the sum, and all contradictions, in words."""

    octets: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def octets_named(records: Iterable[Record]) -> Naming:
    """Check that exactly one record accounts for each octet of each side of each connection.

    Each greeting, command, message, gap and leftover covers `length` octets from `offset` on. A gap can be inside a
    unit, a command or leftover between the frames of a message, and commands and messages between parts of a leftover:
    then the inner record accounts for its octets. `bytes` of a gap or leftover is the number of octets that it accounts
    for. If it represents many, octets of its range that other records cover are not counted. The stream of a side has
    `stream_bytes_0` and `stream_bytes_1` octets.
    """
    sides: dict[tuple[int, int], list[OctetRange]] = defaultdict(list)
    ends: dict[tuple[int, int], int] = {}
    for record in records:
        if record["record"] == "connection":
            for side in (0, 1):
                ends[record["conn"], side] = record[f"stream_bytes_{side}"]
        elif record["record"] in NAMING and record["conn"] is not None:
            start = record["offset"]
            sides[record["conn"], record["side"]].append(OctetRange(start, start + record["length"], record))
    naming = Naming()
    for place in sorted({*sides, *ends}):
        wrong = _name_side(sides[place], ends.get(place), naming.octets)
        naming.faults += [f"conn {place[0]}, side {place[1]}: {each}" for each in wrong]
    return naming


def _name_side(ranges: list[OctetRange], end: int | None, octets: Counter[str]) -> list[str]:
    """Count the octets of one side by part of the sum; return contradictions. The stream of the side ends at `end`."""
    if end is None:
        return [f"{len(ranges)} records, but none of the connection"]
    many = [each for each in ranges if each.is_for_many]
    apart = [each for each in ranges if each not in many and each.start < each.stop]
    faults = [f"{each} has no octets" for each in ranges if each.stop < each.start]
    faults += _name_octets(sorted(apart, key=lambda each: (each.start, -each.stop)), end, many)
    for each in apart + many:
        octets[each.summand] += each.named
        counted = each.record.get("bytes", each.named)
        if counted != each.named:
            faults.append(f"{each} says {counted} octets and names {each.named}")
    return faults


def _name_octets(ranges: list[OctetRange], end: int, many: list[OctetRange]) -> list[str]:
    """Assign each octet of a side to the innermost range around it, all others to the ranges that represent
    many."""
    faults: list[str] = []
    at = 0
    around: list[OctetRange] = []
    """The ranges that have begun and not ended, each inside the previous one."""
    rest: Counter[int] = Counter({number: each.record["bytes"] for number, each in enumerate(many)})

    def nobody(start: int, stop: int) -> None:
        """Note octets in no range: one that represents many must account for them."""
        for number, each in enumerate(many):
            taken = min(stop - start, rest[number]) if each.start <= start and stop <= each.stop else 0
            rest[number] -= taken
            each.named += taken
            start += taken
        if start < stop:
            faults.append(f"octets {start} to {stop} have no record")

    def go_to(offset: int) -> None:
        nonlocal at
        while at < offset or (around and around[-1].stop <= offset):
            stop = min(offset, around[-1].stop) if around else offset
            if around:
                around[-1].named += stop - at
            elif at < stop:
                nobody(at, stop)
            at = stop
            while around and around[-1].stop <= at:
                around.pop()

    for each in ranges:
        go_to(each.start)
        if around:
            kind, outer = each.record["record"], around[-1].record["record"]
            if each.stop > around[-1].stop or outer not in INSIDE.get(kind, ()):
                faults.append(f"{each} and {around[-1]} have octets in common")
                each.stop = max(each.start, min(each.stop, around[-1].stop))
        around.append(each)
    last = max((each.stop for each in [*ranges, *many]), default=0)
    if last > end:
        faults.append(f"records go on to {last}, the stream ends at {end}")
    go_to(max(end, last))
    return faults
