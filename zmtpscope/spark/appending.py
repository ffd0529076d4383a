"""Record which captures the tables of a folder contain, so that each capture is added once, even after a crash.

`ingest` writes files of tables (parts) into a folder `_ingest-ID`. When a note, `_ingested/ID.json`, names their
captures, the parts belong to the tables and are moved there. After a driver was killed, `finish` moves the parts of a
folder with a note, and removes a folder without one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from pyarrow.fs import FileSelector, FileSystem, FileType

from zmtpscope.capture import CaptureError
from zmtpscope.spark.capture_folder import uncompressed
from zmtpscope.spark.storage import locate

STAGING, NOTES = "_ingest-", "_ingested"


class Ingested(NamedTuple):
    """A file that was ingested, with its size and modification time (ns) when it was read."""

    path: str
    size: int
    modified: int

    @property
    def name(self) -> str:
        """The path without a suffix of compression, since a capture may be compressed later."""
        return uncompressed(self.path)


def captures_now(paths: Iterable[str]) -> list[Ingested]:
    found = []
    for path in paths:
        filesystem, place = locate(path)
        info = filesystem.get_file_info(place)
        found.append(Ingested(path, info.size or 0, info.mtime_ns or 0))
    return found


def new_ones(captures: Iterable[Ingested], known: Iterable[Ingested]) -> list[Ingested]:
    """Return the captures that the tables do not contain yet.

    Raises `CaptureError` if a capture that they contain has changed.
    """
    by_name = {each.name: each for each in known}
    new = []
    for capture in captures:
        before = by_name.get(capture.name)
        if before is None:
            new.append(capture)
        elif capture.path == before.path and capture != before:
            hint = 'append needs complete files with distinct names; mode="overwrite" reads all of them again'
            raise CaptureError(capture.path, "it changed after its rows were written", hint=hint)
    return new


def noted(filesystem: FileSystem, root: str) -> list[Ingested]:
    """Return the captures that the tables of a folder contain, according to its notes."""
    found = []
    for info in filesystem.get_file_info(FileSelector(f"{root}/{NOTES}", allow_not_found=True)):
        if info.extension == "json":
            with filesystem.open_input_stream(info.path) as file:
                found += [Ingested(*each) for each in json.loads(file.read())]
    return found


def note(filesystem: FileSystem, root: str, staging: str, captures: Iterable[Ingested]) -> None:
    """Add the files in `staging`, which were made from `captures`, to the tables, by writing a note."""
    place = f"{root}/{NOTES}/{staging.rpartition(STAGING)[2]}"
    filesystem.create_dir(f"{root}/{NOTES}")
    with filesystem.open_output_stream(place) as file:
        file.write(json.dumps([*captures]).encode())
    filesystem.move(place, f"{place}.json")  # atomic, so that no note is incomplete


def put_in_place(filesystem: FileSystem, root: str, staging: str) -> None:
    """Move the files in `staging` to the folders of their tables. Some may have been moved before."""
    for folder in filesystem.get_file_info(FileSelector(staging)):
        place = f"{root}/{folder.base_name}"
        if filesystem.type_name in ("local", "hdfs") and filesystem.get_file_info(place).type == FileType.NotFound:
            filesystem.move(folder.path, place)
            continue
        filesystem.create_dir(place)  # object stores have no folders: each file is copied
        for file in filesystem.get_file_info(FileSelector(folder.path)):
            filesystem.move(file.path, f"{place}/{file.base_name}")
    filesystem.delete_dir(staging)


def finish(filesystem: FileSystem, root: str) -> None:
    """Finish or undo an `ingest` that was killed. Afterwards each of its files is in its table or removed."""
    for info in filesystem.get_file_info(FileSelector(root, allow_not_found=True)):
        if info.type != FileType.Directory or not info.base_name.startswith(STAGING):
            continue
        if filesystem.get_file_info(f"{root}/{NOTES}/{info.base_name.removeprefix(STAGING)}.json").is_file:
            put_in_place(filesystem, root, info.path)
        else:
            filesystem.delete_dir(info.path)
