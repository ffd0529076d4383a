"""Convert records to events of a sequence diagram, with printable texts.

A transmission is an arrow from the lifeline of its sender to the lifeline of its peer; a remark about a connection is a
note between the two.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from zmtpscope.capture.segments import FILE_SHIFT, PACKET_MASK
from zmtpscope.dissect import Options
from zmtpscope.dissect.findings.attempts import FINDING_BY_OUTCOME
from zmtpscope.dissect.records.message_columns import KINDS, MessageColumns
from zmtpscope.dissect.records.tables import Sender
from zmtpscope.export.describe import DESCRIBE
from zmtpscope.export.rows import RowWords
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.side_names import name_of_side
from zmtpscope.export.text import LOSS
from zmtpscope.export.words import packet_name
from zmtpscope.findings.kinds import is_habitual
from zmtpscope.records import SECOND
from zmtpscope.words import counted, cut, duration

Values = dict[str, Any]
End = tuple[str, int]

SAID = frozenset({"greeting", "command", "message", "datagram"})
"""Records that one side sent."""

OPENING, CLOSING, ATTEMPT, NOTE = "open", "close", "attempt", "note"
"""Kinds of events without a record type: a connection opens, a side sends FIN or RST, a connection attempt fails, and a
note about a connection."""

ARROWS = SAID | {OPENING, CLOSING, ATTEMPT}
"""Kinds drawn as arrows; all others are notes."""

HANDSHAKE = frozenset({"READY", "HELLO", "WELCOME", "INITIATE", "TOKEN"})
"""Commands that precede messages unless there is a problem."""

HEARTBEATS = {"PING": False, "PONG": True, "WS-PING": False, "WS-PONG": True}
"""Heartbeat commands; True for answers."""

DRAWN = frozenset(
    {"greeting", "command", "datagram", "gap", "leftover", "finding", "stall", "retransmission", "zre_pair"}
)
"""Record types that are drawn, besides messages and connections."""

OUTCOMES = {id_: outcome for outcome, id_ in FINDING_BY_OUTCOME.items()}
"""Outcomes of attempts, by the findings that summarise them."""

MAX_WORDS = 400

MAX_CONTENT = 60


class Ends(NamedTuple):
    """Both ends of a connection, side 0 first.

    Of a datagram (`conn` is None) the sender, then the receiver.
    """

    conn: int | None
    one: End
    other: End


class Event(NamedTuple):
    """An arrow or note of a diagram.

    - `packet`: the packet number, with the file if there are several
    - `ends`: the two ends of the connection; None for the whole capture
    - `side`: the sender; None for both sides
    - `name`: the noun for counts, such as "message"
    - `what`: describes the event
    - `content`: describes its contents
    """

    time: int
    packet: str
    ends: Ends | None
    side: int | None
    kind: str
    name: str
    what: str
    content: str = ""
    severity: str = ""

    @property
    def key(self) -> tuple[Hashable, ...]:
        """Key for finding repetitions: equal for all repetitions of an event. It starts with the two ends."""
        return self.ends, self.side, self.kind, self.name

    @property
    def is_handshake(self) -> bool:
        return self.kind == "greeting" or (self.kind == "command" and self.name in HANDSHAKE)


def event_of_record(values: Values, files: Sequence[str | None], *, chat: bool) -> Event | None:
    """Return the event of a record, or None if the record is not drawn.

    Other functions convert messages and connections. `chat`: also draw findings about normal events.
    """
    kind = values["record"]
    ends = ends_of(values)
    if kind not in DRAWN or (kind == "finding" and not _is_drawn(values, chat)):
        return None
    packet = packet_name(values["file"], values["packet"], files)
    what = DESCRIBE[kind](values)
    name, content, severity = kind, "", ""
    if kind == "command":
        name = safe_text(values["name"] or "command")
    elif kind == "greeting":
        name = "GREETING"
    elif kind == "gap":
        what, content = f"{counted(values['bytes'], 'octet')} lost here", what.partition(", ")[2]
    elif kind == "finding":
        name, severity = values["id"], values["severity"]
        kind = ATTEMPT if name in OUTCOMES else NOTE
        if kind == ATTEMPT:
            what, content = f"{OUTCOMES[name]} ({name})", what.partition(": ")[2]
    elif kind in ("stall", "retransmission", "zre_pair"):
        name, kind = kind, NOTE
        severity = "" if name == "zre_pair" else "warn"
    side = 0 if kind in ("datagram", ATTEMPT) else values["side"]
    return Event(
        values["ts_ns"], packet, ends, side, kind, name, cut(what, MAX_WORDS), cut(content, MAX_WORDS), severity
    )


def _is_drawn(values: Values, chat: bool) -> bool:
    """Whether a finding is drawn: it adds information and, unless `chat`, is not about a normal event."""
    return values["id"] != LOSS and (chat or not is_habitual(values["severity"], values["id"]))


class MessageEvents:
    """The messages of one sender in a batch, as events in stream order."""

    def __init__(self, sender: Sender, columns: MessageColumns, words: RowWords) -> None:
        self.sender, self._columns, self._words = sender, columns, words
        self.times = columns.times
        stream = sender.stream
        self.ends = Ends(stream.conn, *stream.ends)

    def alike(self, low: int, high: int) -> Iterator[tuple[str, int, int]]:
        """Yield (name, begin, end) for consecutive messages that have the same name.

        Indexes are those of this sender's messages, from `low` up to `high`; ends are excluded.
        """
        kinds = self._columns.special[low:high]
        begin = 0
        for end in [*(np.flatnonzero(kinds[1:] != kinds[:-1]) + 1).tolist(), high - low]:
            yield self._name(int(kinds[begin])), low + begin, low + end
            begin = end

    def _name(self, special: int) -> str:
        kind = KINDS[special]
        decrypted = "decrypted message" if self.sender.regime.opened else "message"
        return {"data": decrypted, "encrypted": "encrypted message"}.get(kind, kind.upper())

    def key(self, name: str) -> tuple[Hashable, ...]:
        return self.ends, self.sender.stream.side, "message", name

    def event(self, row: int, name: str) -> Event:
        words, columns, reference = self._words, self._columns, int(self._columns.packets[row])
        is_open = name.endswith("message") and name != "encrypted message"
        packet = packet_name(columns.files[reference >> FILE_SHIFT], reference & PACKET_MASK, columns.files)
        return Event(
            int(self.times[row]),
            packet,
            self.ends,
            self.sender.stream.side,
            "message",
            name,
            cut(words.named(row), MAX_WORDS),
            cut(words.content(row), MAX_WORDS) if is_open else "",
        )


class BatchEvents:
    def __init__(self, columns: MessageColumns, options: Options) -> None:
        self._columns = columns
        in_tables = MessageColumns(columns.tables, np.arange(len(columns)), columns.files, options)
        words = RowWords(in_tables, options, MAX_CONTENT)
        self._of_senders = [MessageEvents(sender, in_tables, words) for sender in columns.senders]

    def by_sender(self, rows: Sequence[int]) -> Iterator[tuple[MessageEvents, int, int]]:
        """Yield (messages of a sender, low, high) for consecutive messages of one sender.

        `rows` are the indexes of messages, in order; `low..high` are those of the sender's messages, with `high`
        excluded.
        """
        senders, places = self._columns.sender_of[rows], self._columns.places[rows]
        cuts = np.flatnonzero((senders[1:] != senders[:-1]) | (places[1:] != places[:-1] + 1)) + 1
        begins = [0, *cuts.tolist()]
        ends = [*begins[1:], len(rows)]
        for sender, low, begin, end in zip(
            senders[begins].tolist(), places[begins].tolist(), begins, ends, strict=True
        ):
            yield self._of_senders[sender], low, low + end - begin


def opening(values: Values, *, short: bool) -> Event:
    """Return the event for the opening of a connection.

    `short`: the one arrow stands for the handshake too, which is not drawn.
    """
    ends, start = _of_connection(values), values["start_ns"]
    if values["opened_by"] is None:
        what = "begins before the capture" if values["handshake"] == "unseen" else "TCP opening not captured"
        return Event(start, "", ends, None, NOTE, "start", what)
    if not short:
        return Event(start, "", ends, 0, OPENING, "connection", "TCP connect")
    spoken = safe_text(f"{values['version']} {values['mechanism'] or ''}").rstrip()
    return Event(start, "", ends, 0, OPENING, "connection", f"TCP connect, handshake of {spoken}")


def closings(values: Values) -> list[Event]:
    """Return the events for the end of a connection: the first FIN or RST, and its effect."""
    ends, end, how = _of_connection(values), values["end_ns"], values["close"]
    story = DESCRIBE["connection"](values)
    closed, by = values["closed_ns"], values["closed_by"]
    if closed is None:
        return [Event(end, "", ends, None, NOTE, "end", cut(story, MAX_WORDS))]
    at_once = how == "rst" and values["reset_by"] == by and end == closed
    flag, verb = ("RST", "reset") if at_once else ("FIN", "closed")
    story = story.removeprefix(f"{verb} by {name_of_side(values, by)} ")  # the arrow shows this
    events = [Event(closed, "", ends, by, CLOSING, flag, flag, cut(story, MAX_WORDS))]
    later = f"{duration(end - closed)} later"
    if how == "rst" and not at_once:
        events.append(Event(end, "", ends, values["reset_by"], CLOSING, "RST", "RST", later))
    elif how == "fin" and end - closed >= SECOND:  # otherwise it is insignificant
        events.append(Event(end, "", ends, 1 - by, CLOSING, "FIN", "FIN", later))
    return events


def ends_of(values: Values) -> Ends | None:
    """Return the two ends of the connection or flow of a record, or None if it has neither."""
    if values["src_ip"] is None:
        return None
    ends = (values["src_ip"], values["src_port"]), (values["dst_ip"], values["dst_port"])
    return Ends(values["conn"], *(ends[::-1] if values["side"] == 1 else ends))


def _of_connection(values: Values) -> Ends:
    return Ends(values["conn"], (values["ip_0"], values["port_0"]), (values["ip_1"], values["port_1"]))
