"""Find replies that report an error: a text such as `ERROR: busy`, a status frame, a JSON object, or a pickled
exception."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from zmtpscope import compiled
from zmtpscope.diagnosis.observers.call_messages import OBJECTS, error_of, shown_error
from zmtpscope.dissect.records.tables import MessageTable
from zmtpscope.payloads.dissected import Dissected

PICKLE = "pickle"
MAX_FRAMES = 4
"""First frames that may be a status or a text."""
HEAD = 160
"""Octets of a frame to look at."""

WORDS = rb"ERR|ERROR|FAIL|FAILED|FAILURE|NOK|NACK|NAK|EXCEPTION"
TEXT = re.compile(
    rb"(?:(?:%s)(?=[\s:,;|]|$)|(?:[Ee]rror|[Ee]xception|[Ff]ailed):|Traceback \(most recent call last\)"
    rb"|[A-Za-z_][\w.]*(?:Error|Exception)(?:: |\())(?![\s:=]*[-+]?(?:0+|\d*\.\d+)\s*$)" % WORDS
)
"""Start of a text of an error. A number after it, such as `Error: 0.02`, is a measured value."""
STATUS = re.compile(rb"(?i:(?!NO[_-])(?:[A-Z]+[_-])*(?:%s))" % WORDS)
"""Matches a frame that is a status, such as `error` or `UNKNOWN_ERROR`."""
BEGINNING = re.compile(TEXT.pattern + rb"|" + STATUS.pattern)
"""Start of a status or a text."""
OF_OBJECT = re.compile(
    rb'"(?:(?:[Ee]rr(?:or)?|[Ee]xception|[Tt]raceback)(?:_?(?:[Mm]sg|[Mm]essage|[Tt]ext))?"\s*:\s*["{]'
    rb'|status"\s*:\s*"(?i:err|fail|exc)|(?:ok|success)"\s*:\s*false)'
)
"""Matches a part of every JSON object with an error."""
EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception)\(")
"""Matches a call of a pickle that makes an exception."""
CLASS = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception)")
"""Matches an exception's name, which is first in an array."""
FAILED = re.compile(r"\('(?:error|err|fail|failed|exception)'[,)]", re.IGNORECASE)
"""A tuple of a pickle that begins with a status."""


def errors_in(run: MessageTable) -> Iterator[tuple[int, str]]:
    """Yield the row of each message that reports an error, with the text of the error."""
    rows = range(len(run.first))
    for row in np.unique(run.first.searchsorted(beginnings(run), "right") - 1).tolist():
        text = _of_text(run, row)
        if text:
            yield row, text
    is_json = run.json is not None and OF_OBJECT.search(run.data) is not None
    for row, made in enumerate(map(run.made, rows) if is_json else run.payloads or ()):
        error = None if made is None else _of_payload(made)
        if error is not None:
            yield row, error


@compiled.where_possible
def beginnings(run: MessageTable) -> list[int]:
    """Return the indexes of frames that may be an error, because they begin like a status or the text of an error."""
    return [frame for frame in range(len(run.sizes)) if BEGINNING.match(run.head(frame, HEAD) or b"")]


def _of_text(run: MessageTable, row: int) -> str | None:
    """Return the error that a message of text frames reports, or None: a status with the next frame, or the text of an
    error."""
    first, last = int(run.first[row]), int(run.last[row])
    frames = [run.head(frame, HEAD) or b"" for frame in range(first, min(last + 1, first + MAX_FRAMES))]
    for place, frame in enumerate(frames):
        if STATUS.fullmatch(frame):
            return shown_error(_lines(frames[place : place + 2]))
        if TEXT.match(frame):
            return shown_error(_lines([frame]))
    return None


def _lines(frames: list[bytes]) -> list[str]:
    """Return the first line of each frame that is text."""
    texts = [frame.decode("utf-8", "replace") for frame in frames]
    return [text.partition("\n")[0].rstrip() for text in texts if "\ufffd" not in text]


def _of_payload(made: Dissected) -> str | None:
    fields = made.fields
    if made.protocol in OBJECTS:
        parts = [fields, *fields] if isinstance(fields, list) else [fields]
        return next((error for part in parts if (error := _of_part(part)) is not None), None)
    if made.protocol == PICKLE and isinstance(fields, dict):
        calls, result = fields["calls"], str(fields["result"])
        failed = next((str(call) for call in calls if EXCEPTION.match(str(call))), None) if calls else None
        failed = failed or (result if FAILED.match(result) else None)
        return None if failed is None else shown_error([failed.removeprefix("builtins.")])
    return None


def _of_part(part: Any) -> str | None:
    """Return the error that a decoded value reports, or None: an object, or an array that begins with the name of an
    exception."""
    if isinstance(part, dict):
        return error_of(part)
    if isinstance(part, list) and part and isinstance(part[0], str) and CLASS.fullmatch(part[0]):
        return shown_error(part[:: max(1, len(part) - 1)])
    return None
