"""Format the JSON lines of many messages, or of many records, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import orjson

from zmtpscope import compiled
from zmtpscope.dissect.records.batch import Record
from zmtpscope.dissect.records.row_columns import file_name
from zmtpscope.export.clock import rfc_3339
from zmtpscope.export.json_rows import BEGIN, JsonRows, of_stream
from zmtpscope.records import SECOND


@compiled.where_possible
def lines_between(rows: JsonRows, low: int, high: int, cuts: Sequence[int]) -> list[bytes]:
    """Format the messages `low..high` (high excluded) and return their lines in pieces.

    A piece has the messages from one of the `cuts` to the next. The first cut is `low`, the last `high`.
    """
    return [b"".join(map(rows.careful, range(begin, end))) for begin, end in pairwise(cuts)]


@compiled.where_possible
def lines_of_records(records: Sequence[Record], fields: Sequence[bytes]) -> list[bytes]:
    """Format records as lines.

    `fields` are, for each record, the fields that only its type has as JSON, with the end of the line.
    """
    return [_line(record, own) for record, own in zip(records, fields, strict=True)]


def _line(record: Record, fields: bytes) -> bytes:
    front, ends = of_stream(record.stream)
    seconds, nanoseconds = divmod(record.ts_ns, SECOND)
    file, packet = orjson.dumps(file_name(record.file)), orjson.dumps(record.packet)
    parts = BEGIN, record.type.encode(), front, record.ts_ns, rfc_3339(seconds), nanoseconds, file, packet, ends, fields
    return b'%b"%b"%b%d,"time":"%b.%09dZ","file":%b,"packet":%b%b,%b' % parts
