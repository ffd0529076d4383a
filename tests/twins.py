"""Functions that are compiled, and the same in Python (`zmtpscope/compiled.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zmtpscope import compiled


def twins(name: str) -> list[Callable[..., Any]]:
    """The compiled function of this name and the one in Python; only the latter where `ZMTPSCOPE_COMPILED` says so."""
    if not compiled.IS_WANTED:
        module, _, function = name.rpartition(".")
        return [getattr(__import__(module, fromlist=[function]), function)]
    return list(compiled.PAIRS[name])
