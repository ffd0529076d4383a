"""PINGs that were answered, folded: "PING/PONG 30 times more, every 1 s, slowest answer 2.1 ms".

The first PING of a side and its PONG are written; those that are like them are counted, whatever messages come in
between. What was counted is written when the connection ends, has a gap, or a finding that warns; at the end; and where
lines do not wait every ten seconds. A PING is kept back until its PONG is there. One that stays without is written as
it is, and so is a PONG that answers none: only what is as it should be is folded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from zmtpscope.dissect import Record
from zmtpscope.export.front import Files
from zmtpscope.export.repeats.stretches import ITSELF, WRITTEN_EVERY, Repeats, Stretch, length, one, time_of
from zmtpscope.records import SECOND

ANSWERS = {"PING": "PONG", "WS-PING": "WS-PONG"}
ASKED = {answer: name for name, answer in ANSWERS.items()}

MOST_OPEN = 8
"""PINGs of a side that wait for their PONGs; where there are more, they are written."""

MOST_CONNECTIONS = 4096
"""Connections whose heartbeats are counted; what was counted of the oldest is written when there are more."""

LONGEST_WAIT = SECOND
"""Where lines do not wait, a PING is kept back no longer (capture time)."""

ENDING = frozenset({"connection", "gap", "leftover"})
WARNING = frozenset({"error", "warn"})
"""What was counted is written in front of records of these types, and findings of these severities."""


class Asker:
    """The PINGs of one side of a connection, of which `first` is written."""

    def __init__(self, first: dict[str, Any]) -> None:
        self.first = first
        self.is_answered = False
        """The PONG to it was there: what is like both is counted from now on."""
        self.open: list[tuple[Record, Files]] = []
        """PINGs that wait for their PONGs."""
        self.count = 0
        """Those that were answered and are not written yet, ..."""
        self.last: tuple[Record, Files] | None = None
        """... the last of them, ..."""
        self.slowest = 0
        """... the longest that one of them waited (ns), ..."""
        self.since: int = first["ts_ns"]
        """... and when the one in front of them was sent."""

    @property
    def last_sent(self) -> int:
        """When the last one was sent that was counted."""
        sent: int = self.since if self.last is None else self.last[0].values["ts_ns"]
        return sent

    def answer(self, pong: dict[str, Any]) -> bool:
        """Count the PING that `pong` answers; False: there is none."""
        for ping, files in self.open:
            if ping.values["context"] == pong["context"]:
                self.open.remove((ping, files))
                self.count += 1
                self.last = ping, files
                self.slowest = max(self.slowest, pong["ts_ns"] - ping.values["ts_ns"])
                return True
        return False

    def write(self) -> Iterator[Stretch]:
        """What was counted."""
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

    def release(self) -> Iterator[Stretch]:
        """What was counted, and the PINGs that wait."""
        yield from self.write()
        for ping, files in self.open:
            yield one(ping, files)
        self.open.clear()


class HeartbeatFold:
    """Folds the heartbeats of all connections. `waits`: lines may wait until it is clear that there is no answer."""

    def __init__(self, *, waits: bool) -> None:
        self._waits = waits
        self._askers: dict[int, dict[tuple[int, str], Asker]] = {}
        """By connection; by side and name of the command."""
        self._next_look = 0
        """When to look whether something was kept back long enough."""

    def feed(self, stretches: Iterable[Stretch]) -> Iterator[Stretch]:
        """See `Fold`."""
        for stretch in stretches:
            said, files = stretch[0]
            if not isinstance(said, Record):
                yield stretch
                continue
            if not self._waits and self._askers:
                yield from self._look(time_of(said))
            values = said.values
            if said.type == "command" and values["name"] in ANSWERS:
                yield from self._ping(said, files)
            elif said.type == "command" and values["name"] in ASKED:
                yield from self._pong(said, files)
            else:
                if said.type in ENDING or (said.type == "finding" and values["severity"] in WARNING):
                    yield from self._release(values["conn"])
                yield stretch

    def rest(self) -> Iterator[Stretch]:
        """See `Fold`."""
        for conn in list(self._askers):
            yield from self._release(conn)

    def _ping(self, ping: Record, files: Files) -> Iterator[Stretch]:
        values = ping.values
        conn, place = values["conn"], (values["side"], values["name"])
        if conn not in self._askers and len(self._askers) == MOST_CONNECTIONS:
            yield from self._release(next(iter(self._askers)))
        askers = self._askers.setdefault(conn, {})
        asker = askers.get(place)
        if asker is not None and asker.is_answered and _is_like(values, asker.first) and len(asker.open) < MOST_OPEN:
            asker.open.append((ping, files))
            return
        if asker is not None:
            yield from asker.release()
        askers[place] = Asker(values)
        yield one(ping, files)

    def _pong(self, pong: Record, files: Files) -> Iterator[Stretch]:
        values = pong.values
        asker = self._askers.get(values["conn"], {}).get((1 - values["side"], ASKED[values["name"]]))
        if asker is not None and asker.is_answered and values["complete"] and asker.answer(values):
            if not self._waits and asker.last is not None and values["ts_ns"] - asker.since >= WRITTEN_EVERY:
                yield from asker.write()
            return
        if asker is not None and not asker.is_answered and asker.first["context"] == values["context"]:
            asker.is_answered = True
        yield one(pong, files)

    def _release(self, conn: int | None) -> Iterator[Stretch]:
        """What is left of a connection: its next heartbeats are the first again."""
        askers = self._askers.pop(conn, {}).values() if conn is not None else ()
        for asker in sorted(askers, key=lambda asker: asker.last_sent):
            yield from asker.release()

    def _look(self, now: int) -> Iterator[Stretch]:
        """Let go of what was kept back long enough; once a second."""
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
    """Whether it asks the same, whatever its context."""
    return bool(ping["complete"]) and ping["ttl_ms"] == first["ttl_ms"]
