"""The counters of one run over captures: what the packets were, why some were not TCP or UDP, how many were lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from zmtpscope.capture.clock import SetBack, folded
from zmtpscope.capture.errors import CaptureProblem
from zmtpscope.capture.packets import PacketBlock

MOST_INTERFACES = 4096
"""Of more interfaces than that of one file no counts are remembered."""


@dataclass
class InterfaceStatistics:
    """What a capturing tool says of one interface, in packets since its capture began at `start` (nanoseconds, or
    whatever the clock of the interface counts; None: not known)."""

    name: str
    file: str | None
    start: int | None = None
    received: int | None = None
    """By the interface, as far as a filter let them through or not: tools differ."""
    delivered: int | None = None
    """To the tool."""
    dropped_by_interface: int | None = None
    dropped_by_system: int | None = None
    dropped_between: int = 0
    """The sum of what its packets say was lost in front of them."""
    packets: int = 0
    """Packets of it that were read."""
    end: int | None = None
    """When its capture ended, in nanoseconds since the epoch, as far as its last statistics say."""

    @property
    def known_until(self) -> int | None:
        """The time up to which all its packets were read. None where the tool wrote no end, or counts more packets than
        were read: then the file was cut or filtered, and the end is that of the whole."""
        counted = self.delivered
        if counted is None and self.received is not None:
            counted = self.received - (self.dropped_by_interface or 0) - (self.dropped_by_system or 0)
        return self.end if counted is not None and counted <= self.packets else None

    @property
    def dropped(self) -> int:
        """How many packets were lost: what packets say is part of the totals, where there are any."""
        return max((self.dropped_by_interface or 0) + (self.dropped_by_system or 0), self.dropped_between)

    def update(self, other: InterfaceStatistics) -> None:
        """Take over other counts of the same interface: counts since one start only grow."""
        self.start = other.start if self.start is None else self.start
        for name in ("received", "delivered", "dropped_by_interface", "dropped_by_system", "end"):
            one, two = getattr(self, name), getattr(other, name)
            setattr(self, name, one if two is None else two if one is None else max(one, two))
        self.dropped_between += other.dropped_between
        self.packets += other.packets


@dataclass
class FileStatistics:
    """What one file says of its interfaces, each of which is known by its section and its number there; and whether
    its clock was set back."""

    file: str | None
    interfaces: dict[tuple[int, int], InterfaceStatistics] = field(default_factory=dict)
    set_back: SetBack | None = None

    def interface(self, section: int, number: int, name: str) -> InterfaceStatistics:
        """The counts of an interface; those of one too many are forgotten."""
        key = section, number
        if key in self.interfaces:
            return self.interfaces[key]
        made = InterfaceStatistics(name or f"interface {number}", self.file)
        if len(self.interfaces) < MOST_INTERFACES:
            self.interfaces[key] = made
        return made


@dataclass
class CaptureStatistics:
    """Every packet is counted once: `packets == tcp_segments + udp_datagrams + sum(other.values())`."""

    packets: int = 0
    octets: int = 0
    """Captured octets of all packets, link layer headers included."""
    tcp_segments: int = 0
    udp_datagrams: int = 0
    other: dict[str, int] = field(default_factory=dict)
    """Packets that gave no segment and no datagram, by reason."""
    fragments_given_up: int = 0
    """Datagrams of which some fragments came but never all, or too late, or too many at a time."""
    first_time: int | None = None
    last_time: int | None = None
    """The time of the first packet in capture order, and the largest time, nanoseconds since the epoch."""
    is_cut: bool = False
    """Only the first packets were wanted."""
    files: list[FileStatistics] = field(default_factory=list)
    """What files say of their interfaces, as far as they have been read."""

    def add(self, packets: PacketBlock) -> None:
        """Count packets, whatever becomes of them."""
        if not len(packets):
            return
        self.packets += len(packets)
        self.octets += int((packets.stops - packets.starts).sum())
        if self.first_time is None:
            self.first_time = int(packets.times[0])
        self.last_time = max(self.last_time or 0, int(packets.times.max()))

    def count(self, reason: str, packets: int = 1) -> None:
        """Count packets that gave no segment and no datagram of UDP."""
        if packets:
            self.other[reason] = self.other.get(reason, 0) + packets

    def interfaces(self) -> list[InterfaceStatistics]:
        """What is known of each interface. The files of one capture session share theirs: name and start are equal."""
        found: dict[tuple[object, ...], InterfaceStatistics] = {}
        for index, file in enumerate(self.files):
            for place, interface in file.interfaces.items():
                key = (index, *place) if interface.start is None else (interface.name, interface.start)
                found.setdefault(key, InterfaceStatistics(interface.name, interface.file)).update(interface)
        return list(found.values())

    def end_time(self) -> int:
        """When the capture ended, in nanoseconds since the epoch: the first end of the interfaces that were captured
        until the last packet. 0 where an interface, or a file, does not tell, or where packets were left out."""
        known = [(each.known_until, each.packets) for each in self.interfaces()]
        is_whole = sum(packets for end, packets in known if end is not None) == self.packets and not self.is_cut
        if self.last_time is None or not is_whole:
            return 0
        return min((end for end, _ in known if end is not None and end >= self.last_time), default=0)

    def dropped(self) -> dict[str, int]:
        """How many packets were lost while they were captured, by the name of the interface, where any were."""
        drops: dict[str, int] = {}
        for interface in self.interfaces():
            if interface.dropped:
                drops[interface.name] = drops.get(interface.name, 0) + interface.dropped
        return drops

    def set_back(self) -> SetBack | None:
        """Where the clock of some file was set back."""
        return folded(file.set_back for file in self.files if file.set_back is not None)

    def fold_files(self) -> None:
        """Sum up what `files` say, so that it does not grow with their number; what was lost stays what it was."""
        together = FileStatistics(None, set_back=self.set_back())
        lost: dict[str, int] = {}
        for place, interface in enumerate(self.interfaces()):
            if interface.start is not None:
                together.interfaces[0, place] = interface
            elif interface.dropped:
                lost[interface.name] = lost.get(interface.name, 0) + interface.dropped
        for place, (name, dropped) in enumerate(lost.items()):
            together.interfaces[1, place] = InterfaceStatistics(name, None, dropped_between=dropped)
        self.files[:] = [together]


@dataclass
class FileReports:
    """What was found out about files beside their packets; it grows while they are read."""

    problems: list[CaptureProblem] = field(default_factory=list)
    statistics: list[FileStatistics] = field(default_factory=list)
    packets: int = 0
    """Packets of a file that somebody else counts together with others (`run_statistics`)."""


def run_statistics(last_time: int, reports: Sequence[FileReports]) -> CaptureStatistics:
    """The counts of a run whose files were read one by one; `last_time` is that of the last packet."""
    files = [each for report in reports for each in report.statistics]
    return CaptureStatistics(sum(report.packets for report in reports), last_time=last_time, files=files)
