"""The state of one partition of a streaming query between micro-batches: its analyser and read positions."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from zmtpscope.capture import SegmentBlock, TimeSpan
from zmtpscope.capture.captures import Segmenter
from zmtpscope.capture.errors import CaptureError, CaptureProblem
from zmtpscope.capture.files import PEEK, CaptureFile
from zmtpscope.capture.merge import read_merged
from zmtpscope.capture.packets import PacketBlock
from zmtpscope.capture.segments import FILE_SHIFT
from zmtpscope.capture.source import OpenFiles
from zmtpscope.capture.statistics import FileReports
from zmtpscope.dissect import Analyser, Batch, Options, state
from zmtpscope.dissect.state import StateError
from zmtpscope.spark.capture_folder import BatchFile, MicroBatch, path_now

BLOCK_SIZE = 1 << 20
LENGTH_SIZE = 8
DIGEST_SIZE = 16


class Unread(NamedTuple):
    """A file of which `taken` packets were read. The others have the sort time `since` or later."""

    file: BatchFile
    taken: int
    since: int


class PartitionState:
    """The state of a partition after its last micro-batch, from which the next one continues."""

    def __init__(self, analyser: Analyser) -> None:
        self.analyser = analyser
        self.segmenter = Segmenter()
        self.files: list[str | None] = []
        """All files so far; packet references index them."""
        self.unread: list[Unread] = []
        self.problems: list[CaptureProblem] = []
        """Problems in the files of the last micro-batch."""

    def take(
        self, batch: MicroBatch, span: TimeSpan, select: Callable[[SegmentBlock], SegmentBlock]
    ) -> Iterator[Batch]:
        """Yield the records that a micro-batch completes. Afterwards the object contains the state after it.

        Only packets within `span` and of flows that `select` keeps are read.
        """
        reports = FileReports()
        self.files += [file.path for file in batch.files]
        self.analyser.begin(self.files)
        unread = self.unread + [Unread(file, 0, file.first_time) for file in batch.files]
        parts = _open(unread, batch.until, span, reports)
        for packets in read_merged([*parts], BLOCK_SIZE, reports):
            yield from self.analyser.feed(select(self.segmenter.feed(packets)))
        self.unread = [part.rest for part in parts if part.rest is not None]
        self.problems = reports.problems
        statistics = self.segmenter.statistics
        statistics.files += reports.statistics
        if batch.is_last:
            self.segmenter.finish()
            set_back, last = statistics.set_back(), statistics.end_time()
            yield from self.analyser.finish(statistics.dropped(), reports.problems, set_back=set_back, last=last)
        else:
            yield from self.analyser.tick(self.analyser.latest)
            yield from self.analyser.report(reports.problems)
        statistics.fold_files()

    def dump(self) -> bytes:
        """Serialise the state, the analyser first. Raises `StateError`."""
        analyser = state.dump(self.analyser)
        rest = pickle.dumps((self.segmenter, self.files, self.unread), pickle.HIGHEST_PROTOCOL)
        digest = blake2b(rest, digest_size=DIGEST_SIZE).digest()
        return zlib.compress(len(analyser).to_bytes(LENGTH_SIZE) + analyser + digest + rest, zlib.Z_BEST_SPEED)

    @staticmethod
    def load(octets: bytes, options: Options) -> PartitionState:
        """Restore a state that `dump` returned; `options` must be those of the original. Raises `StateError`."""
        try:
            octets = zlib.decompress(octets)
        except zlib.error as error:
            raise StateError(
                f"the state of a partition is damaged ({error}) -> start again without the state"
            ) from None
        end = LENGTH_SIZE + int.from_bytes(octets[:LENGTH_SIZE])
        loaded = PartitionState(state.load(octets[LENGTH_SIZE:end], options))  # checks its version
        digest, rest = octets[end : end + DIGEST_SIZE], octets[end + DIGEST_SIZE :]
        if blake2b(rest, digest_size=DIGEST_SIZE).digest() != digest:
            raise StateError("the state of a partition is damaged -> start again without the state")
        loaded.segmenter, loaded.files, loaded.unread = pickle.loads(rest)
        return loaded


class CapturePart(CaptureFile):
    """The packets of a file that were not read before, and have a sort time before `until` (ns; None: all)."""

    def __init__(self, unread: Unread, until: int | None, span: TimeSpan, open_files: OpenFiles) -> None:
        super().__init__(path_now(unread.file.path), open_files, span)
        if super().first_time(PEEK, FileReports()) != unread.file.first_time:
            raise CaptureError(self.path, "another file replaced it")
        self.rest: Unread | None = unread
        """The rest of the file after this micro-batch."""
        self._until = until

    def first_time(self, block_size: int, reports: FileReports) -> int:
        assert self.rest is not None
        return self.rest.since

    def blocks(self, block_size: int, reports: FileReports) -> Iterator[PacketBlock]:
        assert self.rest is not None
        own = FileReports()
        number, latest = 0, 0
        for block in super().blocks(block_size, own):
            block.references += (self.rest.file.number - self.index) << FILE_SHIFT
            begin = max(0, self.rest.taken - number)
            number += len(block)
            block = block[begin:]
            if not len(block):
                continue
            times = np.maximum.accumulate(np.maximum(block.times, latest))
            latest = int(times[-1])
            count = len(times) if self._until is None else int(times.searchsorted(self._until))
            if count:
                yield block[:count]
            if count < len(times):
                self.rest = self.rest._replace(taken=number - len(times) + count, since=int(times[count]))
                return  # its reports are made when it is read to its end
        self.rest = None
        reports.problems += own.problems
        reports.statistics += own.statistics


def _open(files: list[Unread], until: int | None, span: TimeSpan, reports: FileReports) -> list[CapturePart]:
    """Open files, sorted by name, which orders packets of equal times as in a run over all files.

    A file that cannot be read is added to `reports`.
    """
    open_files = OpenFiles()
    parts: list[CapturePart] = []
    for each in sorted(files, key=lambda each: each.file.path):
        try:
            part = CapturePart(each, until, span, open_files)
        except CaptureError as error:
            reports.problems.append(CaptureProblem(each.file.path, 0, 0, error.message))
        else:
            part.index = len(parts)
            parts.append(part)
    return parts
