"""Count the packets of a run, the reasons why some are not TCP or UDP, and lost packets."""

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
    """Packet counts that the capturing tool wrote for one interface, since the capture on it started.

    `start` and `end` are in nanoseconds, or in another unit of the interface's clock; None if unknown. Counts are None
    if the tool wrote none.
    """

    name: str
    file: str | None
    start: int | None = None
    received: int | None = None
    """Packets received, before or after a filter, as the tool decides."""
    delivered: int | None = None
    dropped_by_interface: int | None = None
    dropped_by_system: int | None = None
    dropped_between: int = 0
    """Sum of losses that single packets report."""
    packets: int = 0
    end: int | None = None
    """Time of the interface's last statistics, in nanoseconds since the epoch."""

    @property
    def known_until(self) -> int | None:
        """The time up to which all packets of the interface were read, or None.

        None if the tool wrote no end time, or counted more packets than were read (the file was cut or filtered).
        """
        counted = self.delivered
        if counted is None and self.received is not None:
            counted = self.received - (self.dropped_by_interface or 0) - (self.dropped_by_system or 0)
        return self.end if counted is not None and counted <= self.packets else None

    @property
    def dropped(self) -> int:
        """The number of lost packets.

        The tool's totals, if present, include the losses that single packets report.
        """
        return max((self.dropped_by_interface or 0) + (self.dropped_by_system or 0), self.dropped_between)

    def update(self, other: InterfaceStatistics) -> None:
        """Merge the later counts `other` of the same interface. Counts since the same start only increase."""
        self.start = other.start if self.start is None else self.start
        for name in ("received", "delivered", "dropped_by_interface", "dropped_by_system", "end"):
            one, two = getattr(self, name), getattr(other, name)
            setattr(self, name, one if two is None else two if one is None else max(one, two))
        self.dropped_between += other.dropped_between
        self.packets += other.packets


@dataclass
class FileStatistics:
    """Statistics of one capture file: its interfaces by (section, number), and whether its clock was set back."""

    file: str | None
    interfaces: dict[tuple[int, int], InterfaceStatistics] = field(default_factory=dict)
    set_back: SetBack | None = None

    def interface(self, section: int, number: int, name: str) -> InterfaceStatistics:
        """Return the statistics of an interface, given by section and number; created if necessary.

        Above the maximum number of interfaces, the returned object is discarded.
        """
        key = section, number
        if key in self.interfaces:
            return self.interfaces[key]
        made = InterfaceStatistics(name or f"interface {number}", self.file)
        if len(self.interfaces) < MAX_INTERFACES:
            self.interfaces[key] = made
        return made


@dataclass
class CaptureStatistics:
    """Packet counts of a run.

    Every packet is counted once: `packets == tcp_segments + udp_datagrams + sum(other.values())`.
    """

    packets: int = 0
    octets: int = 0
    """Captured octets, with link layer headers."""
    shortened: int = 0
    """Packets truncated by the snap length."""
    tcp_segments: int = 0
    udp_datagrams: int = 0
    other: dict[str, int] = field(default_factory=dict)
    """Packets that are neither segment nor datagram, by reason."""
    fragments_given_up: int = 0
    """IP datagrams that did not become complete within the limits."""
    first_time: int | None = None
    last_time: int | None = None
    """The largest time, in nanoseconds since the epoch; `first_time` is that of the first packet in capture order."""
    is_cut: bool = False
    """Whether only the first packets were requested."""
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
        """Return the interfaces of all files, sorted by name and start."""
        found: dict[tuple[object, ...], InterfaceStatistics] = {}
        for index, file in enumerate(self.files):
            for place, interface in file.interfaces.items():
                key = (index, *place) if interface.start is None else (interface.name, interface.start)
                found.setdefault(key, InterfaceStatistics(interface.name, interface.file)).update(interface)
        return list(found.values())

    def end_time(self) -> int:
        """Return the end of the capture in nanoseconds since the epoch; 0 if it is unknown.

        The end is the earliest end of all interfaces that captured until the last packet. It is unknown if an interface
        or file has no end, or if packets were left out.
        """
        known = [(each.known_until, each.packets) for each in self.interfaces()]
        is_whole = sum(packets for end, packets in known if end is not None) == self.packets and not self.is_cut
        if self.last_time is None or not is_whole:
            return 0
        return min((end for end, _ in known if end is not None and end >= self.last_time), default=0)

    def dropped(self) -> dict[str, int]:
        """Return the number of lost packets by interface name, without interfaces that lost none."""
        drops: dict[str, int] = {}
        for interface in self.interfaces():
            if interface.dropped:
                drops[interface.name] = drops.get(interface.name, 0) + interface.dropped
        return drops

    def set_back(self) -> SetBack | None:
        """Return the largest step by which a clock was set back, or None."""
        return folded(file.set_back for file in self.files if file.set_back is not None)

    def fold_files(self) -> None:
        """Merge the statistics of all files into one, so that memory does not grow with the number of files."""
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
    """Problems and statistics of all files read so far; they grow while files are read."""

    problems: list[CaptureProblem] = field(default_factory=list)
    statistics: list[FileStatistics] = field(default_factory=list)
    packets: int = 0
    """Number of packets read from one file, if the caller merges the reports of several (`run_statistics`)."""


def run_statistics(last_time: int, reports: Sequence[FileReports]) -> CaptureStatistics:
    """Return the packet counts of files that were read separately.

    `last_time` is the time of the last packet (ns).
    """
    files = [each for report in reports for each in report.statistics]
    return CaptureStatistics(sum(report.packets for report in reports), last_time=last_time, files=files)
