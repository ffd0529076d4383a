"""Show users one sentence instead of the traceback of a worker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from zmtpscope.capture import CaptureError


class SettingsError(ValueError):
    """An invalid option. The message is one sentence."""


@contextmanager
def one_sentence(*more: type[Exception]) -> Iterator[None]:
    """Show errors in options or captures, and of the types `more`, as one sentence.

    Spark prints the traceback of a worker's exception unless an environment variable is set when it is raised. The
    worker ends afterwards, so the variable does not affect later exceptions.
    """
    sentences: tuple[type[Exception], ...] = (CaptureError, SettingsError, *more)
    try:
        yield
    except sentences:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
