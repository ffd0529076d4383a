"""The loop of the capture process: reads packets from a source and writes them to files until it is stopped."""

from __future__ import annotations

import select
import time
from collections import Counter
from collections.abc import Iterable
from struct import Struct
from typing import Any

from zmtpscope.export.pcapng import InterfaceStatistics, interface_description, interface_statistics, section_header
from zmtpscope.live.capture.controls import Controls
from zmtpscope.live.capture.output_files import OutputFiles, fitting
from zmtpscope.live.capture.packet_socket import Batch, CannotCapture, PacketSource
from zmtpscope.live.capture.settings import CaptureSettings

REPORT_INTERVAL, STATISTICS_INTERVAL, CHECK_INTERVAL = 0.01, 3.0, 1.0
"""Seconds between reports, between statistics in the file, and between checks of interfaces and file."""
IDLE_INTERVAL = 0.25
"""Seconds between reports without packets, which tell readers that there are none."""
QUIET = 0.06
"""Seconds without a packet after which the kernel's buffer is empty."""
LONGEST_DRAIN = 2.0
MAX_BATCHES = 64
"""Maximum batches written before other events are handled."""

_interface_at_8 = Struct("<8xI").unpack_from


class Capture:
    """A running capture: reads packets from a source, and writes them to `files`, whose first file is open."""

    def __init__(self, settings: CaptureSettings, source: PacketSource, files: OutputFiles, controls: Controls) -> None:
        self.settings = settings
        self.source = source
        self.files = files
        self.controls = controls
        self.packets = self.octets = 0
        self.received = self.kernel_drops = self.freezes = 0
        """The kernel's counters for this socket: packets received, packets dropped, and times that the ring was
        full."""
        self.refused: Counter[int] = Counter()
        """Packets read but not written, by interface."""
        self.never_read = 0
        self.notices: list[str] = [] if files.private is None else files.private.notices
        """Sentences for people, not sent to the parent yet."""
        self.failure: str | None = None
        self.is_complete = False
        """Whether a limit of the settings was reached, so that later packets are not lost."""
        self.started, self.started_clock = self.look = time.time_ns(), time.monotonic()
        """Start of the capture, and last read without packets. Packets up to the latter time may still arrive."""
        self.known_until = self.started
        """All packets up to this time (ns since the epoch) are written or counted as lost."""
        self.described = 0
        """Number of interfaces that the open file describes."""
        self.last_statistics: tuple[int, ...] = ()
        self.reported: dict[str, Any] = {}
        self.reported_files = 0
        """Number of complete files that the parent knows."""

    def run(self) -> None:
        steps = (
            self.capture_until_stopped,
            self.source.stop,
            self.drain,
            self.count_never_read,
            self.end_file,
        )
        for step in steps:
            try:
                step()
            except CannotCapture as failure:
                self.failure = self.failure or " -> ".join(filter(None, (str(failure), failure.hint)))
        self.controls.send_last({**self.changes(), "ended": True})

    def capture_until_stopped(self) -> None:
        """Capture until the parent sends `stop`, or a limit is reached. Raises `CannotCapture`."""
        poll = select.poll()
        poll.register(self.source.fileno(), select.POLLIN)
        poll.register(self.controls.incoming, select.POLLIN)
        next_check = next_statistics = next_report = time.monotonic()
        limit = self.settings.stop_after.duration
        deadline = float("inf") if limit is None else self.started_clock + limit
        is_stopped = has_changed = is_known = False
        while not is_stopped and not self.is_complete and not self.controls.is_stopped:
            next_look = self.look[1] + max(self.source.delay, IDLE_INTERVAL if is_known else 0.0)
            next_read = min(self.source.due, next_look) if self.source.has_read_all else self.source.due
            wake = min(next_check, deadline, next_read, next_report if has_changed else next_check)
            events = dict(poll.poll(max(0.0, wake - time.monotonic()) * 1000))
            is_stopped = self.controls.incoming in events and self.obey()
            look = time.time_ns(), time.monotonic()
            batches = self.write_batches()
            if look[1] >= next_look and batches < MAX_BATCHES and self.source.has_read_all:
                self.looked(*look)
                is_known = has_changed = True
            if batches:
                is_known, has_changed = False, True
            now = time.monotonic()
            if now >= next_check or events.get(self.source.fileno(), 0) & ~select.POLLIN:
                self.notices += self.source.check()
                self.files.check()
                next_check = now + CHECK_INTERVAL
            if now >= next_statistics:
                self.write_statistics()
                has_changed = True
                next_statistics = now + STATISTICS_INTERVAL
            if (has_changed or self.notices) and now >= next_report:
                has_changed = not self.report()
                next_report = now + REPORT_INTERVAL
            is_stopped = is_stopped or now >= deadline

    def obey(self) -> bool:
        """Carry out the commands of the parent; return whether one is `stop`."""
        is_stopped = False
        for command, *words in self.controls.commands():
            if command == "consumed":
                self.files.consumed(int(words[0]), int(words[1]))
            elif command == "stop":
                is_stopped = True
        return is_stopped or self.controls.is_gone

    def drain(self) -> None:
        """Write packets that arrived before the stop and are still in the kernel. Raises `CannotCapture`."""
        poll = select.poll()
        poll.register(self.source.fileno(), select.POLLIN)
        now = time.monotonic()
        deadline, quiet = now + LONGEST_DRAIN, now + QUIET
        while not self.is_complete and now < min(deadline, quiet):
            poll.poll(max(0.0, min(quiet, self.source.due) - now) * 1000)
            has_come = self.write_batches() > 0
            now = time.monotonic()
            if has_come:
                quiet = now + QUIET
                self.obey()
                self.report()

    def write_batches(self) -> int:
        """Write at most `MAX_BATCHES` batches of packets; return their number. Raises `CannotCapture`."""
        for count in range(MAX_BATCHES):
            batch = self.source.read()
            if batch is None:
                return count
            self.write(batch)
        return MAX_BATCHES

    def looked(self, time: int, clock: float) -> None:
        """Note that a read of the source left no packets behind, so that all packets up to a certain time are known.

        The previous read must be at least `source.delay` earlier. A packet may become readable `source.delay` after its
        time stamp, so a read confirms only the time of the previous read.
        """
        self.known_until, self.look = self.look[0], (time, clock)

    def write(self, batch: Batch) -> None:
        """Write the packets of a batch, as far as the limits of the settings allow. Raises `CannotCapture`."""
        blocks, limits = batch.blocks, self.settings.stop_after
        if limits.packets is not None or limits.filesize is not None:
            count = fitting(blocks, limits.packets, self.packets, limits.filesize, self.files.octets)
            self.is_complete = count < len(blocks) or self.packets + count == limits.packets
            for number in _interfaces_of(blocks[count:]):
                self.source.counts[number] -= 1
            blocks = blocks[:count]
        written = 0
        try:
            while written < len(blocks) and self.has_file(blocks[written:]):
                self.describe()
                written += self.files.write_packets(blocks[written:])
        finally:
            self.refused.update(_interfaces_of(blocks[written:]))
            self.packets += written
            self.octets += int(batch.captured[:written].sum())

    def has_file(self, blocks: list[bytes]) -> bool:
        """Return whether the packets fit into a file, opening the next file if needed. Raises `CannotCapture`."""
        if not self.files.is_full:
            return True
        if not self.files.make_room():
            return False
        self.end_file(blocks)
        self.described = 0
        self.files.open_next()
        return True

    def describe(self) -> None:
        """Write the pcapng header of a file, and blocks for new interfaces. Raises `CannotCapture`."""
        settings = self.settings
        if not self.files.files[-1].octets:
            self.files.write(section_header())
        for interface in self.source.interfaces[self.described :]:
            self.files.write(
                interface_description(interface.link_type, interface.name, settings.snap_length, settings.filter)
            )
            self.described += 1

    def end_file(self, unwritten: Iterable[bytes] = ()) -> None:
        """Write the last statistics block and close the file. Raises `CannotCapture`.

        The packets in `unwritten` are left out of the statistics.
        """
        if self.files.is_open:
            self.last_statistics = ()
            try:
                self.write_statistics(unwritten)
            finally:
                self.files.complete()

    def count(self) -> None:
        """Add the packets that the kernel has counted since the last call to the totals."""
        received, dropped, freezes = self.source.statistics()
        self.received += received
        self.kernel_drops += dropped
        self.freezes += freezes

    def count_never_read(self) -> None:
        """Count the packets that are still in the kernel at the end as lost."""
        self.count()
        if not self.is_complete:
            self.never_read = max(0, self.received - self.kernel_drops - sum(self.source.counts))

    def write_statistics(self, unwritten: Iterable[bytes] = ()) -> None:
        """Write interface statistics blocks if they changed, with the kernel's drops at the first interface.

        Raises `CannotCapture`.
        """
        self.count()
        waiting = Counter(_interfaces_of(unwritten))
        read = [count - waiting[number] for number, count in enumerate(self.source.counts)]
        lost = self.kernel_drops + self.never_read
        now = (*read, lost, self.refused.total())
        if now == self.last_statistics or not self.files.is_open:
            return
        self.last_statistics = now
        self.describe()
        end = time.time_ns()
        comment = f"The kernel's buffer was full {self.freezes} times." if self.freezes else ""
        for number, count in enumerate(read):
            refused = self.refused[number]
            statistics = InterfaceStatistics(self.started, end, count + lost, lost + refused, count - refused, comment)
            self.files.write(interface_statistics(number, statistics))
            lost, comment = 0, ""

    def report(self) -> bool:
        """Send changed values to the parent; return False if it has not read the previous report."""
        self.count()
        changes = self.changes()
        if not changes:
            return True
        if not self.controls.send(changes):
            return False
        changes.pop("notices", None)
        self.notices.clear()
        self.reported |= changes
        while self.reported_files < len(self.files.files) and self.files.files[self.reported_files].is_complete:
            self.reported_files += 1
        return True

    def changes(self) -> dict[str, Any]:
        """Return the values that have changed since the last report.

        For each file, by its number: path, octets, and whether it is complete.
        """
        files = enumerate(self.files.files[self.reported_files :], self.reported_files)
        values = {
            "packets": self.packets,
            "octets": self.octets,
            "known_until": self.known_until,
            "kernel_drops": self.kernel_drops,
            "freezes": self.freezes,
            "unread_drops": self.never_read + self.refused.total(),
            "interfaces": [each.name for each in self.source.interfaces],
            "files": {str(number): [each.path, each.octets, each.is_complete] for number, each in files},
            "notices": self.notices or None,
            "directories": None if self.files.private is None else [*self.files.private.directories],
            "failure": self.failure,
        }
        return {name: value for name, value in values.items() if self.reported.get(name) != value}


def _interfaces_of(blocks: Iterable[bytes]) -> list[int]:
    return [_interface_at_8(block)[0] for block in blocks]
