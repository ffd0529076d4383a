"""Prepare the constant parts of the JSON lines of messages.

The compiled loop adds numbers, bodies and texts, and joins the lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise, product

import numpy as np
import orjson

from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.message_columns import (
    HEAD_KEPT_ONLY,
    KEPT,
    NOT_KEPT,
    MessageColumns,
)
from zmtpscope.dissect.records.row_columns import file_name
from zmtpscope.export.values import as_base64
from zmtpscope.records import SCHEMA, to_text

CHUNK = 1 << 20
LINE = 600
"""Octets of a line without bodies, approximately, to limit the octets formatted at once."""

LARGEST_SIZE = 1 << 48
"""Octets of an encrypted body; `Careful` formats rows with larger ones."""

ENDS_OF_BODIES = {
    NOT_KEPT: b',"bodies_kept":"none"',
    HEAD_KEPT_ONLY: b'"],"bodies_kept":"head"',
    KEPT: b'"],"bodies_kept":"full"',
}
"""Ends of bodies, by how much of them was kept."""

TEXT_BEGINS, TEXT_ENDS = b'{"protocol":"text","summary":"', b'","fields":null}'


class Closing:
    """The end of a message's line, from its fields `decrypted`, `confidence` and `complete`.

    `front` and `back` are the text before and after the payload.
    """

    def __init__(self, opened: bool, confidence: str, complete: bool) -> None:
        self.front = b',"decrypted":%b,"payload":' % _truth(opened)
        self.back = b',"complete":%b,"confidence":"%b"}\n' % (_truth(complete), confidence.encode())


def _truth(value: bool) -> bytes:
    return b"true" if value else b"false"


CLOSING_KEYS = list(product((False, True), ("proven", "likely", "guess"), (False, True)))
"""Combinations of decrypted, confidence and complete. Columns contain indexes of this list."""
CLOSING_NUMBER = {key: number for number, key in enumerate(CLOSING_KEYS)}
CLOSINGS = [Closing(*key) for key in CLOSING_KEYS]

Careful = Callable[[int], bytes]
"""Formats the line of any row."""


class JsonRows:
    """The messages of a batch, with the constant parts of their lines.

    `careful` formats the line of any message; the compiled loop calls it for unusual ones.
    """

    def __init__(self, columns: MessageColumns, careful: Careful) -> None:
        senders = columns.senders
        self.columns, self.options, self.careful = columns, columns.options, careful
        self.has_bodies = self.options.bodies != "none"
        self.files = [orjson.dumps(file_name(name)) for name in columns.files]
        self.data = [sender.data for sender in senders]
        self.streams = [(sender.stream, sender.source) for sender in senders]
        self.types = [_types(sender.version, sender.socket_type, sender.peer_socket_type) for sender in senders]
        worth = [(sender.regime.opened, sender.confidence) for sender in senders]
        self.incomplete = np.array([CLOSING_NUMBER[*each, False] for each in worth])
        self.whole = np.array([CLOSING_NUMBER[*each, True] for each in worth])

    def chunks(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of messages to format at once, as (first index, end)."""
        weight = np.cumsum(np.clip(self.columns.lengths, 0, CHUNK) + LINE) // CHUNK
        yield from pairwise([0, *(np.flatnonzero(np.diff(weight)) + 1).tolist(), len(weight)])

    def payload(self, row: int) -> bytes:
        return orjson.dumps(self.columns["payload"][row], default=as_base64)

    def envelope(self, row: int) -> bytes:
        return orjson.dumps(self.columns["envelope"][row])


def topic_of(head: bytes) -> bytes:
    return orjson.dumps(to_text(head))


BEGIN = b'{"schema":%d,"record":' % SCHEMA
"""Beginning of every line; the record type follows."""

NO_STREAM = Stream(*[None] * len(Stream._fields))  # type: ignore[arg-type]


def of_stream(stream: Stream | None) -> tuple[bytes, bytes]:
    """Return the parts of a line that are the same for all messages of a stream.

    The first part lies between the values of `record` and `ts_ns`, the second after the value of `packet`.
    """
    conn, conn_id, side, src_ip, src_port, dst_ip, dst_port = stream or NO_STREAM
    front = {"conn": conn, "conn_id": conn_id, "side": side}
    ends = {"src_ip": src_ip, "src_port": src_port, "dst_ip": dst_ip, "dst_port": dst_port}
    return b',%b,"ts_ns":' % orjson.dumps(front)[1:-1], b",%b" % orjson.dumps(ends)[1:-1]


@lru_cache(maxsize=256)
def _types(version: str | None, socket_type: str | None, peer_socket_type: str | None) -> bytes:
    types = {"version": version, "socket_type": socket_type, "peer_socket_type": peer_socket_type}
    return b"," + orjson.dumps(types)[1:-1]
