"""Find the capture files for the paths given to `load`. This happens on the driver, where errors in paths
are raised."""

from __future__ import annotations

import glob
import json
import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from zmtpscope.capture import CaptureError
from zmtpscope.capture.files import NotACapture, find_files
from zmtpscope.export.safe_text import safe_text
from zmtpscope.spark.folders import is_column

LOG = logging.getLogger(__name__)

MAX_NAMED = 5
"""Number of skipped files that the warning names."""

PATH_OPTIONS = ("path", "paths")
"""Options in which Spark passes the paths of `load`: one path, or a JSON list."""

STORES = ("s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")
"""Schemes that `read` and `ingest` accept, besides `file`."""

NO_TABLES = (
    "Spark stores no table options for a source in Python; use CREATE TEMPORARY VIEW name USING zmtp OPTIONS "
    "(path '...'), or write Parquet with zmtpscope.spark.ingest"
)
"""Options of catalog tables: Spark 4.3 creates their source without options, and so without a path."""


def given_paths(options: Mapping[str, str]) -> list[str]:
    """Return the paths, globs and directories that the options of `load` name. Raises `CaptureError` if
    there are none."""
    one, many = options.get("path"), options.get("paths")
    paths = ([] if one is None else [one]) + ([] if many is None else [str(each) for each in json.loads(many)])
    if not paths:
        hint = f'name captures, load("captures/*.pcap"); or, if this is a table of the catalog: {NO_TABLES}'
        raise CaptureError("load", "no path was given", hint=hint)
    return paths


class Candidate(NamedTuple):
    """A possible capture file, and the directory that was searched for it."""

    path: str
    directory: str


class Lookup(NamedTuple):
    """How captures are found in directories: `recursive`, by a pattern for `names`, and the `base` for
    folder columns."""

    recursive: bool = False
    """Whether to search all subdirectories, or only the ones that are columns."""
    names: str = "*"
    base: str | None = None
    """The directory below which folders are columns; None: the given directory, unless `recursive`."""

    def wanted(self, path: str, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return the candidates whose names match. Raises `CaptureError` if no file in `path` matches."""
        found = [each for each in candidates if fnmatchcase(os.path.basename(each.path), self.names)]
        if candidates and not found:
            raise CaptureError(path, f"none of the {len(candidates)} file names matches {self.names}")
        return found


ANY_NAME = Lookup()
"""Captures of one folder, with any names."""


@dataclass(frozen=True, slots=True)
class FoundCaptures:
    files: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    """Files of directories and globs that are not captures, with the reason."""
    roots: dict[str, str] = field(default_factory=dict)
    """Directory of each file below which its folders are columns, with a slash at the end."""

    def add(self, file: Candidate, size: int, lookup: Lookup) -> None:
        """Add a capture file. Raises `CaptureError` if it is outside of the folder `basePath`."""
        if file.path in self.files:
            return
        self.files[file.path] = size
        if lookup.base is None and lookup.recursive:
            return
        root = (lookup.base or file.directory or ".").rstrip("/") + "/"
        if lookup.base is not None and not file.path.startswith(root):
            raise CaptureError(file.path, f"is not below {root}, which the option basePath names")
        self.roots[file.path] = root

    def update(self, others: FoundCaptures) -> None:
        for file, size in others.files.items():
            if file not in self.files:
                self.files[file] = size
                self.roots.update((file, root) for root in [others.roots.get(file)] if root is not None)
        self.skipped.update(others.skipped)

    def skip(self, path: str, why: str) -> None:
        """Store that a file is no capture, and why; but ignore files with hidden names such as `_SUCCESS`."""
        if not os.path.basename(path).startswith((".", "_")):
            self.skipped[path] = why

    def warn(self) -> None:
        """Log one line with the names of skipped files, if any."""
        if self.skipped:
            some = [safe_text(os.path.basename(path)) for path in islice(self.skipped, MAX_NAMED)]
            names = ", ".join(some) + (", ..." if len(self.skipped) > len(some) else "")
            text = "zmtpscope: skipped %d of %d files that are not captures: %s; zmtpscope.spark.skipped lists them"
            LOG.warning(text, len(self.skipped), len(self.skipped) + len(self.files), names)


def find_paths(given: Iterable[str | Path], lookup: Lookup = ANY_NAME) -> FoundCaptures:
    """Return the captures of paths, globs and directories. Files of a directory or glob are sorted by name, and
    other files in it are skipped. Raises `CaptureError` for a path without captures, or one that workers cannot
    read."""
    found = FoundCaptures()
    if lookup.base is not None:
        lookup = lookup._replace(base=local_path(lookup.base))
    for path in map(str, given):
        read_here = f'zmtpscope.spark.read(spark, "{path}") reads URIs of {", ".join(STORES)}'
        _add(local_path(path, instead=read_here), lookup, found)
    return found


def _add(path: str, lookup: Lookup, found: FoundCaptures) -> None:
    if path == "-":
        raise CaptureError(None, "workers cannot read it", hint="write the capture to a file first")
    if glob.has_magic(path) and not os.path.exists(path):
        _add_matches(path, lookup, found)
    elif os.path.isdir(path):
        _add_directory(path, lookup, found)
    else:
        (file,) = lookup.wanted(path, [Candidate(path, os.path.dirname(path))])
        if os.path.exists(path) and not os.path.isfile(path):
            hint = "write it to a file first"
            raise CaptureError(path, "is not a regular file, and every worker has to read it", hint=hint)
        find_files([path])  # raises the error
        found.add(file, os.path.getsize(path), lookup)


def _add_matches(pattern: str, lookup: Lookup, found: FoundCaptures) -> None:
    matches = sorted(glob.glob(pattern, recursive=True))
    candidates: list[Candidate] = []
    for match in matches:
        if os.path.isdir(match):
            candidates += _files_in(match, lookup)
        elif os.path.isfile(match):
            candidates.append(Candidate(match, os.path.dirname(match)))
    if not _add_captures(lookup.wanted(pattern, candidates), lookup, found):
        what = f"none of the {len(matches)} matching files is a capture" if matches else "nothing matches"
        raise CaptureError(pattern, what)


def _add_directory(directory: str, lookup: Lookup, found: FoundCaptures) -> None:
    candidates = lookup.wanted(directory, _files_in(directory, lookup))
    if not _add_captures(candidates, lookup, found):
        what = f"none of its {len(candidates)} files is a capture" if candidates else "it is empty"
        hint = what if lookup.recursive else f"{what}; subdirectories are not searched"
        raise CaptureError(directory, "is a directory without captures", hint=hint)


def _files_in(directory: str, lookup: Lookup) -> list[Candidate]:
    def refuse(error: OSError) -> None:
        raise CaptureError(error.filename, f"cannot be listed: {error.strerror}")

    paths: list[str] = []
    for folder, inside, names in os.walk(directory, onerror=refuse, followlinks=True):
        inside[:] = [name for name in inside if is_searched(name, lookup)]
        paths += filter(os.path.isfile, [os.path.join(folder, name) for name in names])
    return [Candidate(path, directory) for path in sorted(paths)]


def is_searched(directory: str, lookup: Lookup) -> bool:
    return not directory.startswith((".", "_")) if lookup.recursive else is_column(directory)


def _add_captures(candidates: Iterable[Candidate], lookup: Lookup, found: FoundCaptures) -> bool:
    """Return whether there are captures among these files."""
    is_any = False
    for file in candidates:
        try:
            find_files([file.path])
        except NotACapture as error:
            found.skip(file.path, error.message)
        else:
            found.add(file, os.path.getsize(file.path), lookup)
            is_any = True
    return is_any


def scheme_of(path: str) -> str | None:
    """Return the URI scheme in lower case; None for a file system path, including an existing one with a colon."""
    scheme = re.match("([A-Za-z][A-Za-z0-9+.-]+):", path)
    return None if scheme is None or os.path.exists(path) else scheme[1].lower()


def local_path(path: str, *, instead: str = "") -> str:
    """Return the file system path of a path or `file:` URI (RFC 8089): `file:/a%20b`, `file:///a%20b`.

    Raises `CaptureError` for another URI. If it names a store that `read` supports, `instead` is the hint of the error.
    """
    scheme = scheme_of(path)
    if scheme is None:
        return path
    if scheme in STORES:
        raise CaptureError(path, f"{scheme}: is not supported", hint=instead)
    if scheme != "file":
        known = f"name the path where it is mounted, /dbfs/x for dbfs:/x, or a URI of file, {', '.join(STORES)}"
        raise CaptureError(path, f"{scheme}: is not a known file system", hint=known)
    name = re.fullmatch("file:(?://(?:localhost)?)?(/(?!/).*)", path, re.IGNORECASE | re.DOTALL)
    if name is None:
        raise CaptureError(path, "is not a file of this host", hint="name a path, or a URI such as file:///captures")
    return unquote(name[1])
