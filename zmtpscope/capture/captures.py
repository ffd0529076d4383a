"""Open captures and read them as blocks of TCP segments, in capture order over all files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from zmtpscope.capture.decoder import Decoder, Fragment
from zmtpscope.capture.files import ALWAYS, TimeSpan, find_again, find_files
from zmtpscope.capture.following import Follow, read_followed
from zmtpscope.capture.headers import read_headers
from zmtpscope.capture.merge import read_merged
from zmtpscope.capture.packets import PacketBlock
from zmtpscope.capture.segments import ORDINALS, PacketPlaces, SegmentBlock
from zmtpscope.capture.statistics import CaptureStatistics, FileReports

LARGE = 8 << 20
"""Size in octets of an allocation that is larger than a block and any of its columns."""


class Segmenter:
    def __init__(self, *, put_together: bool = True) -> None:
        self.statistics = CaptureStatistics()
        self._decoder = Decoder(self.statistics, put_together=put_together)
        self._ordinal = 0
        self.fragments_apart: list[Fragment] = []
        """Fragments of IP datagrams in the last block, if the caller reassembles them."""

    def feed(self, packets: PacketBlock) -> SegmentBlock:
        """Decode packets; return a block of their TCP segments and UDP datagrams.

        Other packets only advance `latest`, the time of the last packet.
        """
        if not len(packets):
            return SegmentBlock(b"", self._ordinal)
        block = read_headers(packets, self._decoder, self._ordinal)
        self.fragments_apart = self._decoder.fragments_apart
        self._decoder.begin(b"")  # release the octets of the finished block
        block.latest = int(packets.times.max())
        block.places = PacketPlaces(packets.references, packets.offsets, packets.stops - packets.starts, packets.starts)
        self._ordinal += ORDINALS * len(block)
        self.statistics.add(packets)
        self.statistics.tcp_segments += len(block)
        memberships = len(block.datagrams.memberships())
        self.statistics.count("IGMP or MLD", memberships)
        self.statistics.udp_datagrams += len(block.datagrams) - memberships
        return block

    def finish(self) -> None:
        fragments = self._decoder.fragments
        fragments.finish()
        self.statistics.fragments_given_up = fragments.given_up


class Captures:
    """The segments of one or more captures, block by block. Iterate over it once.

    Packet references index `files`, the file names (None: standard input). `files`, `problems` and `statistics` grow
    while iterating; a problem is added after the packets before it. `follow`: read files that another process is still
    writing.
    """

    def __init__(
        self,
        files: list[str | None],
        read: Callable[[FileReports], Iterator[PacketBlock]],
        packet_limit: int | None,
        follow: Follow | None = None,
    ) -> None:
        self.files = files
        self.follow = follow
        self._segmenter = Segmenter()
        self.statistics = self._segmenter.statistics
        self._reports = FileReports(statistics=self.statistics.files)
        self.problems = self._reports.problems
        self._read = read
        self._packet_limit = packet_limit
        self.most_packets = sys.maxsize
        """Maximum packets of a block. Lower it while iterating to get control back more often."""

    def __iter__(self) -> Iterator[SegmentBlock]:
        # glibc requests memory from the kernel, with a page fault for every page, for each allocation larger than any
        # piece that it ever freed (at first 128 KiB)
        bytes(LARGE)
        left = self._packet_limit
        for packets in self._read(self._reports):
            if left is not None:
                packets = packets[:left]
                left -= len(packets)
            while len(packets) > self.most_packets:
                size = self.most_packets
                yield self._segmenter.feed(packets[:size])
                packets = packets[size:]
            yield self._segmenter.feed(packets)
            if left == 0:
                self.statistics.is_cut = True
                break
        self._segmenter.finish()


BLOCK_SIZE = 2 << 20
"""Octets of a block. With half the size, reading takes a tenth longer, because each side is fed more often; twice
the size gains little."""
LARGE_BLOCK_SIZE = 4 << 20
"""Octets of a block for `tui`, and for commands whose output comes after the last block: with hundreds of connections,
`check` takes three quarters of the time, and 25 MB more memory."""
FOLLOWED_BLOCK_SIZE = 1 << 19
"""Octets of a block of a growing capture: its records take a quarter of the memory."""


def open_captures(paths: Sequence[str], *, packet_limit: int | None = None, block_size: int = BLOCK_SIZE) -> Captures:
    """Open files, FIFOs, directories and standard input ("-").

    `packet_limit`: stop after so many packets. About `block_size` octets are read at a time; the segments do not depend
    on it. Raises `CaptureError` if a path is missing, unreadable or not a capture.
    """
    files = find_files(paths)
    read = partial(read_merged, files, block_size)
    return Captures([file.name for file in files], read, packet_limit)


def read_packets(paths: Sequence[str], *, block_size: int = BLOCK_SIZE) -> Iterator[PacketBlock]:
    """Yield the packets of capture files in blocks of about `block_size` octets, merged in time order.

    Packets after damage in a file are left out. Raises `CaptureError` if a path is missing, unreadable or not a
    capture.
    """
    yield from read_merged(find_files(paths), block_size, FileReports(statistics=[]))


def reopen_captures(paths: Sequence[str], span: TimeSpan = ALWAYS, *, block_size: int = BLOCK_SIZE) -> Captures:
    """Open capture files again and read the packets within `span`.

    `paths` are the files of an earlier run, perhaps in another process. Files that have become unreadable are reported
    as problems, and keep their positions in `files`.
    """

    def read(reports: FileReports) -> Iterator[PacketBlock]:
        return read_merged(find_again(paths, span, reports), block_size, reports)

    return Captures(list(paths), read, None)


def follow_captures(
    follow: Follow, *, packet_limit: int | None = None, block_size: int = FOLLOWED_BLOCK_SIZE
) -> Captures:
    """Read the capture files of `follow` while another process is still writing them.

    `packet_limit`: stop after so many packets. When no octets arrive, blocks without segments are yielded, so that the
    caller can act on the time. Iterating raises `CaptureError`.
    """
    names: list[str | None] = []
    return Captures(names, partial(read_followed, follow, names, block_size), packet_limit, follow)
