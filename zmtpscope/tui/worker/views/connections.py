"""The view of connections: peers, version, traffic, duration and end of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import chain, starmap
from typing import Any

from zmtpscope.export.describe import DESCRIBE
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.side_names import name_of_side
from zmtpscope.export.top.table import scaled
from zmtpscope.export.values import record_values
from zmtpscope.findings import FINDINGS, SEVERITIES
from zmtpscope.findings.capturing import ATTEMPTS
from zmtpscope.store import Store
from zmtpscope.tui.requests import Table, Wanted
from zmtpscope.tui.worker.views.known_connections import MAX_CONNECTIONS, KnownConnection, KnownConnections
from zmtpscope.tui.worker.views.tables import Column, Line, seconds, table_of
from zmtpscope.tui.worker.views.view import AS_IT_IS, CountingView, Step
from zmtpscope.words import counted, host_port

MAX_FACTS = 12
"""Maximum greetings and commands listed below a connection."""

NOT_OF_HANDSHAKES = frozenset({"SUBSCRIBE", "CANCEL", "JOIN", "LEAVE", "PING", "PONG"})

WORTH_TELLING = SEVERITIES[:-1]
"""Severities shown for a connection, worst first: all but the last, for normal events."""

ALARMING = SEVERITIES[:2]

OF_ATTEMPTS = ("id", "conn", "src_ip", "dst_ip", "dst_port", "count", "severity")
"""Fields of findings about connections that were never established."""

ENDED = {"open": "still open", "reused": "end not captured", "evicted": "given up"}
"""Texts for values of `close` other than closes and resets."""

WIDEST_END = 24

COLUMNS = (
    Column("conn", "CONN", str, is_number=True),
    Column("from", "CONNECTED", is_name=True),
    Column("to", "TO", is_name=True),
    Column("version", "ZMTP", rank=3),
    Column("mechanism", "MECHANISM", rank=3),
    Column("messages_0", "MSGS >", scaled, is_number=True, rank=2),
    Column("messages_1", "< MSGS", scaled, is_number=True, rank=2),
    Column("octets_0", "OCTETS >", scaled, is_number=True, rank=4),
    Column("octets_1", "< OCTETS", scaled, is_number=True, rank=4),
    Column("lasted", "LASTED", seconds, is_number=True, rank=2),
    Column("ended", "ENDED", is_name=True, widest=WIDEST_END),
    Column("finding", "WORST FINDING", rank=1, order=lambda text: SEVERITIES.index(text.split()[0])),
)


@dataclass(slots=True)
class Counted:
    """The facts about one connection that the view shows: handshake, version, and how it ended."""

    known: KnownConnection
    start_ns: int
    end_ns: int
    announced: list[str | None] = field(default_factory=lambda: [None, None])
    version: str | None = None
    transport: str | None = None
    mechanism: str | None = None
    handshake: str | None = None
    ended: str | None = None
    """How the connection ended; None before the record of the connection."""
    facts: list[int] = field(default_factory=list)
    """Numbers of handshake records, at most `MAX_FACTS`."""
    record: int | None = None
    """Number of the record of the connection."""

    def seen(self, start: int, end: int) -> None:
        self.start_ns, self.end_ns = min(self.start_ns, start), max(self.end_ns, end)


class ConnectionsView(CountingView):
    """A row per connection, in order of first packet, with rows for handshake and end below it."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._known = KnownConnections()
        self._counted: dict[int, Counted] = {}
        self._findings: dict[int, Counter[tuple[str, str]]] = {}
        """Findings of each connection by (severity, id)."""
        self._attempts: dict[int, dict[str, Any]] = {}
        """Findings about connections that were never established, by record number."""

    # -- counting ------------------------------------------------------------------------------------------------------

    def feed(self, step: Step) -> None:
        for messages in step.messages:
            for known, first_ns, last_ns in self._known.count(messages):
                self._row(known, first_ns).seen(first_ns, last_ns)
        for number, record in step.records("greeting", "command", "finding", "connection"):
            values = record.values
            if record.type == "finding":
                self._finding(number, values)
                continue
            connection = self._known.of_record(values)
            if connection is not None:
                note = self._end if record.type == "connection" else self._fact
                note(self._row(connection, values["ts_ns"]), number, values)

    def _row(self, known: KnownConnection, time: int) -> Counted:
        row = self._counted.get(known.number)
        if row is None:
            row = self._counted[known.number] = Counted(known, time, time)
        row.seen(time, time)
        return row

    @staticmethod
    def _fact(row: Counted, number: int, values: dict[str, Any]) -> None:
        if values["record"] == "greeting" and values["side"] is not None:
            row.announced[values["side"]] = values["mechanism"]
        elif values["name"] in NOT_OF_HANDSHAKES:
            return
        if len(row.facts) < MAX_FACTS:
            row.facts.append(number)

    @staticmethod
    def _end(row: Counted, number: int, values: dict[str, Any]) -> None:
        row.seen(values["start_ns"], values["end_ns"])
        row.version, row.mechanism = values["version"], values["mechanism"]
        row.transport, row.handshake = values["transport"], values["handshake"]
        row.record, row.ended = number, _end_of(values)

    def _finding(self, number: int, values: dict[str, Any]) -> None:
        conn = values["conn"]
        if values["id"] in ATTEMPTS:
            self._attempts[number] = {name: values[name] for name in OF_ATTEMPTS}
        elif conn is not None and values["severity"] in WORTH_TELLING and self._has_room(conn):
            self._findings.setdefault(conn, Counter())[values["severity"], values["id"]] += 1

    def _has_room(self, conn: int) -> bool:
        return conn in self._findings or len(self._findings) < MAX_CONNECTIONS

    # -- showing -------------------------------------------------------------------------------------------------------

    def table(self, wanted: Wanted = AS_IT_IS) -> Table:
        rows = sorted(self._counted.values(), key=lambda row: row.known.number)
        text = [", ".join(self._summary(rows))] if rows else ["no connections that speak ZMTP"]
        lines = chain(map(self._line, rows), starmap(_attempts, self._attempts.items()))
        return table_of(COLUMNS, lines, wanted, text + self._known.left_out())

    def _summary(self, rows: Collection[Counted]) -> Iterator[str]:
        yield counted(len(rows), "connection")
        for word, count in Counter(row.handshake for row in rows if row.handshake != "complete").items():
            if word is not None:
                yield f"{count} with handshake {safe_text(word)}"
        count = sum(any(severity in ALARMING for severity, _ in each) for each in self._findings.values())
        if count:
            yield f"{count} with warnings or errors"
        if self._attempts:
            yield f"{counted(sum(each['count'] or 1 for each in self._attempts.values()), 'attempt')} without success"

    def _line(self, row: Counted) -> Line:
        known, client = row.known, 1 - row.known.listener
        findings = self._findings.get(known.number, Counter())
        both = row.announced[0] if row.announced[0] == row.announced[1] else None
        worst = min(findings, key=lambda kind: SEVERITIES.index(kind[0]), default=None)
        finding = None if worst is None else f"{worst[0]} {worst[1]}" + _times(sum(findings.values()))
        version = row.version or known.version
        version = f"{version or '?'} over WebSocket" if row.transport == "ws" else version
        values = {
            "conn": known.number,
            "from": known.name(client),
            "to": known.name(known.listener),
            "version": version,
            "mechanism": row.mechanism or both,
            "messages_0": known.messages[client],
            "messages_1": known.messages[known.listener],
            "octets_0": known.octets[client],
            "octets_1": known.octets[known.listener],
            "lasted": row.end_ns - row.start_ns,
            "ended": "open" if row.ended is None else row.ended,
            "finding": finding,
        }
        style = "" if worst is None or worst[0] not in ALARMING else worst[0]
        return Line(
            f"conn {known.number}", values, f"conn == {known.number}", style, children=lambda: [*self._below(row)]
        )

    def _below(self, row: Counted) -> Iterator[Line]:
        conn = row.known.number
        findings = self._findings.get(conn, Counter())
        for number in row.facts:
            values = self._values(number)
            later = seconds(max(0, values["ts_ns"] - row.start_ns))
            sentence = f"{row.known.name(values['side'])}: {DESCRIBE[values['record']](values)}, after {later}"
            yield _sentence(f"record {number}", sentence, f"conn == {conn}", number)
        for side in (0, 1):
            sent = f"{counted(row.known.messages[side], 'message')}, {counted(row.known.octets[side], 'octet')}"
            filter = f"conn == {conn} and side == {side} and record == message"
            yield _sentence(f"conn {conn} side {side}", f"{row.known.name(side)} sent {sent}", filter)
        for (severity, id_), count in sorted(findings.items(), key=lambda each: SEVERITIES.index(each[0][0])):
            filter = f"conn == {conn} and id == {id_}"
            sentence = f"{severity} {id_}{_times(count)}: {FINDINGS[id_].text}"
            yield _sentence(f"conn {conn} {id_}", sentence, filter, style=severity)
        if row.record is not None:
            sentence = DESCRIBE["connection"](self._values(row.record))
            yield _sentence(f"record {row.record}", sentence, f"conn == {conn}", row.record)

    def _values(self, number: int) -> dict[str, Any]:
        """Return the fields of a record, with stars in place of secrets."""
        return record_values(self.store.batch([number], octets=False).records[0], self.store.options)


def _sentence(key: str, text: str, filter: str, record: int | None = None, style: str = "") -> Line:
    return Line(key, {"from": text}, filter, style, record)


def _attempts(number: int, values: dict[str, Any]) -> Line:
    cells = {
        "from": values["src_ip"],
        "to": None if values["dst_ip"] is None else host_port(values["dst_ip"], values["dst_port"]),
        "ended": f"{ATTEMPTS[values['id']]} ({counted(values['count'] or 1, 'attempt')})",
        "finding": f"{values['severity']} {values['id']}",
    }
    style = values["severity"] if values["severity"] in ALARMING else ""
    where = "" if values["conn"] is None else f" and conn == {values['conn']}"
    return Line(f"record {number}", cells, f"id == {values['id']}{where}", style, number)


def _times(count: int) -> str:
    return f" ({count} findings)" if count > 1 else ""


def _end_of(values: dict[str, Any]) -> str:
    failed = "" if values["handshake"] in ("complete", "unseen") else f"handshake {values['handshake']}, "
    if values["reset_by"] is not None:
        return f"{failed}reset by {name_of_side(values, values['reset_by'])}"
    if values["close"] in ("fin", "rst") and values["closed_by"] is not None:
        return f"{failed}closed by {name_of_side(values, values['closed_by'])}"
    return failed + safe_text(ENDED.get(values["close"], values["close"]))
