"""Read captures that another process is still writing: a growing file, the files of a capture session, or a pipe.

`Source` and the container readers are the same as for complete files, except that a read may return no octets for now.
The readers then yield a block without packets, keep an incomplete record, and read again later.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from zmtpscope.capture.clock import Clocks
from zmtpscope.capture.files import CaptureFile
from zmtpscope.capture.packets import NOWHERE, PacketBlock, no_packets
from zmtpscope.capture.source import STANDARD_INPUT, Source, is_readable, open_descriptor, ready
from zmtpscope.capture.statistics import FileReports

SHORTEST_PAUSE = 0.02
"""Minimum seconds between reads, unless a read left octets: a block costs a hundred times as much as a packet."""
LONGEST_PAUSE = 0.25
PAUSE_PER_COST = 2
"""Pause in multiples of the time that the last block took: leaves half of a core to the observed programs."""
IDLE_PAUSE = 0.25
"""Seconds after a read without octets, unless the writer reports new octets earlier."""
POLL_INTERVAL = 0.05
"""Seconds between reads if the writer is unknown."""


class FollowedFile(NamedTuple):
    """A capture file that is read while it is written; "-" is standard input.

    `name` is the file name in records; None: they have none, and packets are numbered through all such files.
    `is_complete`: nothing will be added to the file.
    """

    path: str
    name: str | None
    is_complete: bool


class Follow(Protocol):
    """Capture files that a process is writing, and how to wait for further octets."""

    @property
    def files(self) -> Sequence[FollowedFile]:
        """All files so far in order of writing. Only the last may be incomplete."""

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` for more octets; return False if no file will grow any more."""

    def consumed(self, file: int, octets: int) -> None:
        """Report that the first `octets` of a file were read, and that their packets have reached the caller."""

    @property
    def unread(self) -> int:
        """How many octets are written but not read, if known."""

    @property
    def known_until(self) -> int:
        """The time up to which all packets have been written (ns since the epoch); 0 if unknown."""


class Polling:
    """Follows one file or standard input ("-") by reading it again and again, until `stop`.

    `grace`: seconds to read on after `stop`, since the writer may be stopped too and have more to write.
    """

    known_until = 0  # the writer may delay packets

    def __init__(self, path: str, *, grace: float = 0.0) -> None:
        self.files = [FollowedFile(path, None if path == "-" else path, False)]
        self._grace = grace
        self._end: float | None = None
        self._consumed = 0

    def wait(self, seconds: float) -> bool:
        if self._end is None:
            time.sleep(min(seconds, POLL_INTERVAL))
        return self._end is None or time.monotonic() < self._end

    def stop(self) -> None:
        """End after the octets written so far. Safe in a signal handler."""
        self._end = time.monotonic() + self._grace

    def consumed(self, file: int, octets: int) -> None:
        self._consumed = octets

    @property
    def unread(self) -> int:
        """How many octets of the file are written but not read; 0 for a pipe, since it is unknown."""
        try:
            status = os.stat(self.files[0].path)
        except OSError:
            return 0
        return max(0, status.st_size - self._consumed) if stat.S_ISREG(status.st_mode) else 0


class Pace:
    """Decides when to read the files of `follow` again."""

    def __init__(self, follow: Follow, clock: Callable[[], float] = time.monotonic) -> None:
        self._follow = follow
        self._clock = clock
        self._looked = clock()
        self.is_alive = True

    def pause(self) -> float:
        """Return how many seconds to wait before the next read."""
        spent = self._clock() - self._looked
        return max(0.0, min(max(SHORTEST_PAUSE, PAUSE_PER_COST * spent), LONGEST_PAUSE) - spent)

    def wait(self, seconds: float) -> None:
        self.is_alive = self.is_alive and self._follow.wait(seconds)

    def looked(self) -> None:
        """Note that the processing of the octets just read starts now."""
        self._looked = self._clock()


class FollowedSource(Source):
    """A source that may grow: at a temporary end `read` returns no octets, and `is_growing` is true.

    `is_named`: records name the file. `consumed` is called with the number of octets read so far.
    """

    def __init__(
        self,
        path: str,
        descriptor: int,
        *,
        pipe: bool,
        pace: Pace,
        is_named: bool,
        is_complete: Callable[[], bool],
        consumed: Callable[[int], None],
    ) -> None:
        super().__init__(path, descriptor, pipe=pipe)
        self._pace = pace
        self._is_named = is_named
        self._is_complete = is_complete
        self._consumed = consumed
        self._taken = 0
        """Octets read before decompression."""
        self._last: int | None = None
        """Octets of the last read, or None if more may be available."""
        self._end: int | None = None

    def offsets(self, starts: NDArray[np.int64], origin: int) -> NDArray[np.int64]:
        """Return the file offsets of the octets `starts`, which count from octet `origin` of this stream.

        If records do not name the file, the offsets are `NOWHERE`: its writer will remove the file.
        """
        return super().offsets(starts, origin) if self._is_named else np.full(len(starts), NOWHERE)

    @property
    def is_growing(self) -> bool:
        return not self._ended and self.damage is None

    def read(self, size: int) -> bytes:
        """Return up to `size` octets; none at the end, at `damage`, or at a temporary end (`is_growing`)."""
        if self._decompressor is not None:
            return super().read(size)
        octets = self._look(size)
        self.octets += len(octets)
        return octets

    def read_raw(self, size: int) -> bytes:
        """Return up to `size` octets for a decompressor.

        Waits at a temporary end, which a decompressor would take for the end.
        """
        octets = self._look(size)
        while not octets and self.is_growing:
            octets = self._look(size)
        return octets

    def close(self) -> None:
        super().close()
        self._consumed(self._taken)

    def _look(self, size: int) -> bytes:
        """Return up to `size` octets that are available now, without waiting."""
        if self._ahead:
            octets, self._ahead = self._ahead[:size], self._ahead[size:]
            return octets
        if not self.is_growing:
            return b""
        self._consumed(self._taken)
        gather_for = self._wait()
        if self._end is None and (self._is_complete() or not self._pace.is_alive):
            self.was_left = not self._is_complete()
            self._end = self._taken + size if self._is_pipe else os.fstat(self._descriptor).st_size
        if self._end is not None:
            size = min(size, self._end - self._taken)
        octets = self._pipe_look(size, gather_for) if self._is_pipe else self._read_now(size) if size > 0 else b""
        self._taken += len(octets)
        self._last = None if len(octets) == size else len(octets)
        if self._end is not None and (self._taken >= self._end or not octets):
            self._ended = True
        elif not octets and self.damage is None and not self._is_pipe:
            self._ended = False
            self.damage = self._end_reason()
        self._packed = max(self._packed, self._taken)
        self._pace.looked()
        return octets

    def _wait(self) -> float:
        """Wait until the next read is due.

        Returns for how many seconds to gather octets of a pipe: a pipe has little room, so it is read while waiting.
        """
        if self._last is None:
            self._pace.wait(0)
            return 0
        pause = self._pace.pause()
        if self._is_pipe:
            self._pace.wait(0)
            return max(pause, SHORTEST_PAUSE)
        if self._last:
            time.sleep(pause)
            self._pace.wait(0)
        else:
            self._pace.wait(IDLE_PAUSE)
        return 0

    def _pipe_look(self, size: int, seconds: float) -> bytes:
        """Return at most `size` octets of a pipe that arrive within `seconds` after the first one."""
        if self._poll is None:
            return self._read_now(size)
        if not self._poll.poll(0 if self._end is not None else IDLE_PAUSE * 1000):
            return b""
        octets = self._read_now(size)
        return self._gather(octets, size, seconds) if 0 < len(octets) < size else octets

    def _end_reason(self) -> str | None:
        """Return why a file cannot be read further (removed, replaced, truncated), or None."""
        if os.fstat(self._descriptor).st_size < self._taken:
            return "it was truncated while it was followed"
        try:
            now = os.stat(self.path)
        except OSError:
            self._pace.wait(0)
            is_over = self._is_complete() or not self._pace.is_alive  # the writer may remove a complete file
            return None if is_over else "it was removed while it was followed"
        return None if os.path.samestat(now, self._identity) else "another file replaced it"


class FollowedCaptureFile(CaptureFile):
    """A capture file that another process is writing; waits until the file has a capture header.

    Raises `CaptureError`.
    """

    def __init__(self, follow: Follow, number: int, pace: Pace, clocks: Clocks) -> None:
        self._follow = follow
        self._number = number
        self._pace = pace
        super().__init__(follow.files[number].path)
        self.clocks = clocks

    @property
    def is_complete(self) -> bool:
        return self._follow.files[self._number].is_complete

    def _open_source(self) -> Source:
        descriptor, pipe = open_descriptor(self.path)
        source = FollowedSource(
            self.path,
            descriptor,
            pipe=pipe,
            pace=self._pace,
            is_named=self._follow.files[self._number].name is not None,
            is_complete=lambda: self.is_complete,
            consumed=partial(self._follow.consumed, self._number),
        )
        return ready(source)


def read_followed(
    follow: Follow, names: list[str | None], block_size: int, reports: FileReports
) -> Iterator[PacketBlock]:
    """Yield the packets of all files of `follow`, and a block without packets when no octets arrived.

    Appends the file names that records use to `names`. Raises `CaptureError`.
    """
    pace, clocks = Pace(follow), Clocks()
    packets = 0
    for number in count():
        while not _is_there(follow, number):
            if not pace.is_alive:
                return
            pace.wait(IDLE_PAUSE)
            yield no_packets()
        file = FollowedCaptureFile(follow, number, pace, clocks)
        name = follow.files[number].name
        if name is None:
            file.packets_before = packets
        if name is not None or not names:
            file.index = len(names)
            names.append(name)
        for block in file.blocks(block_size, reports):
            packets += len(block)
            yield block
        if not file.is_complete:
            return


def _is_there(follow: Follow, number: int) -> bool:
    """Whether file `number` of `follow` exists and is not empty, as far as that is known without reading."""
    if number >= len(follow.files):
        return False
    path = follow.files[number].path
    if path == "-":
        return is_readable(STANDARD_INPUT)
    try:
        is_empty = stat.S_ISREG((now := os.stat(path)).st_mode) and not now.st_size
    except FileNotFoundError:
        return False
    except OSError:
        return True  # opening it reports the error
    return not is_empty
