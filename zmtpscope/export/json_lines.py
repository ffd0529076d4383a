"""Format records as JSON lines: one object per record with every field of its type.

`time` (RFC 3339, UTC) is next to `ts_ns`. Octets are base64; `text` is as in the record.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise
from operator import itemgetter
from typing import Any

import orjson

from zmtpscope.dissect import Batch, Options, Record
from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.dissect.records.row_columns import FrameRowColumns
from zmtpscope.export.clock import rfc_3339
from zmtpscope.export.json_rows import JsonRows
from zmtpscope.export.json_text import lines_between, lines_of_records
from zmtpscope.export.values import as_base64, of_fields, shown_fields
from zmtpscope.records import SECOND

HANDFUL = 100
"""Lines to join at once. Larger outputs leave the CPU cache and are slower."""

_NOT_ASCII = re.compile("[^\x00-\x7e]")


def lines(batch: Batch, options: Options) -> Iterator[bytes]:
    """Yield the JSON line of each record, in order."""
    for text in text_of(batch, options):
        yield from text.splitlines(keepends=True)


def text_of(batch: Batch, options: Options, *, ascii_only: bool = False) -> Iterator[bytes]:
    """Yield JSON lines in order, several in one piece. `ascii_only`: escape other characters, for terminals."""
    gathered: list[bytes] = []
    count = 0
    for lines_in_it, text in _texts(batch, options):
        gathered.append(text)
        count += lines_in_it
        if count >= HANDFUL:
            yield _joined(gathered, ascii_only=ascii_only)
            gathered, count = [], 0
    if gathered:
        yield _joined(gathered, ascii_only=ascii_only)


def _joined(texts: list[bytes], *, ascii_only: bool) -> bytes:
    text = b"".join(texts)
    return escaped(text) if ascii_only else text


def _texts(batch: Batch, options: Options) -> Iterator[tuple[int, bytes]]:
    """Yield (number of lines, lines) in order: consecutive message rows, and the records between them."""
    order = batch.arranged()
    between, at = order.between, 0
    frames: Iterator[dict[str, Any]] = iter(())
    if batch.frames:
        frames = FrameRowColumns.of(batch).records()

    def lines_of(low: int, high: int) -> list[bytes]:
        """Return the lines of the records and frames `low..high` (high excluded) of `between`."""
        items = [item for _, item, _ in between[low:high]]
        records = [item for item in items if isinstance(item, Record)]
        fields = [of_fields(record, options, _json_of_fields) for record in records]
        made = iter(lines_of_records(records, fields))
        return [next(made) if isinstance(item, Record) else line_of(next(frames)) for item in items]

    if len(order.places):
        columns = MessageColumns.of_arrangement(order, batch.files, options)
        rows = JsonRows(columns, lambda row: line_of(columns.values(row)))
        for low, high in rows.chunks():
            in_front = bisect_left(between, high, at, key=itemgetter(0))
            places, made = [place for place, _, _ in between[at:in_front]], lines_of(at, in_front)
            cuts = sorted({*range(low, high, HANDFUL), *places, high})
            at, first = in_front, 0
            for (begin, end), text in zip(pairwise(cuts), lines_between(rows, low, high, cuts), strict=True):
                last = bisect_right(places, begin, first)
                yield last - first + end - begin, b"".join((*made[first:last], text))
                first = last
    for low in range(at, len(between), HANDFUL):
        made = lines_of(low, low + HANDFUL)
        yield len(made), b"".join(made)


def line_of(values: dict[str, Any]) -> bytes:
    """Format a record as a JSON line from all its fields."""
    line = orjson.dumps(values, default=as_base64, option=orjson.OPT_APPEND_NEWLINE)
    seconds, nanoseconds = divmod(values["ts_ns"], SECOND)
    behind = line.index(b',"file":')  # preceded only by numbers and names
    return b'%b,"time":"%b.%09dZ"%b' % (line[:behind], rfc_3339(seconds), nanoseconds, line[behind:])


def _json_of_fields(record: Record, options: Options) -> bytes:
    """Return the fields that only this record type has as JSON, for the end of a line."""
    return orjson.dumps(shown_fields(record, options), default=as_base64, option=orjson.OPT_APPEND_NEWLINE)[1:]


def escaped(line: bytes) -> bytes:
    """Escape all characters above 7E in a JSON line, for terminals."""
    return line if line.isascii() and b"\x7f" not in line else _NOT_ASCII.sub(_escape, line.decode()).encode()


def _escape(match: re.Match[str]) -> str:
    octets = match[0].encode("utf-16-be")
    return "".join(f"\\u{octets[i : i + 2].hex()}" for i in range(0, len(octets), 2))
