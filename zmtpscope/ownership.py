"""Whether nobody but this user, and root, can change a file or folder whose content runs as a program, or is as good as
one."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

WRITTEN_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class Exposed(NamedTuple):
    """What others can change: it belongs to another user; or else, it is ours and open to their writes."""

    path: str
    is_of_another: bool


def exposed(path: str | Path, status: os.stat_result) -> Exposed | None:
    """What others can change of a file or folder with this status (of the open file, if its content is to be trusted);
    None: nothing."""
    if status.st_uid not in (os.geteuid(), 0):
        return Exposed(str(path), is_of_another=True)
    return Exposed(str(path), is_of_another=False) if status.st_mode & WRITTEN_BY_OTHERS else None


def exposed_in(folder: Path) -> Exposed | None:
    """The same of what is started by its path: `folder`, which is resolved, and all that it lies below, where somebody
    could put another in its place; in a folder with the sticky bit, as /tmp, only its owner can. Raises `OSError`."""
    found = exposed(folder, folder.stat())
    return found or next(_exposed_above(folder), None)


def _exposed_above(folder: Path) -> Iterator[Exposed]:
    for each in folder.parents:
        status = each.stat()
        found = exposed(each, status)
        if found is not None and (found.is_of_another or not status.st_mode & stat.S_ISVTX):
            yield found
