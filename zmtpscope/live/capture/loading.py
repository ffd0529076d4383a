"""Imports modules before the process switches to a user who may not read this Python installation."""

from __future__ import annotations

import importlib
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from types import ModuleType

from zmtpscope.live.capture.privileges import User

PACKAGE = "zmtpscope"


def load_for(user: User | None) -> None:
    """Import all modules of zmtpscope that may be needed later, unless `user` may read their files."""
    if user is None or all(may_read(user, path) for path in (__file__, os.__file__)):
        return
    seen: set[str] = set()
    while new := [module for name, module in sys.modules.items() if _is_ours(name) and name not in seen]:
        for module in new:
            seen.add(module.__name__)
            for name in _imports(module):
                with suppress(ImportError):  # not installed, or an attribute
                    importlib.import_module(name)


def may_read(user: User, path: str) -> bool:
    """Whether `user` may read a file, by the permissions of `path` and its parent folders."""
    path = os.path.realpath(path)
    needed = os.R_OK
    while True:
        if not _has(user, os.stat(path), needed):
            return False
        parent = os.path.dirname(path)
        if parent == path:
            return True
        path, needed = parent, os.X_OK


def _has(user: User, status: os.stat_result, needed: int) -> bool:
    if user.uid == 0:
        return True
    if status.st_uid == user.uid:
        shift = 6
    elif status.st_gid in (user.gid, *user.groups):
        shift = 3
    else:
        shift = 0
    return bool(stat.S_IMODE(status.st_mode) >> shift & needed)


def _is_ours(name: str) -> bool:
    return name == PACKAGE or name.startswith(f"{PACKAGE}.")


def _imports(module: ModuleType) -> Iterator[str]:
    import ast  # rarely needed, and a capture must start at once
    import inspect

    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError):  # compiled
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            if _is_ours(node.module):
                yield from (f"{node.module}.{each.name}" for each in node.names)
