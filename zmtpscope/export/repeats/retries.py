"""Retries that fail in the same way, folded: "tried again 117 times, c2 to c118, every 0.3 s: each went as c1 did".

The first attempt of a client at an endpoint that fails is written. One that says and ends the same, whatever its times
and ports, is counted. So of a client that has failed, lines are kept back as long as they are those of an attempt that
was written: the first that is not lets all of them out. What was counted is written when an attempt goes otherwise, at
the end, and where lines do not wait every ten seconds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from zmtpscope.dissect import Record
from zmtpscope.export.front import Files
from zmtpscope.export.repeats.stretches import ITSELF, WRITTEN_EVERY, Repeats, Stretch, length, one, time_of
from zmtpscope.export.row_lines import RowWords
from zmtpscope.records import SECOND

COMPARED = {
    "greeting": ("form", "version_announced", "mechanism", "as_server", "socket_type", "identity", "length"),
    "command": (
        *("name", "length", "socket_type", "identity", "reason", "username"),
        *("server_longterm_key", "client_longterm_key", "close_code"),
    ),
    "leftover": ("kind", "bytes"),
    "finding": ("id", "severity"),
}
"""What has to be the same in the records of an attempt. Whatever else is said is no attempt any more."""

ABOUT_RETRIES = frozenset({"ZMTP-CONN-09", "ZMTP-CONN-10"})
"""Findings that say that a client tries again: written once of each client at each endpoint, and not compared."""

FAILED = frozenset({"fin", "rst"})
"""How a connection is closed that has failed."""

COMPARED_ENDS = ("handshake", "close", "closed_by", "reset_by", "opened_by")

MOST_RECORDS = 32
"""Records of an attempt; one that has more is not remembered."""

MOST_OPEN, MOST_PAIRS, MOST_FAILURES = 4096, 4096, 4
"""Attempts under way, pairs of client and endpoint, and ways of each pair to fail that are remembered."""

LONGEST_WAIT, LONGEST_WAIT_LIVE = 60 * SECOND, SECOND
"""So long lines of an attempt are kept back at most (capture time): longer than the handshake timer of libzmq, which is
30 s; and where lines do not wait."""

Pair = tuple[str, str, int]
"""Client address, address and port of the endpoint."""

Said = dict[int | None, tuple[object, ...]]
"""What was said of each side and of neither: which side comes first differs from attempt to attempt."""


class Attempt:
    """A connection that is no more than an attempt so far. `kept`: its lines, if they are kept back."""

    def __init__(self, pair: Pair, began: int, kept: list[Stretch] | None) -> None:
        self.pair, self.began, self.kept = pair, began, kept
        self.said: Said = {}
        self.count = 0
        """Records."""

    def add(self, side: int | None, said: object) -> None:
        """Something more was said."""
        self.said[side] = (*self.said.get(side, ()), said)
        self.count += 1


class Failure:
    """How attempts of one client at one endpoint failed, the first of which was written as connection `conn`."""

    def __init__(self, conn: int, said: Said, began: int) -> None:
        self.conn, self.said = conn, said
        self.count = 0
        """Those that went the same and are not written yet, ..."""
        self.since = began
        """... when the one in front of them began, ..."""
        self.first = conn
        """... the first of them, ..."""
        self.last: tuple[Record, Files] | None = None
        """... and the record of the last."""

    def add(self, connection: Record, files: Files) -> None:
        """One more attempt went so."""
        self.first = self.first if self.count else connection.values["conn"]
        self.count += 1
        self.last = connection, files

    def write(self) -> Iterator[Stretch]:
        """What was counted."""
        if self.last is None:
            return
        record, files = self.last
        began, last = record.values["start_ns"], record.values["conn"]
        mean = length((began - self.since) // self.count)
        if self.count == 1:
            text = f"tried again after {mean}: it went as c{self.conn} did"
        else:
            times = f"{self.count} times, c{self.first} to c{last}, every {mean}"
            text = f"tried again {times}: each went as c{self.conn} did"
        yield (Repeats(record, text), files), ITSELF
        self.count, self.last, self.since = 0, None, began


class Tries:
    """What is remembered of a client that has failed at an endpoint."""

    def __init__(self) -> None:
        self.failures: list[Failure] = []
        """In which ways; the oldest first."""
        self.noted: set[str] = set()
        """Which findings of `ABOUT_RETRIES` are written."""

    def like(self, said: Said) -> Failure | None:
        """The failure of which all was said."""
        return next((failure for failure in self.failures if failure.said == said), None)

    def begins_like(self, said: Said) -> bool:
        """Whether there is a failure of which the beginning was said, for each side."""
        return any(
            all(failure.said.get(side, ())[: len(words)] == words for side, words in said.items())
            for failure in self.failures
        )

    def write(self) -> Iterator[Stretch]:
        """What was counted."""
        for failure in self.failures:
            yield from failure.write()


class RetryFold:
    """Folds the attempts of all clients. `waits`: lines may wait until it is clear how an attempt ends."""

    def __init__(self, *, waits: bool) -> None:
        self._waits = waits
        self._longest_wait = LONGEST_WAIT if waits else LONGEST_WAIT_LIVE
        self._open: dict[int, Attempt] = {}
        """By connection."""
        self._kept: dict[int, Attempt] = {}
        """Those of them whose lines are kept back, the oldest first."""
        self._tries: OrderedDict[Pair, Tries] = OrderedDict()
        """Of those that have failed; who failed longest ago comes first."""
        self._next_look = 0
        """When to look whether something was counted long enough ago."""

    def feed(self, stretches: Iterable[Stretch]) -> Iterator[Stretch]:
        """See `Fold`."""
        for stretch in stretches:
            said, files = stretch[0]
            if isinstance(said, RowWords):
                if self._open:
                    yield from self._rows(said, files, stretch[1])
                else:
                    yield stretch
            elif not isinstance(said, Record) or said.values["conn"] is None:
                yield stretch
            else:
                if self._kept or not self._waits:
                    yield from self._look(time_of(said))
                yield from self._connection(said, files) if said.type == "connection" else self._record(said, files)

    def rest(self) -> Iterator[Stretch]:
        """See `Fold`."""
        for conn, attempt in self._open.items():
            yield from self._let_out(conn, attempt)
        for tries in self._tries.values():
            yield from tries.write()

    def _rows(self, words: RowWords, files: Files, rows: Sequence[int]) -> Iterator[Stretch]:
        """Rows, among which may be some of attempts, which are more from there on."""
        begin = 0
        for place, row in enumerate(rows):
            conn = words.stream(row).conn
            if conn is None or conn not in self._open:
                continue
            let_out = list(self._connected(conn))
            if let_out and begin < place:
                yield (words, files), rows[begin:place]
                begin = place
            yield from let_out
        yield (words, files), rows[begin:]

    def _record(self, record: Record, files: Files) -> Iterator[Stretch]:
        values, conn = record.values, record.values["conn"]
        if record.type == "greeting" and conn not in self._open:
            yield from self._begin(conn, values)
        attempt = self._open.get(conn)
        if attempt is not None and record.type == "finding" and values["id"] in ABOUT_RETRIES:
            tries = self._tries.get(attempt.pair)
            if tries is not None and attempt.kept is not None and values["id"] in tries.noted:
                attempt.kept.append(one(record, files))
                return
            if tries is not None:
                tries.noted.add(values["id"])
        elif attempt is not None and (record.type not in COMPARED or attempt.count == MOST_RECORDS):
            yield from self._connected(conn)
        elif attempt is not None:
            attempt.add(values["side"], tuple(map(values.get, COMPARED[record.type])))
            tries = self._tries.get(attempt.pair)
            if attempt.kept is not None and tries is not None and tries.begins_like(attempt.said):
                attempt.kept.append(one(record, files))
                return
            yield from self._let_out(conn, attempt)
        yield one(record, files)

    def _begin(self, conn: int, values: dict[str, Any]) -> Iterator[Stretch]:
        """A connection has begun."""
        if len(self._open) == MOST_OPEN:
            oldest = next(iter(self._open))
            yield from self._let_out(oldest, self._open.pop(oldest))
        pair = _pair_of(values)
        attempt = self._open[conn] = Attempt(pair, values["ts_ns"], [] if pair in self._tries else None)
        if attempt.kept is not None:
            self._kept[conn] = attempt

    def _connection(self, connection: Record, files: Files) -> Iterator[Stretch]:
        """A connection is over: it was an attempt that failed, or more."""
        values, conn = connection.values, connection.values["conn"]
        if conn in self._open and (values["handshake"] == "complete" or values["close"] not in FAILED):
            yield from self._connected(conn)
        elif conn in self._open:
            attempt = self._open.pop(conn)
            attempt.add(None, tuple(map(values.get, COMPARED_ENDS)))
            same = self._tries.setdefault(attempt.pair, Tries()).like(attempt.said)
            if same is not None and attempt.kept is not None:
                del self._kept[conn]
                same.add(connection, files)
                if not self._waits and values["start_ns"] - same.since >= WRITTEN_EVERY:
                    yield from same.write()
                return
            yield from self._let_out(conn, attempt)
            if same is None:
                yield from self._remember(attempt.pair, Failure(conn, attempt.said, values["start_ns"]))
            else:
                same.since = values["start_ns"]
        yield one(connection, files)

    def _remember(self, pair: Pair, failure: Failure) -> Iterator[Stretch]:
        """A client has failed at an endpoint in a way of its own."""
        failures = self._tries[pair].failures
        self._tries.move_to_end(pair)
        failures.append(failure)
        if len(failures) > MOST_FAILURES:
            yield from failures.pop(0).write()
        if len(self._tries) > MOST_PAIRS:
            yield from self._tries.popitem(last=False)[1].write()

    def _connected(self, conn: int) -> Iterator[Stretch]:
        """A connection is more than an attempt: what the client tried before is over."""
        attempt = self._open.pop(conn)
        yield from self._let_out(conn, attempt)
        if attempt.pair in self._tries:
            yield from self._tries.pop(attempt.pair).write()

    def _let_out(self, conn: int, attempt: Attempt) -> Iterator[Stretch]:
        """Write what was counted, and behind it what was kept back of this attempt; nothing is from now on."""
        if attempt.kept is not None:
            if attempt.pair in self._tries:
                yield from self._tries[attempt.pair].write()
            del self._kept[conn]
            kept, attempt.kept = attempt.kept, None
            yield from kept

    def _look(self, now: int) -> Iterator[Stretch]:
        """Let out what was kept back long enough, and once a second write what was counted long enough ago."""
        while self._kept:
            conn, attempt = next(iter(self._kept.items()))
            if now - attempt.began < self._longest_wait:
                break
            yield from self._let_out(conn, attempt)
        if not self._waits and now >= self._next_look:
            self._next_look = now + SECOND
            for tries in self._tries.values():
                for failure in tries.failures:
                    if failure.last is not None and now - failure.since >= WRITTEN_EVERY + LONGEST_WAIT_LIVE:
                        yield from failure.write()


def _pair_of(values: dict[str, Any]) -> Pair:
    """Side 0 opened the connection."""
    if values["side"]:
        return values["dst_ip"], values["src_ip"], values["src_port"]
    return values["src_ip"], values["dst_ip"], values["dst_port"]
