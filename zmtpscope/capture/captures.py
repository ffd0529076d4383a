"""The way in: paths become blocks of segments, in capture order over all files."""

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
"""Octets: more than a block has, and than any column over it."""


class Segmenter:
    """The packets of one run, wherever they come from, become segments; `statistics` counts them."""

    def __init__(self, *, put_together: bool = True) -> None:
        self.statistics = CaptureStatistics()
        self._decoder = Decoder(self.statistics, put_together=put_together)
        self._ordinal = 0
        self.fragments_apart: list[Fragment] = []
        """Which of the packets that were taken last are fragments of IP datagrams, if those are not put together."""

    def feed(self, packets: PacketBlock) -> SegmentBlock:
        """The segments and datagrams of the next packets; of packets that are neither only `latest` is left."""
        if not len(packets):
            return SegmentBlock(b"", self._ordinal)
        block = read_headers(packets, self._decoder, self._ordinal)
        self.fragments_apart = self._decoder.fragments_apart
        self._decoder.begin(b"")  # keeps no octets of a block that is over
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
        """No more packets will come."""
        fragments = self._decoder.fragments
        fragments.finish()
        self.statistics.fragments_given_up = fragments.given_up


class Captures:
    """The segments of one or more captures, block by block; to be iterated once.

    `files` are the names that packet references index (None: standard input); of files that are followed they come
    while iterating. `problems` and `statistics` grow then; what could be read in front of a problem has been handed out
    before.
    """

    def __init__(
        self,
        files: list[str | None],
        read: Callable[[FileReports], Iterator[PacketBlock]],
        packet_limit: int | None,
    ) -> None:
        self.files = files
        self._segmenter = Segmenter()
        self.statistics = self._segmenter.statistics
        self._reports = FileReports(statistics=self.statistics.files)
        self.problems = self._reports.problems
        self._read = read
        self._packet_limit = packet_limit
        self.most_packets = sys.maxsize
        """Packets of a block at most; may be changed while iterating, by who wants to do something else in between."""

    def __iter__(self) -> Iterator[SegmentBlock]:
        # glibc takes anew from the kernel, with a fault for every page, whatever is larger than the largest piece it
        # ever gave back (at first 128 KiB). Giving back a large one that was never touched costs nothing.
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
"""Octets: half as many cost a tenth more, since each side is fed more often; twice as many gain next to nothing."""
FOLLOWED_BLOCK_SIZE = 1 << 19
"""The same of a capture that grows: a quarter as many records of a block are in memory at a time."""


def open_captures(paths: Sequence[str], *, packet_limit: int | None = None, block_size: int = BLOCK_SIZE) -> Captures:
    """Open files, fifos, directories and standard input ("-") for reading, at most `packet_limit` packets in all.

    Octets are read about `block_size` at a time; what comes out does not depend on it. Raises `CaptureError` if one of
    `paths` is missing, unreadable or no capture.
    """
    files = find_files(paths)
    read = partial(read_merged, files, block_size)
    return Captures([file.name for file in files], read, packet_limit)


def read_packets(paths: Sequence[str], *, block_size: int = BLOCK_SIZE) -> Iterator[PacketBlock]:
    """The packets of files as they were captured, in the order and with the references of `open_captures`; those behind
    damage are left out. Raises `CaptureError` as it does."""
    yield from read_merged(find_files(paths), block_size, FileReports(statistics=[]))


def reopen_captures(paths: Sequence[str], span: TimeSpan = ALWAYS, *, block_size: int = BLOCK_SIZE) -> Captures:
    """Read the packets within `span` of files that were found to be captures before, perhaps by another process. What
    has become of a file since is one of the problems, and its place in `files` is kept."""

    def read(reports: FileReports) -> Iterator[PacketBlock]:
        return read_merged(find_again(paths, span, reports), block_size, reports)

    return Captures(list(paths), read, None)


def follow_captures(
    follow: Follow, *, packet_limit: int | None = None, block_size: int = FOLLOWED_BLOCK_SIZE
) -> Captures:
    """Read what another process still writes: the files of `follow`, one after the other, until it says that nothing
    more will come. Where nothing came for a while, blocks without segments do, so that the time can be looked at.

    What comes out is that of `open_captures` over the same files, when they are complete. Iterating raises
    `CaptureError` where a file cannot be read or is no capture.
    """
    names: list[str | None] = []
    return Captures(names, partial(read_followed, follow, names, block_size), packet_limit)
