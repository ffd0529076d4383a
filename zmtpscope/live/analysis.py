"""Analyse a capture that still grows: yield the records that each block, or the time alone, decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from zmtpscope.capture import Captures, SegmentBlock
from zmtpscope.dissect import Analyser, Batch
from zmtpscope.live.capture.session import CaptureFile


class Following(Protocol):
    """A capture that knows up to which time all its packets have been read."""

    def known_until(self, latest: int, *, is_idle: bool) -> int:
        """Return the time up to which all packets have been read, in nanoseconds since the epoch.

        `latest` is the time of the newest packet. `is_idle` means that the last read returned no packets.
        """


class FollowedCapture(Following, Protocol):
    """A capture that still grows. Iterate over `captures`; always call `close`."""

    @property
    def title(self) -> str:
        """Where the packets come from: interfaces, a file, or "-" for standard input."""

    @property
    def captures(self) -> Captures:
        """The packets so far, and the packets that follow."""

    def stop(self) -> None:
        """Read the packets written so far, then end. May be called by a signal handler."""

    @property
    def unread(self) -> int:
        """Octets written but not read yet."""

    @property
    def dropped(self) -> int:
        """Number of packets lost so far, as far as it is known."""

    @property
    def written_files(self) -> Sequence[CaptureFile]:
        """The files of our own capture. The oldest may have been removed."""

    def close(self) -> None:
        """Release all resources."""


def steps(analyser: Analyser, captures: Captures, following: Following | None) -> Iterator[Iterator[Batch]]:
    """Yield the batches of each block, including the records of a growing capture that time alone decides.

    Read each step before asking for the next one. `end` returns the remaining batches.
    """
    analyser.begin(captures.files)
    for block in captures:
        yield _step(analyser, block, following)


def _step(analyser: Analyser, block: SegmentBlock, following: Following | None) -> Iterator[Batch]:
    yield from analyser.feed(block)
    if following is not None:
        yield from analyser.tick(following.known_until(analyser.latest, is_idle=not block.latest))


def end(analyser: Analyser, captures: Captures) -> Iterator[Batch]:
    """Return the remaining batches, after the last step or after the caller stopped early."""
    statistics = captures.statistics
    set_back, last = statistics.set_back(), statistics.end_time()
    return analyser.finish(statistics.dropped(), captures.problems, set_back=set_back, last=last)
