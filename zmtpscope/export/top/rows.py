"""The rows of `zmtpscope top` for tables, and as JSON lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from zmtpscope.dissect.records.topic_words import LONGEST_TOPIC
from zmtpscope.export.clock import timestamp
from zmtpscope.export.preview import parts_preview, quoted
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.top.columns import LastMessage, UnreadMessage
from zmtpscope.export.top.counters import NEVER, OTHERS, Counts
from zmtpscope.export.top.peers import ConnectionEnds, Peer, Topic
from zmtpscope.export.top.rates import Interval, Rates
from zmtpscope.records import to_text


class Row(NamedTuple):
    """A topic, connection or peer with its numbers, in an interval or in total.

    `counts` are those of the interval, `totals` those of the whole capture so far.
    """

    key: Topic | ConnectionEnds | Peer | None
    """The counted object; None for all others together."""
    name: str
    """Printable name, like all texts in this module."""
    counts: Counts
    """Counts in the interval."""
    totals: Counts
    """Counts since the start of the capture."""
    seconds: float
    """Length of the interval, or of the whole capture."""
    busiest: float
    """Messages per second in the busiest interval."""
    subscribers: int | None
    first: int | None
    """Time of the first message (ns since the epoch)."""
    last: LastMessage | UnreadMessage | None

    def rate(self, count: int) -> float:
        """Return `count` per second of the interval."""
        return count / self.seconds if self.seconds else 0.0

    @property
    def last_time(self) -> int:
        return 0 if self.last is None else self.last.time

    def last_value(self, limit: int) -> str:
        """Format the last message in about `limit` characters, after its topic unless the row is one topic."""
        if self.last is None:
            return ""
        last = self.last.read()
        topic = ""
        if last.topic is not None and not isinstance(self.key, Topic):
            topic = quoted(to_text(last.topic), limit // 2) + "  "
        return topic + value_text(last, max(1, limit - len(topic)))


def value_text(last: LastMessage, limit: int) -> str:
    if last.content is None:
        return "sealed"
    if last.summary is not None:
        return safe_text(last.summary[:limit])
    return parts_preview(list(last.content), limit)


def interval_rows(rates: Rates, kind: str, seconds: float) -> list[Row]:
    """Return the rows of the last interval, an interval of `seconds`. Rows without messages are included."""
    return _rows(rates, kind, seconds, seconds, in_all=False)


def total_rows(rates: Rates, kind: str, seconds: float, interval_seconds: float) -> list[Row]:
    """Return the rows of the whole capture, which took `seconds`; intervals take `interval_seconds`.

    The current interval is included.
    """
    return _rows(rates, kind, seconds, min(seconds, interval_seconds), in_all=True)


def _rows(rates: Rates, kind: str, seconds: float, interval_seconds: float, *, in_all: bool) -> list[Row]:
    counters = rates.counters[kind]
    count = len(counters)
    total = counters.total[:, :count] + counters.interval[:, :count] if in_all else counters.total[:, :count]
    totals = [Counts(*each) for each in total.T.tolist()]
    counts = totals if in_all else [Counts(*each) for each in counters.previous[:, :count].T.tolist()]
    busiest = counters.busiest[:count].tolist()
    rows = []
    for number, key in enumerate(counters.keys):
        if number == OTHERS and not counters.folded:
            continue
        subscribers = None
        if kind == "topic":
            had_messages = in_all or counts[number].sent
            subscribers = counters.most_subscribers[number] if in_all else counters.subscribers[number]
            subscribers = subscribers if had_messages else rates.subscribers(key)
        rows.append(
            Row(
                key,
                name_of(key, counters.folded),
                counts[number],
                totals[number],
                seconds,
                busiest[number] / interval_seconds if interval_seconds else 0.0,
                subscribers,
                None if counters.first[number] == NEVER else int(counters.first[number]),
                counters.last[number],
            )
        )
    return rows


def name_of(key: Topic | ConnectionEnds | Peer | None, folded: int) -> str:
    if key is None:
        return f"({folded} others)"
    if isinstance(key, Topic):
        return "(no topic)" if key.name is None else quoted(to_text(key.name), 4 * LONGEST_TOPIC)
    return str(key)


def with_senders(names: Sequence[str], keys: Sequence[Any]) -> list[str]:
    """Return the names of topics, with the sender if there is no topic or several senders use it."""
    counts = Counter(names)
    return [
        f"{name} of {key.sender}" if isinstance(key, Topic) and (key.name is None or counts[name] > 1) else name
        for name, key in zip(names, keys, strict=True)
    ]


def lines(rows: Iterable[Row], kind: str, interval: Interval) -> Iterator[bytes]:
    for row in rows:
        if row.counts.messages:
            yield orjson.dumps(_values(row, kind, interval), option=orjson.OPT_APPEND_NEWLINE)


LONGEST_VALUE = 200


def _values(row: Row, kind: str, interval: Interval) -> dict[str, Any]:
    last = None if row.last is None else row.last.read()
    return {
        "by": kind,
        "start_ns": interval.start_ns,
        "end_ns": interval.end_ns,
        "time": timestamp(interval.start_ns),
        **KEY_FIELDS[kind](row.key),
        "others": row.key is None,
        "messages": row.counts.messages,
        "octets": row.counts.octets,
        "frames": row.counts.frames,
        "messages_per_second": round(row.rate(row.counts.messages), 3),
        "octets_per_second": round(row.rate(row.counts.octets), 3),
        **_of_its_kind(row, kind),
        "total_messages": row.totals.messages,
        "total_octets": row.totals.octets,
        "first_ns": row.first,
        "last_ns": None if last is None else last.time,
        "last_value": row.last_value(LONGEST_VALUE),
        "last_frames": None if last is None else last.frames,
    }


def _fields_of_topic(key: Topic | None) -> dict[str, Any]:
    name = None if key is None or key.name is None else to_text(key.name)
    return {"topic": name, **_fields_of_peer(None if key is None else key.sender)}


def _fields_of_connection(key: ConnectionEnds | None) -> dict[str, Any]:
    if key is None:
        return dict.fromkeys(CONNECTION_FIELDS)
    ends = zip((0, 1), key.addresses, strict=True)
    addresses = {f"{name}_{side}": value for side, end in ends for name, value in zip(("ip", "port"), end, strict=True)}
    types = {f"socket_type_{side}": key.socket_types[side] for side in (0, 1)}
    identities = {f"identity_{side}": key.identities[side] for side in (0, 1)}
    values = {"conn": key.number, "conn_id": key.conn_id, **addresses, **types, **identities}
    return {name: values[name] for name in CONNECTION_FIELDS}


def _fields_of_peer(key: Peer | None) -> dict[str, Any]:
    return dict.fromkeys(Peer._fields) if key is None else key._asdict()


CONNECTION_FIELDS = (
    *("conn", "conn_id", "ip_0", "port_0", "ip_1", "port_1"),
    *("socket_type_0", "socket_type_1", "identity_0", "identity_1"),
)

KEY_FIELDS: dict[str, Any] = {
    "topic": _fields_of_topic,
    "connection": _fields_of_connection,
    "peer": _fields_of_peer,
}
"""Functions that return the fields which identify a row, by kind."""


def _of_its_kind(row: Row, kind: str) -> dict[str, Any]:
    """Return the JSON fields that only rows of this kind have."""
    if kind == "topic":
        return {"subscribers": row.subscribers}
    connections = {} if kind == "connection" else {"connections": row.totals.connections}
    return {**directions_of(row.counts, kind), **connections}


def directions_of(counts: Counts, kind: str) -> dict[str, int]:
    """Return messages and octets by direction; of connections, as sent by side 0 and side 1."""
    forth, back = ("0", "1") if kind == "connection" else ("sent", "received")
    return {
        f"messages_{forth}": counts.sent,
        f"messages_{back}": counts.received,
        f"octets_{forth}": counts.sent_octets,
        f"octets_{back}": counts.received_octets,
    }
