"""The folder that a streaming query reads: its captures, and the files of the next micro-batch.

A micro-batch takes complete files in the order of their first packets. Of these files it reads the packets before the
first packet of any later file (`MicroBatch.until`).
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
"""Suffixes that a complete file gets when it is compressed. It is still the same capture."""


def uncompressed(path: str) -> str:
    return next((path.removesuffix(ending) for ending in COMPRESSED if path.endswith(ending)), path)


class Capture(NamedTuple):
    """A capture in the folder. `first_time` is the time of its first packet (ns), or -1 if it has none yet."""

    path: str
    size: int
    modified: int
    first_time: int

    @property
    def name(self) -> str:
        """The path without a suffix of compression."""
        return uncompressed(self.path)


class BatchFile(NamedTuple):
    """A file of a micro-batch. `number` is its index among all files of the query."""

    number: int
    path: str
    first_time: int


@dataclass(frozen=True)
class MicroBatch:
    """The input of a micro-batch: its files, and the totals up to its end. Number 0 is the start of a query."""

    number: int = 0
    partitions: int = 0
    files: list[BatchFile] = field(default_factory=list)
    """Files that no earlier micro-batch has taken."""
    files_so_far: int = 0
    """Number of files so far, including earlier micro-batches."""
    until: int | None = None
    """Time (ns) before which packets are taken; a later micro-batch takes the others. The time of a packet is the
    largest so far in its file. None: all packets."""
    is_last: bool = False
    """Whether the capture ends with this micro-batch."""
    seen: dict[str, Capture] = field(default_factory=dict)
    """Taken files that are still in the folder, by name."""


class CaptureFolder:
    """The captures of a folder, or of a pattern such as `/captures/eth0-*.pcapng`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._found: dict[str, tuple[int, int, Capture | None]] = {}
        """Size, modification time and capture of each file at the last listing. None: not a capture."""

    def captures(self) -> list[Capture]:
        """Return each capture once. Files whose names start with a dot are skipped, because they are still being
        copied. Raises `CaptureError` if the folder is missing or cannot be listed."""
        found: dict[str, tuple[int, int, Capture | None]] = {}
        captures: dict[str, Capture] = {}
        for path in sorted(self._paths()):
            try:
                status = os.stat(path)
            except OSError:
                continue  # just removed
            if not stat.S_ISREG(status.st_mode):
                continue
            known = self._found.get(path)
            if known is None or known[:2] != (status.st_size, status.st_mtime_ns):
                known = status.st_size, status.st_mtime_ns, _capture(path, status)
            found[path] = known
            if known[2] is not None:
                captures.setdefault(known[2].name, known[2])  # both exist during compression
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
    """Return the path of a capture that may have been compressed, and so renamed, since it was found."""
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
    """Return the micro-batch after `before`, or None if there are no new files.

    `growing` is the number of newest files that are still being written, and `most_files` the maximum number of files.
    `finish`: there will be no more files. `skip_grown`: ignore data that was added to a file after it was read. Raises
    `CaptureError` for a file with which the query cannot continue.
    """
    grown = grown_since(before, captures)
    if grown and not skip_grown:
        now, then = grown[0], before.seen[grown[0].name]
        raise CaptureError(
            now.path,
            f"had {then.size} octets when it was read and has {now.size} now",
            hint="more files grow at the same time than the option growing allows: continue with a higher value and "
            "skipGrown=true, which skips the added octets, or start a new query",
        )
    new = [capture for capture in captures if _is_new(capture, before.seen.get(capture.name))]
    if before.is_last:
        if new:
            hint = "start a new query with another checkpointLocation"
            raise CaptureError(min(new).path, "it is new, and the option finish ended this query", hint=hint)
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
    """Whether a file was not read yet. A file that a ring overwrote is new when its first packet has changed."""
    return seen is None or seen.first_time != capture.first_time


def grown_since(before: MicroBatch, captures: Iterable[Capture]) -> list[Capture]:
    """Return the captures that were read up to the micro-batch `before`, and have grown since."""
    known = [(before.seen.get(capture.name), capture) for capture in captures]
    return [
        now
        for then, now in known
        if then is not None and not _is_new(now, then) and now.path == then.path and now.size > then.size
    ]


def _newest(captures: Collection[Capture], count: int) -> set[Capture]:
    """Return the files that may still be written: `count` by modification time and `count` by first packet. A file
    copied into the folder may be modified later than the one being captured."""
    begun = [capture for capture in captures if capture.first_time >= 0]
    by_change = sorted(begun, key=lambda capture: (capture.modified, *_by_first_packet(capture)))
    return {*by_change[-count:], *sorted(begun, key=_by_first_packet)[-count:]}


def _by_first_packet(capture: Capture) -> tuple[int, str]:
    return capture.first_time, capture.path
