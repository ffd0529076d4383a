"""What `load` is given becomes a list of capture files, on the driver: whatever is wrong with a path is said there."""

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
"""Skipped files that the warning names."""

PATH_OPTIONS = ("path", "paths")
"""The options in which Spark hands on what `load` is given: one path, or a JSON list."""

STORES = ("s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")
"""Schemes of URIs that `read` and `ingest` take, besides `file`."""

NO_TABLES = (
    "Spark keeps no options of a table for a source in Python; use CREATE TEMPORARY VIEW name USING zmtp OPTIONS "
    "(path '...'), or write Parquet with zmtpscope.spark.ingest"
)
"""Spark 4.3 makes the source of a catalog table without any option, and so without a path."""


def given_paths(options: Mapping[str, str]) -> list[str]:
    """The paths, globs and directories that `load` was given. Raises `CaptureError` where there are none."""
    one, many = options.get("path"), options.get("paths")
    paths = ([] if one is None else [one]) + ([] if many is None else [str(each) for each in json.loads(many)])
    if not paths:
        hint = f'name captures, load("captures/*.pcap"); or, if this is a table of the catalog: {NO_TABLES}'
        raise CaptureError("load", "it was given no path", hint=hint)
    return paths


class Candidate(NamedTuple):
    """A file that may be a capture, and the directory in which or below which it was found."""

    path: str
    directory: str


class Lookup(NamedTuple):
    """How files are found, as by other sources of Spark."""

    recursive: bool = False
    """Whether all directories inside of directories are searched, or only those that are columns."""
    names: str = "*"
    """The pattern that names of files must match."""
    base: str | None = None
    """The directory below which folders are columns. None: the directory that was given, unless `recursive`."""

    def wanted(self, path: str, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return the files with names that are looked for. Raises `CaptureError` if `path` has only others."""
        found = [each for each in candidates if fnmatchcase(os.path.basename(each.path), self.names)]
        if candidates and not found:
            raise CaptureError(path, f"none of the {len(candidates)} files has a name that matches {self.names}")
        return found


ANY_NAME = Lookup()
"""FoundCaptures of one folder, whatever their names."""


@dataclass(frozen=True, slots=True)
class FoundCaptures:
    """The captures that paths name."""

    files: dict[str, int] = field(default_factory=dict)
    """Each once, with its size."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Files of directories and globs that are no captures, and why."""
    roots: dict[str, str] = field(default_factory=dict)
    """The directory of each file below which its folders are columns, with a slash at the end."""

    def add(self, file: Candidate, size: int, lookup: Lookup) -> None:
        """Add a capture. Raises `CaptureError` for one outside of the base."""
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
        """Add captures that were found in another place."""
        for file, size in others.files.items():
            if file not in self.files:
                self.files[file] = size
                self.roots.update((file, root) for root in [others.roots.get(file)] if root is not None)
        self.skipped.update(others.skipped)

    def skip(self, path: str, why: str) -> None:
        """Add a file that is no capture, unless its name marks it as none for readers, such as `_SUCCESS`."""
        if not os.path.basename(path).startswith((".", "_")):
            self.skipped[path] = why

    def warn(self) -> None:
        """Log one line that names files that were skipped, if there are any."""
        if self.skipped:
            some = [safe_text(os.path.basename(path)) for path in islice(self.skipped, MAX_NAMED)]
            names = ", ".join(some) + (", ..." if len(self.skipped) > len(some) else "")
            text = "zmtpscope: skipped %d of %d files, which are no captures: %s; zmtpscope.spark.skipped lists them"
            LOG.warning(text, len(self.skipped), len(self.skipped) + len(self.files), names)


def find_paths(given: Iterable[str | Path], lookup: Lookup = ANY_NAME) -> FoundCaptures:
    """Return the capture files that paths, globs and directories name: of a directory or glob those that are captures,
    by name. Raises `CaptureError` where one names no capture, or what workers cannot read."""
    found = FoundCaptures()
    if lookup.base is not None:
        lookup = lookup._replace(base=local_path(lookup.base))
    for path in map(str, given):
        read_here = f'zmtpscope.spark.read(spark, "{path}") reads URIs of {", ".join(STORES)}'
        _add(local_path(path, instead=read_here), lookup, found)
    return found


def _add(path: str, lookup: Lookup, found: FoundCaptures) -> None:
    """Add the captures that a path, glob or directory names."""
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
            raise CaptureError(path, "is no regular file, and every worker reads it anew", hint=hint)
        find_files([path])  # raises what is wrong with it
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
        what = f"none of the {len(matches)} that match is a capture" if matches else "nothing matches"
        raise CaptureError(pattern, what)


def _add_directory(directory: str, lookup: Lookup, found: FoundCaptures) -> None:
    candidates = lookup.wanted(directory, _files_in(directory, lookup))
    if not _add_captures(candidates, lookup, found):
        what = f"no file in it (of {len(candidates)}) is one" if candidates else "no file is in it"
        hint = what if lookup.recursive else f"{what}, and directories inside it are not searched"
        raise CaptureError(directory, "is a directory without captures", hint=hint)


def _files_in(directory: str, lookup: Lookup) -> list[Candidate]:
    """Return the files in a directory and in those inside of it that are searched, by name."""

    def refuse(error: OSError) -> None:
        raise CaptureError(error.filename, f"cannot be listed: {error.strerror}")

    paths: list[str] = []
    for folder, inside, names in os.walk(directory, onerror=refuse, followlinks=True):
        inside[:] = [name for name in inside if is_searched(name, lookup)]
        paths += filter(os.path.isfile, [os.path.join(folder, name) for name in names])
    return [Candidate(path, directory) for path in sorted(paths)]


def is_searched(directory: str, lookup: Lookup) -> bool:
    """Return whether a directory of this name inside of another one is searched."""
    return not directory.startswith((".", "_")) if lookup.recursive else is_column(directory)


def _add_captures(candidates: Iterable[Candidate], lookup: Lookup, found: FoundCaptures) -> bool:
    """Add those of the files that are captures, and return whether any of them is one."""
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
    """The scheme of a URI, in lower case. None for a path of the file system, and for one with a colon that exists."""
    scheme = re.match("([A-Za-z][A-Za-z0-9+.-]+):", path)
    return None if scheme is None or os.path.exists(path) else scheme[1].lower()


def local_path(path: str, *, instead: str = "") -> str:
    """The path that a path or `file:` URI names, as RFC 8089 has it: `file:/a%20b`, `file:///a%20b`.

    Raises `CaptureError` for another URI. For that of a store its hint says what to do `instead`.
    """
    scheme = scheme_of(path)
    if scheme is None:
        return path
    if scheme in STORES:
        raise CaptureError(path, f"{scheme}: is not read here", hint=instead)
    if scheme != "file":
        known = f"name the path where it is mounted, /dbfs/x for dbfs:/x, or a URI of file, {', '.join(STORES)}"
        raise CaptureError(path, f"{scheme}: is no file system that is known here", hint=known)
    name = re.fullmatch("file:(?://(?:localhost)?)?(/(?!/).*)", path, re.IGNORECASE | re.DOTALL)
    if name is None:
        raise CaptureError(path, "is no file of this host", hint="name a path, or a URI such as file:///captures")
    return unquote(name[1])
