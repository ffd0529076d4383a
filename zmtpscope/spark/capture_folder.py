"""The folder that a streaming query reads: which captures are in it, and what the next micro-batch takes.

A micro-batch takes complete files in the order of their first packets, and of these all packets that count as taken
before the first packet of any file that is still to come (`MicroBatch.until`). So packets of files that overlap, as
those of two interfaces that are captured into one folder, come in the order of one run over all files.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from zmtpscope.capture.errors import CaptureError
from zmtpscope.capture.files import PEEK, CaptureFile
from zmtpscope.capture.statistics import FileReports

COMPRESSED = (".gz", ".zst")
"""A file that is compressed once it is complete gets one of these behind its name, and is the same capture still."""


def uncompressed(path: str) -> str:
    """Return the path without the ending of a compressed file."""
    return next((path.removesuffix(ending) for ending in COMPRESSED if path.endswith(ending)), path)


class Capture(NamedTuple):
    """A capture file as it was found; `first_time` is that of its first packet (ns), -1 where it has none yet."""

    path: str
    size: int
    modified: int
    first_time: int

    @property
    def name(self) -> str:
        """Its path without what compression puts behind."""
        return uncompressed(self.path)


class BatchFile(NamedTuple):
    """A file that a micro-batch takes; `number` is its place among all files of the query."""

    number: int
    path: str
    first_time: int


@dataclass(frozen=True)
class MicroBatch:
    """What a micro-batch takes, and what has been taken up to its end. Number 0 is the beginning of a query."""

    number: int = 0
    partitions: int = 0
    files: list[BatchFile] = field(default_factory=list)
    """Those that none before has taken."""
    files_so_far: int = 0
    """How many files were taken, with those of all before."""
    until: int | None = None
    """Only packets that count as taken before this time (ns); those behind it come with a later one. None: all."""
    is_last: bool = False
    """Whether the capture ends with it."""
    seen: dict[str, Capture] = field(default_factory=dict)
    """Of the files that are in the folder those that were taken, by name."""


class CaptureFolder:
    """The captures that a path names: a folder, or a pattern such as `/captures/eth0-*.pcapng`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._found: dict[str, tuple[int, int, Capture | None]] = {}
        """Size and time of change of each file at the last look, and what it was; None: no capture."""

    def captures(self) -> list[Capture]:
        """All captures that are there now, each once. Files whose names begin with a dot are passed over: they are
        being copied.

        Raises `CaptureError` where the folder is missing or cannot be listed.
        """
        found: dict[str, tuple[int, int, Capture | None]] = {}
        captures: dict[str, Capture] = {}
        for path in sorted(self._paths()):
            try:
                status = os.stat(path)
            except OSError:
                continue  # it has just gone
            if not stat.S_ISREG(status.st_mode):
                continue
            known = self._found.get(path)
            if known is None or known[:2] != (status.st_size, status.st_mtime_ns):
                known = status.st_size, status.st_mtime_ns, _capture(path, status)
            found[path] = known
            if known[2] is not None:
                captures.setdefault(known[2].name, known[2])  # both are there while it is compressed
        self._found = found
        return list(captures.values())

    def _paths(self) -> list[str]:
        if glob.has_magic(self.path) and not os.path.isdir(self.path):
            return glob.glob(self.path)
        try:
            names = os.listdir(self.path)
        except NotADirectoryError:
            hint = "a stream reads a folder, or a pattern of files such as /captures/eth0-*"
            raise CaptureError(self.path, "is a file", hint=hint) from None
        except OSError as error:
            raise CaptureError(self.path, f"cannot be listed: {error.strerror}") from None
        return [os.path.join(self.path, name) for name in names if not name.startswith(".")]


def _capture(path: str, status: os.stat_result) -> Capture | None:
    try:
        first_time = CaptureFile(path).first_time(PEEK, FileReports())
    except CaptureError:
        return None
    return Capture(path, status.st_size, status.st_mtime_ns, first_time)


def path_now(path: str) -> str:
    """Where a file is that was found at `path`: it may have been compressed since."""
    return next((each for each in (path, *(path + suffix for suffix in COMPRESSED)) if os.path.exists(each)), path)


def next_micro_batch(
    before: MicroBatch,
    captures: Collection[Capture],
    *,
    partitions: int,
    growing: int,
    most_files: int | None,
    finish: bool,
    skip_grown: bool = False,
) -> MicroBatch | None:
    """What the micro-batch behind `before` takes of the captures that are there; None where there is nothing to do.

    `growing`: so many files are still being written, the newest ones. `finish`: no more files will come. `skip_grown`:
    what was added to a file after it was read is left out.
    Raises `CaptureError` for a file that the query cannot go on with.
    """
    grown = grown_since(before, captures)
    if grown and not skip_grown:
        now, then = grown[0], before.seen[grown[0].name]
        raise CaptureError(
            now.path,
            f"had {then.size} octets when it was read and has {now.size} now",
            hint="more files are written at a time than the option growing says: go on with a higher one and "
            "skipGrown=true, which leaves out what was added, or begin anew",
        )
    new = [capture for capture in captures if _is_new(capture, before.seen.get(capture.name))]
    if before.is_last:
        if new:
            hint = "begin a new one, with another checkpointLocation"
            raise CaptureError(min(new).path, "it is new, and this query was ended by the option finish", hint=hint)
        return None
    if finish:
        growing = 0
    complete = [capture for capture in new if not growing or capture.first_time >= 0]
    if growing:
        newest = _newest(captures, growing)
        complete = [capture for capture in complete if capture not in newest]
    complete.sort(key=_by_first_packet)
    taken = complete[:most_files]
    left = {*new}.difference(taken)
    until = min((capture.first_time for capture in left if capture.first_time >= 0), default=None)
    is_last = finish and not left
    is_later = before.until is not None and (until is None or until > before.until)
    if not (taken or is_last or is_later):
        return None
    present = {capture.name for capture in captures}
    seen = {name: capture for name, capture in before.seen.items() if name in present}
    return MicroBatch(
        number=before.number + 1,
        partitions=partitions,
        files=[BatchFile(before.files_so_far + place, each.path, each.first_time) for place, each in enumerate(taken)],
        files_so_far=before.files_so_far + len(taken),
        until=until,
        is_last=is_last,
        seen=seen | {capture.name: capture for capture in (*taken, *grown)},
    )


def _is_new(capture: Capture, seen: Capture | None) -> bool:
    """Whether it was not taken yet. A file of a ring is another one once it begins with another packet."""
    return seen is None or seen.first_time != capture.first_time


def grown_since(before: MicroBatch, captures: Iterable[Capture]) -> list[Capture]:
    """Return the captures that were taken up to the micro-batch `before`, and have grown since."""
    known = [(before.seen.get(capture.name), capture) for capture in captures]
    return [
        now
        for then, now in known
        if then is not None and not _is_new(now, then) and now.path == then.path and now.size > then.size
    ]


def _newest(captures: Collection[Capture], count: int) -> set[Capture]:
    """The files that may still be written: so many of those changed last, and of those that begin last (a file that is
    copied into the folder is changed later than the one that is being captured)."""
    begun = [capture for capture in captures if capture.first_time >= 0]
    by_change = sorted(begun, key=lambda capture: (capture.modified, *_by_first_packet(capture)))
    return {*by_change[-count:], *sorted(begun, key=_by_first_packet)[-count:]}


def _by_first_packet(capture: Capture) -> tuple[int, str]:
    return capture.first_time, capture.path
