"""Read the entry points of installed distributions from their files.

`importlib.metadata` takes half as long to load as numpy. It is used only if distributions may be outside of folders in
`sys.path`: in zip files or eggs, or found by import hooks.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.machinery import PathFinder
from typing import Any, NamedTuple

METADATA = {".dist-info": "METADATA", ".egg-info": "PKG-INFO"}
"""File with the distribution's name, by suffix of its folder."""


class EntryPoint(NamedTuple):
    """An installed entry point. `value` is `module:attribute`, `package` the distribution."""

    name: str
    value: str
    package: str

    def load(self) -> Any:
        """Import the object. Exceptions of the module propagate."""
        module, _, attributes = self.value.partition(":")
        found = import_module(module.strip())
        for attribute in filter(None, attributes.strip().split(".")):
            found = getattr(found, attribute)
        return found


def entry_points(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, sorted by name. Of a distribution installed twice, the first in `sys.path`
    counts."""
    if _lie_elsewhere():
        from importlib.metadata import entry_points as asked

        return sorted(
            EntryPoint(each.name, each.value, each.dist.name if each.dist else "") for each in asked(group=group)
        )
    found: list[EntryPoint] = []
    seen = set()
    for path in dict.fromkeys(sys.path):
        for folder in _distributions(path or "."):
            distribution = _normalized(os.path.basename(folder).partition("-")[0].removesuffix(".egg"))
            if distribution not in seen:
                seen.add(distribution)
                found += _entry_points_of(folder, group)
    return sorted(found)


def _lie_elsewhere() -> bool:
    if any(hasattr(finder, "find_distributions") for finder in sys.meta_path if finder is not PathFinder):
        return True
    return any(path.endswith(".egg") or os.path.isfile(path) for path in sys.path)


def _distributions(path: str) -> list[str]:
    try:
        return [os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(tuple(METADATA))]
    except OSError:
        return []


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _entry_points_of(folder: str, group: str) -> Iterator[EntryPoint]:
    octets = _octets(os.path.join(folder, "entry_points.txt"))
    if group.encode() not in octets:
        return
    section, package = "", ""
    for line in map(str.strip, _text(octets).splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif section == group and "=" in line and not line.startswith("#"):
            package = package or _name_of(folder)
            name, value = line.split("=", 1)
            yield EntryPoint(name.strip(), value.partition("[")[0].strip(), package)


def _name_of(folder: str) -> str:
    text = _text(_octets(os.path.join(folder, METADATA[os.path.splitext(folder)[1]])))
    found = re.search(r"^Name: *(.*)$", text, re.MULTILINE)
    return found[1].strip() if found else ""


def _octets(path: str) -> bytes:
    """Empty if the file cannot be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def _text(octets: bytes) -> str:
    return octets.decode(errors="replace")
