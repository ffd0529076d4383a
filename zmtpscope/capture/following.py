"""Reading what another process still writes: a file that grows, the files of a capture session one after the other, or
a pipe.

The octets go through the same `Source` and container readers as those of a whole file. What differs is that a look may
bring nothing: then the readers hand on a block without packets, keep an incomplete record, and look again. Looks are
paced, so that what comes in small pieces is read many packets at a time. Who writes, and how to wait for it, is handed
in as a `Follow`.
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
from zmtpscope.capture.source import Source, open_descriptor, ready
from zmtpscope.capture.statistics import FileReports

SHORTEST_PAUSE = 0.02
"""Seconds from one look to the next, at least, unless more was there than a look takes: a block has a cost of its own,
a hundred times that of a packet."""
LONGEST_PAUSE = 0.25
PAUSE_PER_COST = 2
"""The time from one look to the next is so many times what working on the last block took, so that the reader leaves
half of a core to those who talk."""
IDLE_PAUSE = 0.25
"""Seconds until a look where the last one brought nothing, unless the writer says before that there is something."""
POLL_INTERVAL = 0.05
"""Seconds until a look at a file of whose writer nothing is known."""


class FollowedFile(NamedTuple):
    """One file that is followed; "-" is standard input. Records call it `name`; where that is None, they name no file,
    and packets are counted on through all of them. `is_complete`: nothing more will be written to it."""

    path: str
    name: str | None
    is_complete: bool


class Follow(Protocol):
    """What the reader has to know of the writer."""

    @property
    def files(self) -> Sequence[FollowedFile]:
        """All files so far, in the order in which they are written; only the last may be incomplete."""

    def wait(self, seconds: float) -> bool:
        """Wait until there may be more to read, at most so long. False: nothing more will be written to any file."""

    def consumed(self, file: int, octets: int) -> None:
        """Of the file with this index so many octets have been read, and what came of them was handed on."""


class Polling:
    """Follows one file, or standard input ("-"), of whose writer nothing is known: until `stop`, it may go on.

    `grace`: so many seconds it may go on behind the stop, since the writer was stopped, too, and has something left.
    """

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
        """What was written until now is the end. May be called by a signal handler."""
        self._end = time.monotonic() + self._grace

    def consumed(self, file: int, octets: int) -> None:
        self._consumed = octets

    @property
    def unread(self) -> int:
        """Octets of the file that were not consumed yet; of a pipe nobody knows them."""
        try:
            status = os.stat(self.files[0].path)
        except OSError:
            return 0
        return max(0, status.st_size - self._consumed) if stat.S_ISREG(status.st_mode) else 0


class Pace:
    """When to look again at what `follow` has written."""

    def __init__(self, follow: Follow, clock: Callable[[], float] = time.monotonic) -> None:
        self._follow = follow
        self._clock = clock
        self._looked = clock()
        self.is_alive = True
        """Whether something may still be written."""

    def pause(self) -> float:
        """Seconds to wait from now on, as long as what the last look brought took to be worked on."""
        spent = self._clock() - self._looked
        return max(0.0, min(max(SHORTEST_PAUSE, PAUSE_PER_COST * spent), LONGEST_PAUSE) - spent)

    def wait(self, seconds: float) -> None:
        """Wait for the writer, at most so long."""
        self.is_alive = self.is_alive and self._follow.wait(seconds)

    def looked(self) -> None:
        """A look is over: what it brought is worked on from now on."""
        self._looked = self._clock()


class FollowedSource(Source):
    """A source whose end may be the end for now: `read` gives no octets then, and `is_growing` is true.

    `is_named` says whether records name it, `is_complete` whether nothing more will be written to it, `consumed` gets
    how far it was read.
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
        """Octets as they stand in the file or pipe."""
        self._last: int | None = None
        """How many of them the last look brought; None where there may be more."""
        self._end: int | None = None
        """Where reading ends, once nothing more will be written."""

    def offsets(self, starts: NDArray[np.int64], origin: int) -> NDArray[np.int64]:
        """Of a file without a name nothing can be read again: whoever writes it removes it."""
        return super().offsets(starts, origin) if self._is_named else np.full(len(starts), NOWHERE)

    @property
    def is_growing(self) -> bool:
        return not self._ended and self.damage is None

    def read(self, size: int) -> bytes:
        """At most `size` octets; none at the end, where `damage` begins, or (`is_growing`) where it ends for now."""
        if self._decompressor is not None:
            return super().read(size)
        octets = self._look(size)
        self.octets += len(octets)
        return octets

    def read_raw(self, size: int) -> bytes:
        """For decompressors, which take the end for now for the end: it waits until something was written."""
        octets = self._look(size)
        while not octets and self.is_growing:
            octets = self._look(size)
        return octets

    def close(self) -> None:
        super().close()
        self._consumed(self._taken)

    def _look(self, size: int) -> bytes:
        """What is there now, at most `size` octets."""
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
            self.damage = self._what_became_of_it()
        self._packed = max(self._packed, self._taken)
        self._pace.looked()
        return octets

    def _wait(self) -> float:
        """Wait for the next look; of a pipe, which has little room, say for how long to gather what comes instead."""
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
        """What comes out of the pipe while `seconds` last, once something does."""
        if self._poll is None:  # a system that cannot say whether something is there
            return self._read_now(size)
        if not self._poll.poll(0 if self._end is not None else IDLE_PAUSE * 1000):
            return b""
        octets = self._read_now(size)
        return self._gather(octets, size, seconds) if 0 < len(octets) < size else octets

    def _what_became_of_it(self) -> str | None:
        """What keeps a file from being read on: it was removed, replaced or cut."""
        if os.fstat(self._descriptor).st_size < self._taken:
            return "it was cut while it was followed"
        try:
            now = os.stat(self.path)
        except OSError:
            self._pace.wait(0)
            is_over = self._is_complete() or not self._pace.is_alive  # then whoever wrote it may remove it
            return None if is_over else "it was removed while it was followed"
        return None if os.path.samestat(now, self._identity) else "another file has taken its place"


class FollowedCapture(CaptureFile):
    """A file of `follow`, known to begin like a capture: waits until it does. Raises `CaptureError`."""

    def __init__(self, follow: Follow, number: int, pace: Pace, clocks: Clocks) -> None:
        self._follow = follow
        self._number = number
        self._pace = pace
        super().__init__(follow.files[number].path)
        self.clocks = clocks

    @property
    def is_complete(self) -> bool:
        """Whether nothing more will be written to it."""
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
    """The packets of all files of `follow`, in blocks of at most about `block_size` octets; a look that brought nothing
    is a block without packets. `names` gets what records call the files. Raises `CaptureError`."""
    pace, clocks = Pace(follow), Clocks()
    packets = 0
    for number in count():
        while not _is_there(follow, number):
            if not pace.is_alive:
                return
            pace.wait(IDLE_PAUSE)
            yield no_packets()
        file = FollowedCapture(follow, number, pace, clocks)
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
    """Whether there is a file with this number, and something in it, as far as that can be known without reading."""
    if number >= len(follow.files):
        return False
    path = follow.files[number].path
    try:
        is_empty = path != "-" and stat.S_ISREG((now := os.stat(path)).st_mode) and not now.st_size
    except FileNotFoundError:
        return False
    except OSError:
        return True  # opening it says what is wrong
    return not is_empty
