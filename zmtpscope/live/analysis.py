"""The analyser over a capture that still grows: what becomes known by each block, and by time alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from zmtpscope.capture import Captures, SegmentBlock
from zmtpscope.dissect import Analyser, Batch
from zmtpscope.live.capture.session import CaptureFile


class Following(Protocol):
    """Whoever knows how far the packets of a capture that grows have come."""

    def known_until(self, latest: int, *, is_idle: bool) -> int:
        """Up to which time all packets have been read, in nanoseconds since the epoch: `latest` is that of the newest,
        `is_idle` says that the last look brought nothing."""


class FollowedCapture(Following, Protocol):
    """A capture that still grows. `captures` are to be iterated; `close` in any case."""

    @property
    def captures(self) -> Captures:
        """The packets so far, and those to come."""

    def stop(self) -> None:
        """Read what was written until now, and end. May be called by a signal handler."""

    @property
    def unread(self) -> int:
        """Octets that were written and not read yet."""

    @property
    def dropped(self) -> int:
        """Packets that were lost so far, as far as that is known."""

    @property
    def written_files(self) -> Sequence[CaptureFile]:
        """The files of a capture of our own; the oldest may not be there any more."""

    def close(self) -> None:
        """Let go of everything."""


def steps(analyser: Analyser, captures: Captures, following: Following | None) -> Iterator[Iterator[Batch]]:
    """What becomes known by each block of captures, to be read before the next one is asked for; of those that grow
    also what time alone decides. `end` gives the rest."""
    analyser.begin(captures.files)
    for block in captures:
        yield _step(analyser, block, following)


def _step(analyser: Analyser, block: SegmentBlock, following: Following | None) -> Iterator[Batch]:
    yield from analyser.feed(block)
    if following is not None:
        yield from analyser.tick(following.known_until(analyser.latest, is_idle=not block.latest))


def end(analyser: Analyser, captures: Captures) -> Iterator[Batch]:
    """What is left when there are no more steps, or none are wanted."""
    statistics = captures.statistics
    set_back, last = statistics.set_back(), statistics.end_time()
    return analyser.finish(statistics.dropped(), captures.problems, set_back=set_back, last=last)
