"""Select the compiled version of a function if it is installed.

The function `name` in `module.py` (the twin, plain Python) has a compiled version `name` in `module_compiled.pyx`. The
twin runs if nothing was compiled when zmtpscope was installed. Both return equal results for any input (docs/seams.md,
P20).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Any, NamedTuple, TypeVar

IS_WANTED = os.environ.get("ZMTPSCOPE_COMPILED") != "0"

Function = TypeVar("Function", bound=Callable[..., Any])


class Pair(NamedTuple):
    compiled: Callable[..., Any]
    twin: Callable[..., Any]


PAIRS: dict[str, Pair] = {}
"""Pairs of a twin and its compiled version that are in use, by module and function name."""


def state() -> str:
    """Describe whether compiled modules are in use, for `--version`."""
    scanner = os.path.join(os.path.dirname(__file__), "zmtp", "scanner_compiled")
    if not any(os.path.exists(scanner + suffix) for suffix in EXTENSION_SUFFIXES):
        return "not compiled, so slower"
    return "compiled" if IS_WANTED else "compiled, but disabled"


class Outdated(ImportError):
    """A compiled module was built from another version of the program."""


def where_possible(twin: Function) -> Function:
    """Return the compiled version of the Python function `twin`, or `twin` if there is none.

    Raises `Outdated` if the compiled module is older than its twin.
    """
    name = f"{twin.__module__}_compiled"
    try:
        compiled: Function = getattr(import_module(name), twin.__name__) if IS_WANTED else twin
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        compiled = twin
    except AttributeError:
        raise Outdated(f"{name} is of another version of zmtpscope: compile it again (make, or pip install)") from None
    if compiled is twin:
        return twin
    PAIRS[f"{twin.__module__}.{twin.__name__}"] = Pair(compiled, twin)
    return compiled
