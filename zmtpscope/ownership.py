"""Check the owner and mode of programs and of other trusted files.

Only this user and root may be able to change them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

WRITTEN_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class Exposed(NamedTuple):
    """A file or folder that other users can change.

    `is_of_another`: another user owns it; otherwise its mode lets other users write.
    """

    path: str
    is_of_another: bool


def exposed(path: str | Path, status: os.stat_result) -> Exposed | None:
    """Return why a file or folder must not be trusted, or None; `status` is its owner and mode.

    To trust the content of an open file, pass the status of its descriptor.
    """
    if status.st_uid not in (os.geteuid(), 0):
        return Exposed(str(path), is_of_another=True)
    return Exposed(str(path), is_of_another=False) if status.st_mode & WRITTEN_BY_OTHERS else None


def exposed_in(folder: Path) -> Exposed | None:
    """Return why a program in `folder` (a resolved path) must not be trusted, or None.

    Checks the folder and all parents, because another folder could be moved into the path there. A parent with the
    sticky bit, such as /tmp, is safe unless another user owns it. Raises `OSError`.
    """
    found = exposed(folder, folder.stat())
    return found or next(_exposed_above(folder), None)


def _exposed_above(folder: Path) -> Iterator[Exposed]:
    for each in folder.parents:
        status = each.stat()
        found = exposed(each, status)
        if found is not None and (found.is_of_another or not status.st_mode & stat.S_ISVTX):
            yield found
