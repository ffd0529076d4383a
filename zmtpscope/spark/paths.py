"""What `load` is given becomes a list of capture files, on the driver: whatever is wrong with a path is said there."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from zmtpscope.capture import CaptureError
from zmtpscope.capture.files import NotACapture, find_files

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


class Lookup(NamedTuple):
    """How files are found, as by other sources of Spark."""

    recursive: bool = False
    """Whether directories inside of directories are searched."""
    names: str = "*"
    """The pattern that names of files must match."""


ANY_NAME = Lookup()
"""Captures of one folder, whatever their names."""


def find_paths(given: Iterable[str | Path], lookup: Lookup = ANY_NAME) -> list[str]:
    """The capture files that paths, globs and directories name, each once: of a directory or glob those that are
    captures, by name. Raises `CaptureError` where one names no capture, or what workers cannot read."""
    found: dict[str, None] = {}
    for path in map(str, given):
        read_here = f'zmtpscope.spark.read(spark, "{path}") reads URIs of {", ".join(STORES)}'
        found.update(dict.fromkeys(_looked_up(local_path(path, instead=read_here), lookup)))
    return list(found)


def _looked_up(path: str, lookup: Lookup) -> list[str]:
    if lookup.recursive and os.path.isdir(path):
        path = os.path.join(glob.escape(path), "**")
    files = _expand(path)
    found = [file for file in files if fnmatchcase(os.path.basename(file), lookup.names)]
    if not found:
        raise CaptureError(path, f"none of the {len(files)} captures has a name that matches {lookup.names}")
    return found


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


def _expand(path: str) -> list[str]:
    if path == "-":
        raise CaptureError(None, "workers cannot read it", hint="write the capture to a file first")
    if glob.has_magic(path) and not os.path.exists(path):
        return _matches(path)
    return [_readable(file.path) for file in find_files([path])]


def _matches(pattern: str) -> list[str]:
    matches = sorted(glob.glob(pattern, recursive=True))
    found: list[str] = []
    for match in matches:
        try:
            found += _expand(match)
        except NotACapture:
            continue
        except CaptureError:
            if not os.path.isdir(match):
                raise
    if not found:
        what = f"none of the {len(matches)} that match is a capture" if matches else "nothing matches"
        raise CaptureError(pattern, what)
    return found


def _readable(path: str) -> str:
    """The same path, if it is a file that can be read more than once."""
    if not os.path.isfile(path):
        raise CaptureError(path, "is no regular file, and every worker reads it anew", hint="write it to a file first")
    return path
