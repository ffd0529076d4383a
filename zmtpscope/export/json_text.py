"""JSON lines of many message rows, and of one record."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from zmtpscope import compiled
from zmtpscope.export.json_rows import JsonRows
from zmtpscope.records import SECOND


@compiled.where_possible
def lines_between(rows: JsonRows, low: int, high: int, cuts: Sequence[int]) -> list[bytes]:
    """Format the rows `low..high` (high excluded), from each of the `cuts` to the next.

    The first cut is `low`, the last `high`.
    """
    return [b"".join(map(rows.careful, range(begin, end))) for begin, end in pairwise(cuts)]


@compiled.where_possible
def line_of_parts(
    begin: bytes, front: bytes, time: int, seconds: bytes, file: bytes, packet: int, ends: bytes, fields: bytes
) -> bytes:
    """Join the line of a record.

    `begin` ends with the record type. `front` and `ends` are from `of_stream`. `seconds` are the seconds of `time` in
    RFC 3339. A negative `packet` is none. `fields` are the own fields, with the end of the line.
    """
    number = b"%d" % packet if packet >= 0 else b"null"
    parts = begin, front, time, seconds, time % SECOND, file, number, ends, fields
    return b'%b%b%d,"time":"%b.%09dZ","file":%b,"packet":%b%b,%b' % parts
