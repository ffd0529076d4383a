"""PINGs matched with their PONGs (wire.md 10.3): latency, and PINGs without an answer.

A PONG repeats the context of its PING. A hole may delay one side, so a PONG without PING is kept for a second. If
octets are missing, pending PINGs are not reported.

A PONG counts only if it came before the side that sent the PING ended (its first FIN or RST). A stopped process answers
all PINGs when it continues, but its peer gave up long before. So a PING with a late PONG is decided by the next PING,
which shows that its sender still exists, or by the end of the connection.

A late PONG that is answered with RST came after that end, too, even if no FIN was captured before it: on a broken path,
the FIN waits in the kernel behind data that was not acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.durations import Distribution
from zmtpscope.diagnosis.observers.observed import ObservedConnection, ref_of
from zmtpscope.diagnosis.observers.observed_facts import ObservedHeartbeats, ObservedPing
from zmtpscope.diagnosis.observers.observer import DerivedTable, Observer, Rows, SocketTypes, derived
from zmtpscope.diagnosis.observers.room import Room
from zmtpscope.dissect import Record
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.record_fields import COMMON, STREAM
from zmtpscope.records import MILLISECOND, SECOND
from zmtpscope.zmtp.traffic import LARGEST_CONTEXT

MAX_OPEN = 64
"""PINGs, and PONGs without PING, to remember for a side; the oldest are dropped."""

MAX_WAITING = 8
"""Open PINGs of a side to report."""

FROM_PING = [*(field.name for field in (*COMMON, *STREAM) if field.name != "record"), "ttl_ms"]


class Heartbeat(NamedTuple):
    """A PING with its PONG or None. The outcome (answered, unanswered, open) was decided at the segment `ordinal`."""

    ping: Record
    pong: Record | None
    outcome: str
    ordinal: int


@dataclass(slots=True, eq=False)
class HeartbeatTable(DerivedTable):
    """Derived `heartbeat` records, in the order in which they were decided."""

    heartbeats: Sequence[Heartbeat]

    def records(self) -> Iterable[Record]:
        for ping, pong, outcome, ordinal in self.heartbeats:
            own = {name: ping.values[name] for name in FROM_PING}
            if pong is not None:
                own.update(
                    rtt_ns=_rtt(ping, pong),
                    reply_ts_ns=pong.values["ts_ns"],
                    reply_packet=pong.values["packet"],
                    reply_offset=pong.values["offset"],
                )
            yield derived("heartbeat", ordinal, Moment.of(ping.values), outcome=outcome, **own)


class Undecided(NamedTuple):
    """A PING whose outcome is not known yet: its record, and its observation for rules."""

    ping: Record
    observed: ObservedPing


class Spoken(NamedTuple):
    """Times (ns) at which commands or messages of a side began and ended."""

    begins: Int64 | tuple[int]
    ends: Int64 | tuple[int]


class Asker:
    """The PINGs of one side, and the PONGs that answer them."""

    def __init__(self) -> None:
        self.open: list[Undecided] = []
        self.late: list[tuple[Undecided, Record]] = []
        """PINGs with a PONG that may follow the end of the asker."""
        self.early: list[Record] = []
        """PONGs without PING so far."""


class HeartbeatObserver(Observer):
    types = frozenset({"command", "gap"})
    begins_with = frozenset({"PING", "PONG"})

    def __init__(self, observed: ObservedConnection, room: Room) -> None:
        super().__init__(observed, room)
        self.askers = Asker(), Asker()
        self.taken: list[Record] = []
        """PINGs, PONGs and gaps of the current batch."""
        self.spoken: tuple[list[Spoken], list[Spoken]] = [], []
        """Commands and messages of each side in the current batch."""
        self.decided: list[Heartbeat] = []

    @classmethod
    def follows(cls, socket_types: SocketTypes) -> bool:
        return False

    def record(self, record: Record) -> None:
        if record.type == "command" and record.stream is not None and record.stream.side is not None:
            time = (record.ts_ns,)
            self.spoken[record.stream.side].append(Spoken(time, time))
        if record.type == "gap" or record.own["name"] in self.begins_with:
            self.taken.append(record)

    def rows(self, rows: Rows) -> None:
        if not self._is_idle:
            for spoken, runs in zip(self.spoken, rows.sides, strict=True):
                spoken += [Spoken(run.times, run.time_ends) for run in runs]

    @property
    def _is_idle(self) -> bool:
        """Whether no PING is pending on either side."""
        one, other = self.askers
        return not (self.taken or one.open or one.late or other.open or other.late)

    def derive(self) -> list[DerivedTable]:
        if self._is_idle:
            for spoken in self.spoken:
                spoken.clear()
            return []
        for record in sorted(self.taken, key=attrgetter("order")):
            if record.type == "gap":
                self._give_up(record.order[0])
            elif record.values["name"] == "PING":
                self._ping(record)
            else:
                self._pong(record)
        self.taken.clear()
        for number, asker in enumerate(self.askers):
            _hear([*asker.open, *(each for each, _ in asker.late)], self.spoken[1 - number])
        for spoken in self.spoken:
            spoken.clear()
        self._show()
        decided, self.decided = self.decided, []
        return [HeartbeatTable(decided)] if decided else []

    def finish(self, ordinal: int) -> list[DerivedTable]:
        tables = self.derive()
        if self._is_idle:
            return tables
        values = self.observed.values
        assert values is not None
        outcome = "open" if values["close"] == "open" else "unanswered"
        if not self.observed.is_whole:
            outcome = "unknown"
        for number, asker in enumerate(self.askers):
            self._end_late(number, asker, ordinal)
        self._show()
        for number, asker in enumerate(self.askers):
            for each in asker.open:
                self._decide(number, each.ping, None, outcome, ordinal)
            asker.open.clear()
        decided, self.decided = self.decided, []
        return [*tables, HeartbeatTable(decided)] if decided else tables

    # -- matching ----------------------------------------------------------------------------------------------------

    def _ping(self, ping: Record) -> None:
        number, values = ping.values["side"], ping.values
        seen = self._seen(number)
        moment = Moment.of(values)
        if seen.last is not None:
            _add(seen.interval, moment.ns - seen.last.ns)
        seen.last, seen.ttl_ms = moment, values["ttl_ms"] or 0
        asker = self.askers[number]
        while asker.late and asker.late[0][1].values["ts_ns"] <= moment.ns:
            self._answer(number, *asker.late.pop(0), ping.order[0])
        asker.early = [pong for pong in asker.early if moment.ns - pong.values["ts_ns"] <= SECOND]
        undecided = Undecided(ping, ObservedPing(moment, ref_of(ping)))
        pong = next((pong for pong in asker.early if _answers(pong, ping) and pong.values["ts_ns"] >= moment.ns), None)
        if pong is not None:
            asker.early.remove(pong)
            self._match(number, undecided, pong, ping.order[0])
            return
        asker.open.append(undecided)
        if len(asker.open) > MAX_OPEN:
            self._decide(number, asker.open.pop(0).ping, None, "unknown", ping.order[0])

    def _pong(self, pong: Record) -> None:
        number = 1 - pong.values["side"]
        asker = self.askers[number]
        found = next((each for each in asker.open if _answers(pong, each.ping)), None)
        if found is not None:
            asker.open.remove(found)
            self._match(number, found, pong, pong.order[0])
        else:
            asker.early = [*asker.early, pong][-MAX_OPEN:]

    def _match(self, number: int, each: Undecided, pong: Record, ordinal: int) -> None:
        late = self.askers[number].late
        if _rtt(each.ping, pong) < SHORTEST_NS:
            self._answer(number, each, pong, ordinal)
            return
        late.append((each, pong))
        if len(late) > MAX_OPEN:
            self._answer(number, *late.pop(0), ordinal)

    def _answer(self, number: int, each: Undecided, pong: Record, ordinal: int) -> None:
        self._decide(number, each.ping, pong, "answered", ordinal)

    def _end_late(self, number: int, asker: Asker, ordinal: int) -> None:
        """Decide the outcome of PINGs with a late PONG, at the end of the connection."""
        values = self.observed.values
        assert values is not None
        fin, rst = values[f"fin_ns_{number}"], values[f"rst_ns_{number}"]
        ends = [fin, None if rst is None else rst - REPLY_NS]
        end = min((each for each in ends if each is not None), default=None)
        behind = []
        for each, pong in asker.late:
            if end is None or pong.values["ts_ns"] <= end:
                self._answer(number, each, pong, ordinal)
            else:
                behind.append(each)
        asker.late.clear()
        asker.open = sorted([*behind, *asker.open], key=attrgetter("observed.moment.ns"))

    def _show(self) -> None:
        for side, asker in zip(self.observed.sides, self.askers, strict=True):
            if side.heartbeats is not None:
                side.heartbeats.waiting = [each.observed for each in asker.open[:MAX_WAITING]]

    def _give_up(self, ordinal: int) -> None:
        """Drop pending PINGs, because octets are missing that may contain their PONGs."""
        for number, asker in enumerate(self.askers):
            for each, pong in asker.late:
                self._answer(number, each, pong, ordinal)
            for each in asker.open:
                self._decide(number, each.ping, None, "unknown", ordinal)
            asker.late.clear()
            asker.open.clear()
            asker.early.clear()

    def _decide(self, number: int, ping: Record, pong: Record | None, outcome: str, ordinal: int) -> None:
        seen = self._seen(number)
        seen.counts[outcome] += 1
        if pong is not None:
            _add(seen.rtt, _rtt(ping, pong))
        self.decided.append(Heartbeat(ping, pong, outcome, ordinal))

    def _seen(self, number: int) -> ObservedHeartbeats:
        side = self.observed.sides[number]
        if side.heartbeats is None:
            side.heartbeats = ObservedHeartbeats()
        return side.heartbeats


def _add(durations: Distribution, duration: int) -> None:
    durations.add([max(duration, 0)])


def _answers(pong: Record, ping: Record) -> bool:
    context: bytes = ping.values["context"] or b""
    return (pong.values["context"] or b"") in (context, context[:LARGEST_CONTEXT])


def _rtt(ping: Record, pong: Record) -> int:
    rtt: int = max(pong.values["ts_ns"] - ping.values["ts_ns"], 0)
    return rtt


def _hear(waiting: Sequence[Undecided], spoken: Sequence[Spoken]) -> None:
    """Store in each pending PING the first data that its peer sent after it."""
    if not waiting or not spoken:
        return
    begins, ends = (np.concatenate(times) for times in zip(*spoken, strict=True))
    for _, ping in waiting:
        later = ends > ping.moment.ns
        if later.any():
            arrived = int(ends[later].min())
            ping.next_data_ns = arrived if ping.next_data_ns is None else min(arrived, ping.next_data_ns)
            ping.is_within = ping.is_within or bool((begins[later] <= ping.moment.ns).any())


MANY_TIMES = 10
"""A PONG is missing after this multiple of the longest latency."""
SHORTEST_NS = 20 * MILLISECOND
"""A side that closes sooner (ns) has not waited for a PONG."""
TTL_KEPT = 0.9, 1.5
"""A TTL may expire after the first fraction of it; the side closes before the second one (plus TIMER_NS)."""
TIMER_NS = SECOND // 5
REPLY_NS = 20 * MILLISECOND
"""Time until an RST answers data to a closed socket."""


def open_pings(connection: ObservedConnection, asker: int, end: int) -> list[ObservedPing]:
    """Return the PINGs of side `asker` after which the other side sent nothing until `end` (ns), oldest first."""
    heartbeats = connection.sides[asker].heartbeats
    if heartbeats is None:
        return []
    values = connection.values
    if values is not None and values[f"rst_ns_{asker}"] == end:
        end -= REPLY_NS  # data that reaches a closed socket is answered with RST
    return [ping for ping in heartbeats.waiting if ping.next_data_ns is None or ping.next_data_ns > end]


def waits_in_vain(connection: ObservedConnection, asker: int, end: int) -> bool:
    """Whether a side that closed at `end` (ns) waited long enough for a PONG: `MANY_TIMES` the longest latency."""
    heartbeats, pings = connection.sides[asker].heartbeats, open_pings(connection, asker, end)
    if heartbeats is None or not pings:
        return False
    return end - pings[0].moment.ns >= max(SHORTEST_NS, MANY_TIMES * (heartbeats.rtt.most or 0))


def is_past_ttl(connection: ObservedConnection, asker: int, end: int) -> bool:
    """Whether a connection ended when a TTL expired: `end` (ns) is the TTL after the last PING of a side that then sent
    nothing."""
    side = connection.sides[asker]
    if side.heartbeats is None or not side.heartbeats.ttl_ms or side.last_ns is None:
        return False
    least, most = (part * side.heartbeats.ttl_ms * MILLISECOND for part in TTL_KEPT)
    return least <= end - side.last_ns <= most + TIMER_NS
