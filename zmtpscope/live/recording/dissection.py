"""Dissects packets as they arrive, without a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from zmtpscope.capture.captures import Segmenter
from zmtpscope.capture.link import RAW_IP
from zmtpscope.capture.packets import NOWHERE, PacketBlock
from zmtpscope.dissect import Analyser, Batch, Options

MAX_WAITING = 1 << 20
"""Octets of packets that wait for `advance`."""


class LiveDissection:
    """Dissects packets of this program, and passes the records to `write`, batch by batch.

    Records name `file` as their capture; None for packets in no file. The division of packets into calls only changes
    when records are written. A block costs a hundred times as much as a packet, so call `advance` once for events that
    arrive together.
    """

    def __init__(self, options: Options, write: Callable[[Batch], None], file: str | None = None) -> None:
        self.analyser = Analyser(options)
        self.analyser.begin([file])
        self._segmenter = Segmenter()
        self.statistics = self._segmenter.statistics
        self._write = write
        self._packets: list[bytes] = []
        self._times: list[int] = []
        self._waiting = 0
        self._count = 0

    def feed(self, time: int, packets: Sequence[bytes]) -> None:
        """Add IP packets with the same time (ns since 1970). They wait for `advance`, up to 1 MiB."""
        self._packets += packets
        self._times += [time] * len(packets)
        self._waiting += sum(map(len, packets))
        if self._waiting >= MAX_WAITING:
            self.advance()

    def advance(self) -> None:
        """Dissect the packets so far, and write the records that they determine."""
        if self._packets:
            block = self._segmenter.feed(self._block())
            self._write_all(self.analyser.feed(block))

    def finish(self) -> None:
        self.advance()
        self._segmenter.finish()
        self._write_all(self.analyser.finish())

    def _write_all(self, batches: Iterable[Batch]) -> None:
        for batch in batches:
            self._write(batch)

    def _block(self) -> PacketBlock:
        packets, times = self._packets, self._times
        self._packets, self._times, self._waiting = [], [], 0
        first, self._count = self._count + 1, self._count + len(packets)
        lengths = np.array([len(packet) for packet in packets], np.int64)
        stops = lengths.cumsum()
        return PacketBlock(
            b"".join(packets),
            links=np.full(len(packets), RAW_IP, np.int64),
            starts=stops - lengths,
            stops=stops,
            missing=np.zeros(len(packets), np.int64),
            times=np.array(times, np.int64),
            references=np.arange(first, self._count + 1),
            offsets=np.full(len(packets), NOWHERE),
        )
