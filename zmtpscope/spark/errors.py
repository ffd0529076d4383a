"""Mistakes of users as they see them: one sentence, not the traceback of a worker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from zmtpscope.capture import CaptureError


class SettingsError(ValueError):
    """An option that cannot be what the user meant: one sentence."""


@contextmanager
def one_sentence(*more: type[Exception]) -> Iterator[None]:
    """In a process of Spark's: what is wrong with options or captures, and `more`, is shown as the sentence that it is.

    Spark shows what a worker raised with its traceback, unless this variable is set when it does; the worker that
    raised ends then, so it says nothing about what others raise.
    """
    sentences: tuple[type[Exception], ...] = (CaptureError, SettingsError, *more)
    try:
        yield
    except sentences:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
