"""Functions that are compiled, where that could be done when zmtpscope was installed.

Each has a twin in Python, which says what it does, and runs where nothing was compiled: `name` in `module.py` is that
of `name` in `module_compiled.pyx` beside it. Both give the same for any input (docs/seams.md, P20).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Any, NamedTuple, TypeVar

IS_WANTED = os.environ.get("ZMTPSCOPE_COMPILED") != "0"
"""Whether what was compiled is used."""

Function = TypeVar("Function", bound=Callable[..., Any])


class Pair(NamedTuple):
    """A function that is compiled, and the same in Python."""

    compiled: Callable[..., Any]
    twin: Callable[..., Any]


PAIRS: dict[str, Pair] = {}
"""Those in use, by the name of the module and of the function."""


def state() -> str:
    """Whether what can be compiled is, in words."""
    scanner = os.path.join(os.path.dirname(__file__), "zmtp", "scanner_compiled")
    if not any(os.path.exists(scanner + suffix) for suffix in EXTENSION_SUFFIXES):
        return "not compiled, so slower"
    return "compiled" if IS_WANTED else "compiled, but told not to use that"


def where_possible(twin: Function) -> Function:
    """The compiled function of a twin; the twin itself where there is none."""
    name = f"{twin.__module__}_compiled"
    try:
        compiled: Function = getattr(import_module(name), twin.__name__) if IS_WANTED else twin
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        compiled = twin
    if compiled is twin:
        return twin
    PAIRS[f"{twin.__module__}.{twin.__name__}"] = Pair(compiled, twin)
    return compiled
