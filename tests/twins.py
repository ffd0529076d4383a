"""Functions that are compiled, and the same in Python (`zmtpscope/compiled.py`)."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from zmtpscope import compiled


def twins(name: str) -> list[Callable[..., Any]]:
    """The compiled function of this name and the one in Python; only the latter where nothing compiled is used."""
    module, _, function = name.rpartition(".")
    used = getattr(import_module(module), function)
    return list(compiled.PAIRS.get(name, [used]))
