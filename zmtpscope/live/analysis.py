"""Analyse a capture that still grows: yield the records that each block, or the time alone, decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from zmtpscope.capture import Captures, SegmentBlock
from zmtpscope.dissect import Analyser, Batch
from zmtpscope.live.capture.session import CaptureFile


class Following(Protocol):
    """A capture that reports up to which time all its packets have been read."""

    def known_until(self, latest: int, *, is_idle: bool) -> int:
        """Return the time up to which all packets have been read, in nanoseconds since the epoch.

        `latest` is the time of the newest packet. `is_idle`: the last read returned no packets.
        """


class FollowedCapture(Following, Protocol):
    """A capture that still grows. Iterate over `captures`, and always call `close`."""

    @property
    def title(self) -> str:
        """The source of the packets: interfaces, a file, or "-" for standard input."""

    @property
    def captures(self) -> Captures:
        """Return the blocks of packets, for one iteration that lasts as long as the capture."""

    def stop(self) -> None:
        """End the iteration after the packets written so far. A signal handler may call this."""

    @property
    def unread(self) -> int:
        """Return the number of octets written but not read yet."""

    @property
    def dropped(self) -> int:
        """Return the number of packets known to be lost so far."""

    @property
    def written_files(self) -> Sequence[CaptureFile]:
        """Return the files of our own capture. The oldest may have been removed."""

    def close(self) -> None:
        """Release all resources."""


def steps(analyser: Analyser, captures: Captures, following: Following | None) -> Iterator[Iterator[Batch]]:
    """Yield, for each block, the batches of its records. With `following`, also yield records that time alone decides.

    Consume each step before requesting the next one. `end` returns the remaining batches.
    """
    analyser.begin(captures.files)
    for block in captures:
        yield _step(analyser, block, following)


def _step(analyser: Analyser, block: SegmentBlock, following: Following | None) -> Iterator[Batch]:
    yield from analyser.feed(block)
    if following is not None:
        yield from analyser.tick(following.known_until(analyser.latest, is_idle=not block.latest))


def end(analyser: Analyser, captures: Captures) -> Iterator[Batch]:
    """Return the remaining batches, after the last step or if the caller stopped early."""
    statistics = captures.statistics
    set_back, last = statistics.set_back(), statistics.end_time()
    return analyser.finish(statistics.dropped(), captures.problems, set_back=set_back, last=last)
