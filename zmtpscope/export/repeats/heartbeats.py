"""Print answered PINGs as one line: "PING/PONG 30 times more, every 1 s, slowest answer 2.1 ms".

The first PING of a side and its PONG are printed. Later equal pairs are counted, even with messages in between. The
count is printed when the connection ends, has a gap or a finding of severity warn or error, and at the end of the
capture; in live output also every ten seconds. A PING is delayed until its PONG arrives. An unanswered PING and a PONG
without a PING are printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from zmtpscope.dissect import Record
from zmtpscope.export.front import Files
from zmtpscope.export.repeats.fold import ITSELF, WRITTEN_EVERY, Repeats, RowRange, conn_of, length, one, time_of
from zmtpscope.records import SECOND

ANSWERS = {"PING": "PONG", "WS-PING": "WS-PONG"}
ASKED = {answer: name for name, answer in ANSWERS.items()}

MAX_OPEN = 8
"""PINGs of a side that wait for their PONGs; more are printed."""

MAX_CONNECTIONS = 4096
"""Connections to remember; above, the count of the oldest one is printed."""

LONGEST_WAIT = SECOND
"""Capture time to delay a PING if lines do not wait."""

ENDING = frozenset({"connection", "gap", "leftover"})
WARNING = frozenset({"error", "warn"})
"""Severities of findings before which the count is printed."""


class Asker:
    """The PINGs of one side of a connection. `first` is the one that was printed."""

    def __init__(self, first: dict[str, Any]) -> None:
        self.first = first
        self.is_answered = False
        """Whether the PONG to `first` has arrived, so that later pairs are counted."""
        self.open: list[tuple[Record, Files]] = []
        """PINGs without PONGs so far."""
        self.count = 0
        """Answered PINGs that are not printed yet."""
        self.last: tuple[Record, Files] | None = None
        self.slowest = 0
        """Longest wait for a PONG (ns)."""
        self.since: int = first["ts_ns"]
        """Time of the PING before the counted ones."""

    @property
    def last_sent(self) -> int:
        sent: int = self.since if self.last is None else self.last[0].values["ts_ns"]
        return sent

    def answer(self, pong: dict[str, Any]) -> bool:
        """Count the PING that `pong` answers; return False if no PING matches."""
        for ping, files in self.open:
            if ping.values["context"] == pong["context"]:
                self.open.remove((ping, files))
                self.count += 1
                self.last = ping, files
                self.slowest = max(self.slowest, pong["ts_ns"] - ping.values["ts_ns"])
                return True
        return False

    def write(self) -> Iterator[RowRange]:
        """Yield one line for all counted PINGs."""
        if self.last is None:
            return
        (ping, files), name, sent = self.last, self.first["name"], self.last_sent
        names, mean = f"{name}/{ANSWERS[name]}", length((sent - self.since) // self.count)
        text = (
            f"{names} once more, after {mean}, answered in {length(self.slowest)}"
            if self.count == 1
            else f"{names} {self.count} times more, every {mean}, slowest answer {length(self.slowest)}"
        )
        yield (Repeats(ping, text), files), ITSELF
        self.count, self.last, self.slowest, self.since = 0, None, 0, sent

    def release(self) -> Iterator[RowRange]:
        yield from self.write()
        for ping, files in self.open:
            yield one(ping, files)
        self.open.clear()


class HeartbeatFold:
    """Replaces answered PINGs by one line.

    `waits`: a PING may be delayed until its PONG arrives or the connection ends; otherwise for about a second.
    """

    def __init__(self, *, waits: bool) -> None:
        self._waits = waits
        self._askers: dict[int, dict[tuple[int, str], Asker]] = {}
        """PINGs by connection, then by side and command name."""
        self._next_look = 0
        """Capture time of the next check for PINGs and counts that have waited too long."""

    def feed(self, ranges: Iterable[RowRange]) -> Iterator[RowRange]:
        for row_range in ranges:
            record, files = row_range[0]
            if not isinstance(record, Record):
                yield row_range
                continue
            if not self._waits and self._askers:
                yield from self._look(time_of(record))
            if record.type == "command" and record.own["name"] in ANSWERS:
                yield from self._ping(record, files)
            elif record.type == "command" and record.own["name"] in ASKED:
                yield from self._pong(record, files)
            else:
                if record.type in ENDING or (record.type == "finding" and record.own["severity"] in WARNING):
                    yield from self._release(conn_of(record))
                yield row_range

    def rest(self) -> Iterator[RowRange]:
        """Yield the lines that are still delayed, at the end of the capture."""
        for conn in list(self._askers):
            yield from self._release(conn)

    def _ping(self, ping: Record, files: Files) -> Iterator[RowRange]:
        values = ping.values
        conn, place = values["conn"], (values["side"], values["name"])
        if conn not in self._askers and len(self._askers) == MAX_CONNECTIONS:
            yield from self._release(next(iter(self._askers)))
        askers = self._askers.setdefault(conn, {})
        asker = askers.get(place)
        if asker is not None and asker.is_answered and _is_like(values, asker.first) and len(asker.open) < MAX_OPEN:
            asker.open.append((ping, files))
            return
        if asker is not None:
            yield from asker.release()
        askers[place] = Asker(values)
        yield one(ping, files)

    def _pong(self, pong: Record, files: Files) -> Iterator[RowRange]:
        values = pong.values
        asker = self._askers.get(values["conn"], {}).get((1 - values["side"], ASKED[values["name"]]))
        if asker is not None and asker.is_answered and values["complete"] and asker.answer(values):
            if not self._waits and asker.last is not None and values["ts_ns"] - asker.since >= WRITTEN_EVERY:
                yield from asker.write()
            return
        if asker is not None and not asker.is_answered and asker.first["context"] == values["context"]:
            asker.is_answered = True
        yield one(pong, files)

    def _release(self, conn: int | None) -> Iterator[RowRange]:
        """Yield the delayed lines of a connection. Its next PING is printed again."""
        askers = self._askers.pop(conn, {}).values() if conn is not None else ()
        for asker in sorted(askers, key=lambda asker: asker.last_sent):
            yield from asker.release()

    def _look(self, now: int) -> Iterator[RowRange]:
        """Yield PINGs and counts that have been delayed for too long at time `now` (ns). Checks once a second."""
        if now < self._next_look:
            return
        self._next_look = now + SECOND
        for askers in self._askers.values():
            for asker in askers.values():
                if asker.open and now - asker.open[0][0].values["ts_ns"] >= LONGEST_WAIT:
                    yield from asker.release()
                elif asker.last is not None and now - asker.since >= WRITTEN_EVERY + LONGEST_WAIT:
                    yield from asker.write()


def _is_like(ping: dict[str, Any], first: dict[str, Any]) -> bool:
    """Whether a PING equals the first printed one, apart from its context."""
    return bool(ping["complete"]) and ping["ttl_ms"] == first["ttl_ms"]
