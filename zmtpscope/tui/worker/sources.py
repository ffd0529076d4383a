"""The sources of octets of a record (packet, stream, unpacked ...): each is a tab in the pane of octets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from zmtpscope.capture.segments import PACKET_MASK
from zmtpscope.dissect.records.details import Detail
from zmtpscope.export.details import OPENED
from zmtpscope.intervals import disjoint
from zmtpscope.store.packets import ShownPacket
from zmtpscope.tui.requests import Source

MAX_OCTETS = 1 << 20

MAX_PACKETS = 8
"""Maximum packets of a record that have a tab."""

TITLES = {0: "stream", OPENED: "opened"}
UNPACKED = "unpacked"
PACKET = -1
"""Source number of packets."""


@dataclass(slots=True)
class _Part:
    """A source while octets are added to it. `kind` is the number of the source in records."""

    kind: int
    title: str
    first: int
    octets: bytearray = field(default_factory=bytearray)
    stars: list[tuple[int, int]] = field(default_factory=list)
    parts: list[tuple[int, int, int, int]] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.first + len(self.octets)

    def add(self, octets: bytes, secrets: Iterable[range]) -> None:
        """Append octets, with 0 in place of secrets (ranges of offsets)."""
        begin, clean = self.end, bytearray(octets)
        for secret in secrets:
            start, stop = (min(max(0, at - begin), len(clean)) for at in (secret.start, secret.stop))
            clean[start:stop] = bytes(stop - start)
            if stop > start:
                self.stars.append((begin + start, begin + stop))
        self.octets += clean


class Sources:
    """Collects the octets of the units of a record, in order. Adjacent units are in one source."""

    def __init__(self) -> None:
        self._parts: list[_Part] = []

    def add(self, detail: Detail) -> int:
        """Add the octets of a unit, and return the index of their source."""
        last = self._parts[-1] if self._parts else None
        goes_on = last is not None and detail.source <= OPENED and last.kind == detail.source
        if last is None or not goes_on or last.end != detail.offset:
            last = _Part(detail.source, TITLES.get(detail.source, UNPACKED), detail.offset)
            self._parts.append(last)
        last.add(detail.octets, detail.secrets)
        return self._parts.index(last)

    def add_packet(self, shown: ShownPacket) -> int:
        """Add a packet, and return the index of its source."""
        packet, secrets = shown
        made = _Part(PACKET, f"packet {packet.reference & PACKET_MASK}", 0)
        made.add(packet.octets, secrets)
        for index, each in enumerate(self._parts):
            low, high = max(each.first, packet.begin), min(each.end, packet.begin + packet.stop - packet.start)
            if 0 <= each.kind <= OPENED and low < high:
                shift = packet.start - packet.begin
                made.parts.append((low + shift, high + shift, index, low))
        self._parts.append(made)
        return len(self._parts) - 1

    def all(self) -> tuple[Source, ...]:
        """Return all sources, cut to `MAX_OCTETS`."""
        return tuple(
            Source(
                each.title, each.first, bytes(each.octets[:MAX_OCTETS]), tuple(disjoint(each.stars)), tuple(each.parts)
            )
            for each in self._parts
        )

    @property
    def problem(self) -> str | None:
        longest = max((len(each.octets) for each in self._parts), default=0)
        if longest <= MAX_OCTETS:
            return None
        return f"the first {MAX_OCTETS:,} of {longest:,} octets are shown: read --json has all of them"
