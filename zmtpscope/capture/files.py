"""Find the capture files that paths name, and read them with corrected packet times."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from itertools import chain
from typing import NamedTuple

import numpy as np

from zmtpscope.capture import pcap, pcapng
from zmtpscope.capture.clock import Clocks, SetBack, folded
from zmtpscope.capture.errors import CaptureError, CaptureProblem, CutShort, Damage
from zmtpscope.capture.packets import LATEST, PacketBlock
from zmtpscope.capture.segments import FILE_SHIFT, PACKET_MASK
from zmtpscope.capture.source import OpenFiles, Source, open_source
from zmtpscope.capture.statistics import FileReports, FileStatistics

LONGEST_MAGIC = 12
OTHER_FORMATS = {
    b"snoop\0": "a Solaris snoop file",
    b"GMBU": "a Microsoft Network Monitor file",
    b"RTSS": "a Microsoft Network Monitor file",
    b"TRSNIFF": "a Sniffer file",
    b"XCP\0": "a NetXRay file",
}
UNPACKING = {
    b"BZh": ("compressed with bzip2", "bzip2 -dc"),
    b"\xfd7zXZ": ("compressed with xz", "xz -dc"),
    b"\x04\x22\x4d\x18": ("compressed with lz4", "lz4 -dc"),
    b"PK\x03\x04": ("a zip archive", "unzip -p"),
}
"""Other formats that may contain captures, and the command that unpacks them."""
CONVERT = "Wireshark's editcap converts other capture formats to pcapng"
PEEK = 1 << 16
"""Octets of a read while searching for a file's first packet."""


class NotACapture(CaptureError):
    """A file is not a capture: an error if the user named it; in a directory the file is skipped."""


class TimeSpan(NamedTuple):
    """A span of packet times in nanoseconds since the epoch; `until` is excluded."""

    since: int
    until: int


ALWAYS = TimeSpan(0, LATEST)


class CaptureFile:
    """One capture file of a run. `name` None: standard input.

    A pipe stays open from the start. A regular file is open only while it is read, so that a run can have more files
    than a process can open. Packets outside of `span` are skipped; the time of a packet is then the largest time of the
    file so far. Raises `CaptureError`.
    """

    def __init__(self, path: str, open_files: OpenFiles | None = None, span: TimeSpan = ALWAYS) -> None:
        self.path = path
        self._span = span
        self._open_files = open_files
        self.name = None if path == "-" else path
        self.index = 0
        """Index in `Captures.files`."""
        self.packets_before = 0
        """Number of packets in earlier files, if packets are numbered through several files."""
        self.clocks: Clocks | None = None
        """Clocks of the previous file, if this file continues them."""
        self._started: Iterator[PacketBlock] | None = None
        self._source: Source | None = self._open()
        self.is_regular = self.name is not None and os.path.isfile(self.name) and not self._source.is_growing
        if self.is_regular:
            self._close()

    def first_time(self, block_size: int, reports: FileReports) -> int:
        """Return the time (ns) of the first packet, or -1 if there are no packets.

        About `block_size` octets are read. Statistics and errors are added to `reports`.
        """
        if self.is_regular:
            with closing(self._read(PEEK, FileReports())) as blocks:
                for block in blocks:
                    return int(block.times[0])
            return -1
        blocks = self._read(block_size, reports)
        first = next(blocks, None)
        self._started = iter(()) if first is None else chain([first], blocks)
        return -1 if first is None else int(first.times[0])

    def blocks(self, block_size: int, reports: FileReports) -> Iterator[PacketBlock]:
        """Yield the packets in blocks of about `block_size` octets, with their references in the run.

        Statistics, and errors that end the file early, are added to `reports`.
        """
        return self._started or self._read(block_size, reports)

    def _read(self, block_size: int, reports: FileReports) -> Generator[PacketBlock, None, None]:
        last = 0
        try:
            source = self._source = self._source or self._open()
            head = source.peek(LONGEST_MAGIC)
            reports.statistics.append(statistics := FileStatistics(self.name))
            if head.startswith(pcapng.MAGIC):
                blocks = pcapng.read_pcapng(source, block_size, statistics)
            else:
                blocks = pcap.read_pcap(source, block_size)
            clocks, taken = self.clocks or Clocks(), 0
            for block in blocks:
                last = int(block.references[-1]) if len(block) else last
                block.references += (self.index << FILE_SHIFT) + self.packets_before
                self._correct_times(block, clocks, statistics)
                if self._span is ALWAYS:
                    yield block
                    continue
                times = np.maximum.accumulate(np.maximum(block.times, taken))
                taken = int(times[-1]) if len(block) else taken
                first, behind = times.searchsorted(self._span).tolist()
                if first < behind:
                    yield block[first:behind]
                if taken >= self._span.until:
                    break
            if source.damage is not None:
                reports.problems.append(CaptureProblem(self.name, last, source.octets, source.damage))
        except Damage as damage:
            if source.was_left and isinstance(damage, CutShort):
                return
            text = source.damage or damage.text
            reports.problems.append(CaptureProblem(self.name, damage.packet, damage.offset, text))
        except CaptureError as error:
            reports.problems.append(CaptureProblem(self.name, 0, 0, error.message))
        finally:
            self._close()

    def _correct_times(self, block: PacketBlock, clocks: Clocks, statistics: FileStatistics) -> None:
        steps = clocks.correct(block.times, block.interfaces)
        if steps:
            packets = [int(block.references[row]) & PACKET_MASK for row, _ in steps]
            found = [
                SetBack(ns, int(block.times[row]), self.name, packet)
                for (row, ns), packet in zip(steps, packets, strict=True)
            ]
            before = [] if statistics.set_back is None else [statistics.set_back]
            statistics.set_back = folded(before + found)

    def _open(self) -> Source:
        source = self._open_source()
        head = source.peek(LONGEST_MAGIC)
        if head[:4] in pcap.MAGICS or (
            head.startswith(pcapng.MAGIC) and (len(head) < LONGEST_MAGIC or head[8:] in pcapng.BYTE_ORDERS)
        ):
            return source
        source.close()
        raise self._not_a_capture(head, source.damage)

    def _open_source(self) -> Source:
        return open_source(self.path, self._open_files)

    def _close(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None

    def _not_a_capture(self, head: bytes, damage: str | None) -> NotACapture:
        if damage is not None:
            return NotACapture(self.name, damage, offset=len(head))
        if not head:
            return NotACapture(self.name, "is empty", hint="even a capture without packets has a header")
        for magic, (what, program) in UNPACKING.items():
            if head.startswith(magic):
                import shlex  # not needed for captures

                unpack = program if self.name is None else f"{program} {shlex.quote(self.name)}"
                return NotACapture(self.name, f"is {what}", hint=f"type: {unpack} | zmtpscope read -")
        for magic, what in OTHER_FORMATS.items():
            if head.startswith(magic):
                return NotACapture(self.name, f"is {what}", hint="only pcap and pcapng are read; " + CONVERT)
        return NotACapture(self.name, f"is not a capture: neither pcap nor pcapng begins with {head[:4].hex(' ')}")


def find_files(paths: Sequence[str]) -> list[CaptureFile]:
    """Return the captures that `paths` name. A directory stands for all captures in it, sorted by name.

    Raises `CaptureError` for a path that is unreadable or not a capture, and for a directory without captures.
    """
    if list(paths).count("-") > 1:
        raise CaptureError(None, "can be read only once")
    files: list[CaptureFile] = []
    open_files = OpenFiles()
    for path in paths:
        is_directory = path != "-" and os.path.isdir(path)
        files += _in_directory(path, open_files) if is_directory else [CaptureFile(path, open_files)]
    for index, file in enumerate(files):
        file.index = index
    return files


def find_again(paths: Sequence[str], span: TimeSpan, reports: FileReports) -> list[CaptureFile]:
    """Return the captures at the `paths` of an earlier run, perhaps in another process.

    Packets outside of `span` are skipped. A file that is missing or no longer a capture becomes a problem in `reports`;
    other files keep their indexes.
    """
    files: list[CaptureFile] = []
    open_files = OpenFiles()
    for index, path in enumerate(paths):
        try:
            file = CaptureFile(path, open_files, span)
        except CaptureError as error:
            reports.problems.append(CaptureProblem(path, 0, error.offset or 0, error.message))
        else:
            file.index = index
            files.append(file)
    return files


def _in_directory(directory: str, open_files: OpenFiles) -> list[CaptureFile]:
    try:
        names = sorted(entry.name for entry in os.scandir(directory) if entry.is_file())
    except OSError as error:
        raise CaptureError(directory, f"cannot be listed: {error.strerror}") from None
    files: list[CaptureFile] = []
    for name in names:
        with suppress(NotACapture):
            files.append(CaptureFile(os.path.join(directory, name), open_files))
    if not files:
        what = f"none of its {len(names)} files is a capture" if names else "it is empty"
        hint = f"{what}; subdirectories are not searched"
        raise CaptureError(directory, "is a directory without captures", hint=hint)
    return files
