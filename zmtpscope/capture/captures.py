"""The way in: paths become blocks of segments, in capture order over all files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zmtpscope.capture.errors import CaptureError, CaptureProblem, Damage
from zmtpscope.capture.headers import read_headers
from zmtpscope.capture.pcap import read_pcap
from zmtpscope.capture.segments import FILE_SHIFT, SegmentBlock
from zmtpscope.capture.source import open_source
from zmtpscope.capture.statistics import CaptureStatistics


class Captures:
    """The blocks of one or more captures; iterate once. `problems` and `statistics` grow while iterating."""

    def __init__(self, paths: Sequence[str], packet_limit: int | None, block_size: int) -> None:
        self.files: list[str | None] = [None if path == "-" else path for path in paths]
        self.problems: list[CaptureProblem] = []
        self.statistics = CaptureStatistics()
        self.packet_limit = packet_limit
        self.block_size = block_size

    def __iter__(self) -> Iterator[SegmentBlock]:
        statistics = self.statistics
        left = self.packet_limit
        ordinal = 0
        for index, name in enumerate(self.files):
            try:
                for run in read_pcap(open_source(name or "-"), self.block_size):
                    if left is not None:
                        run = run.part(0, left)
                        left -= len(run)
                    block = SegmentBlock(run.data, ordinal)
                    other = read_headers(run, block, index << FILE_SHIFT | run.first)
                    statistics.packets += len(run)
                    statistics.tcp_segments += len(block.keys)
                    if other:
                        statistics.other["not TCP"] = statistics.other.get("not TCP", 0) + other
                    ordinal += len(block.keys)
                    yield block
                    if left == 0:
                        return
            except Damage as damage:
                self.problems.append(CaptureProblem(name, damage.packet, damage.offset, damage.text))


def open_captures(paths: Sequence[str], *, packet_limit: int | None = None, block_size: int = 1 << 20) -> Captures:
    """Open captures for reading. Raises `CaptureError`."""
    try:
        for path in paths:
            if path != "-":
                open(path, "rb").close()
    except OSError as error:
        raise CaptureError(error.filename, error.strerror or "cannot be read") from error
    return Captures(paths, packet_limit, block_size)
