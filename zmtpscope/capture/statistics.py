"""Count the packets of a run, why some are not TCP or UDP, and lost packets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from zmtpscope.capture.clock import SetBack, folded
from zmtpscope.capture.errors import CaptureProblem
from zmtpscope.capture.packets import PacketBlock

MAX_INTERFACES = 4096


@dataclass
class InterfaceStatistics:
    """Counts from the capturing tool. `start` is in nanoseconds, or another unit of the interface's clock; None if
    unknown."""

    name: str
    file: str | None
    start: int | None = None
    received: int | None = None
    """Packets received, before or after a filter, as the tool decides."""
    delivered: int | None = None
    dropped_by_interface: int | None = None
    dropped_by_system: int | None = None
    dropped_between: int = 0
    """Losses that single packets report."""
    packets: int = 0
    end: int | None = None
    """Time of the last statistics (ns since the epoch)."""

    @property
    def known_until(self) -> int | None:
        """All packets of the interface up to this time were read.

        None if the tool wrote no end, or if the file was cut or filtered: the tool counted more packets.
        """
        counted = self.delivered
        if counted is None and self.received is not None:
            counted = self.received - (self.dropped_by_interface or 0) - (self.dropped_by_system or 0)
        return self.end if counted is not None and counted <= self.packets else None

    @property
    def dropped(self) -> int:
        """Totals of the tool, if any, include losses that packets report."""
        return max((self.dropped_by_interface or 0) + (self.dropped_by_system or 0), self.dropped_between)

    def update(self, other: InterfaceStatistics) -> None:
        """Counts since the same start only increase."""
        self.start = other.start if self.start is None else self.start
        for name in ("received", "delivered", "dropped_by_interface", "dropped_by_system", "end"):
            one, two = getattr(self, name), getattr(other, name)
            setattr(self, name, one if two is None else two if one is None else max(one, two))
        self.dropped_between += other.dropped_between
        self.packets += other.packets


@dataclass
class FileStatistics:
    """`interfaces` are by (section, number)."""

    file: str | None
    interfaces: dict[tuple[int, int], InterfaceStatistics] = field(default_factory=dict)
    set_back: SetBack | None = None

    def interface(self, section: int, number: int, name: str) -> InterfaceStatistics:
        """The statistics of too many interfaces are discarded."""
        key = section, number
        if key in self.interfaces:
            return self.interfaces[key]
        made = InterfaceStatistics(name or f"interface {number}", self.file)
        if len(self.interfaces) < MAX_INTERFACES:
            self.interfaces[key] = made
        return made


@dataclass
class CaptureStatistics:
    """Every packet is counted once: `packets == tcp_segments + udp_datagrams + sum(other.values())`."""

    packets: int = 0
    octets: int = 0
    """Captured octets, with link layer headers."""
    shortened: int = 0
    tcp_segments: int = 0
    udp_datagrams: int = 0
    other: dict[str, int] = field(default_factory=dict)
    """Other packets, by reason."""
    fragments_given_up: int = 0
    """Incomplete IP datagrams."""
    first_time: int | None = None
    last_time: int | None = None
    """The largest time (ns since the epoch). `first_time` is the time of the first packet in capture order."""
    is_cut: bool = False
    """The user requested only the first packets."""
    files: list[FileStatistics] = field(default_factory=list)

    def add(self, packets: PacketBlock) -> None:
        if not len(packets):
            return
        self.packets += len(packets)
        self.octets += int((packets.stops - packets.starts).sum())
        self.shortened += int(np.count_nonzero(packets.missing))
        if self.first_time is None:
            self.first_time = int(packets.times[0])
        self.last_time = max(self.last_time or 0, int(packets.times.max()))

    def count(self, reason: str, packets: int = 1) -> None:
        if packets:
            self.other[reason] = self.other.get(reason, 0) + packets

    def interfaces(self) -> list[InterfaceStatistics]:
        """Sorted by name and start."""
        found: dict[tuple[object, ...], InterfaceStatistics] = {}
        for index, file in enumerate(self.files):
            for place, interface in file.interfaces.items():
                key = (index, *place) if interface.start is None else (interface.name, interface.start)
                found.setdefault(key, InterfaceStatistics(interface.name, interface.file)).update(interface)
        return list(found.values())

    def end_time(self) -> int:
        """The earliest end of all interfaces captured until the last packet (ns since the epoch). 0 if an interface or
        file has no end, or packets were left out."""
        known = [(each.known_until, each.packets) for each in self.interfaces()]
        is_whole = sum(packets for end, packets in known if end is not None) == self.packets and not self.is_cut
        if self.last_time is None or not is_whole:
            return 0
        return min((end for end, _ in known if end is not None and end >= self.last_time), default=0)

    def dropped(self) -> dict[str, int]:
        """By interface name, without zeros."""
        drops: dict[str, int] = {}
        for interface in self.interfaces():
            if interface.dropped:
                drops[interface.name] = drops.get(interface.name, 0) + interface.dropped
        return drops

    def set_back(self) -> SetBack | None:
        return folded(file.set_back for file in self.files if file.set_back is not None)

    def fold_files(self) -> None:
        """Memory does not grow with the number of files."""
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
    """Reports on all files so far."""

    problems: list[CaptureProblem] = field(default_factory=list)
    statistics: list[FileStatistics] = field(default_factory=list)
    packets: int = 0
    """Packets of a file whose counts the caller merges (`run_statistics`)."""


def run_statistics(last_time: int, reports: Sequence[FileReports]) -> CaptureStatistics:
    """Merge the counts of files that were read separately."""
    files = [each for report in reports for each in report.statistics]
    return CaptureStatistics(sum(report.packets for report in reports), last_time=last_time, files=files)
