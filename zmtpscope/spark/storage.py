"""Captures and tables outside the file system: URIs that pyarrow supports (s3, hdfs, gs, abfs)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType, LocalFileSystem

from zmtpscope.capture import ALWAYS, CaptureError, CaptureProblem, TimeSpan
from zmtpscope.capture.files import CaptureFile, NotACapture, find_again
from zmtpscope.capture.source import Source, StreamSource, ready
from zmtpscope.capture.statistics import FileReports
from zmtpscope.spark.paths import ANY_NAME, STORES, Candidate, FoundCaptures, Lookup, is_searched, local_path, scheme_of

MAGIC = re.compile("[*?[]")
FILES_AT_A_TIME = 16
"""Files to check concurrently for being captures, because stores respond slowly."""
AHEAD = 1 << 20
"""Octets requested from a store at a time."""


def is_uri(path: str) -> bool:
    """Whether a path is a URI other than a `file:` URI."""
    return scheme_of(path) not in (None, "file")


def locate(path: str | Path) -> tuple[FileSystem, str]:
    """Return the file system of a path or URI, and the path in that file system. Raises `CaptureError` if it cannot be
    reached."""
    text = str(path)
    if scheme_of(text) not in STORES:
        return LocalFileSystem(), os.path.abspath(local_path(text))
    try:
        # s3a is the name of s3 in Spark and Hadoop
        filesystem, found = FileSystem.from_uri(re.sub("(?i)^s3[an]?:", "s3:", text))
    except (OSError, ValueError) as error:
        raise CaptureError(text, f"cannot be reached: {_first_line(error)}") from None
    return filesystem, found


def find_stored(uri: str, lookup: Lookup = ANY_NAME) -> FoundCaptures:
    """Return the captures of a URI of a file, a folder or a pattern. Files of a folder or pattern are sorted by
    name, and other files are skipped. Raises `CaptureError` as `find_paths` does."""
    magic = MAGIC.search(uri)
    place = uri if magic is None else uri[: magic.start()].rpartition("/")[0]
    filesystem, path = locate(place)
    prefix = place[: len(place) - len(path)]
    try:
        infos = _named(filesystem, path, path + uri[len(place) :] if magic else None, lookup)
    except OSError as error:
        raise CaptureError(uri, f"cannot be listed: {_first_line(error)}") from None
    sizes = {prefix + info.path: info.size for info in infos}
    is_folder = magic is None and place not in sizes
    candidates = [Candidate(file, place if is_folder else file.rpartition("/")[0]) for file in sizes]
    wanted = lookup.wanted(uri, candidates)
    with ThreadPoolExecutor(FILES_AT_A_TIME) as threads:
        refusals = list(threads.map(_why_not_a_capture, [file.path for file in wanted]))
    is_one = [file.path for file in candidates] == [uri]
    found = FoundCaptures()
    for file, refusal in zip(wanted, refusals, strict=True):
        if refusal is None:
            found.add(file, sizes[file.path], lookup)
        elif is_one or not isinstance(refusal, NotACapture):
            raise refusal
        else:
            found.skip(file.path, refusal.message)
    if not found.files:
        what = f"none of its {len(candidates)} files is a capture" if candidates else "no such file"
        raise CaptureError(uri, what)
    return found


def _named(filesystem: FileSystem, path: str, pattern: str | None, lookup: Lookup) -> list[FileInfo]:
    """Return, sorted by name, a file, the files in a folder, or the files below a folder that match `pattern`."""
    if pattern is None:
        info = filesystem.get_file_info(path)
        if info.type == FileType.Directory:
            return sorted(_in_folder(filesystem, path, lookup), key=_path_of)
        return [info] if info.is_file else []
    is_deep = pattern.count("/") > path.count("/") + 1
    infos = filesystem.get_file_info(FileSelector(path, recursive=is_deep or lookup.recursive))
    return sorted((info for info in infos if info.is_file and _matches(info.path, pattern)), key=_path_of)


def _in_folder(filesystem: FileSystem, path: str, lookup: Lookup) -> Iterator[FileInfo]:
    for info in filesystem.get_file_info(FileSelector(path)):
        if info.is_file:
            yield info
        elif is_searched(info.base_name, lookup):
            yield from _in_folder(filesystem, info.path, lookup)


def _path_of(info: FileInfo) -> str:
    return str(info.path)


def _matches(path: str, pattern: str) -> bool:
    parts, patterns = path.split("/"), pattern.split("/")
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))


def _why_not_a_capture(uri: str) -> CaptureError | None:
    try:
        StoredCapture(uri).close()
    except CaptureError as error:
        return error
    return None


def open_again(path: str, span: TimeSpan, reports: FileReports) -> CaptureFile | None:
    """Open a file or URI that was a capture when the driver found it. If it no longer is one, add a problem to
    `reports` and return None."""
    if not is_uri(path):
        return next(iter(find_again([path], span, reports)), None)
    try:
        return StoredCapture(path, span)
    except CaptureError as error:
        reports.problems.append(CaptureProblem(path, 0, error.offset or 0, error.message))
        return None


def check_on_worker(files: Sequence[str]) -> None:
    """Raise `CaptureError` if a worker sees none of the files that the driver found."""
    if not any(is_uri(path) or os.path.exists(path) for path in files):
        hint = "captures must lie where every worker can read them"
        raise CaptureError(files[0], "no such file on this worker", hint=hint)


class StoredCapture(CaptureFile):
    """A capture in an object store, which can be read once. It is opened when the object is created."""

    def __init__(self, uri: str, span: TimeSpan = ALWAYS) -> None:
        super().__init__(uri, None, span)

    def _open_source(self) -> Source:
        filesystem, path = locate(self.path)
        try:
            size = filesystem.get_file_info(path).size
            stream = filesystem.open_input_stream(path, buffer_size=AHEAD, compression=None)
        except (FileNotFoundError, pa.ArrowInvalid):
            raise CaptureError(self.path, "no such file") from None
        except OSError as error:
            raise CaptureError(self.path, f"cannot be opened: {_first_line(error)}") from None
        return ready(StreamSource(self.path, stream, size or 0))

    def close(self) -> None:
        """Close the file, after which it cannot be read."""
        self._close()


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
