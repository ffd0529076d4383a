"""Print equal connection attempts as one line.

Example: "retried 117 times, c2 to c118, every 0.3 s, each with the same outcome as c1". The first failed attempt of a
client at an endpoint is printed. Later ones with the same records and the same ending are counted; times and ports may
differ. The lines of an attempt are therefore delayed while they equal the lines of a printed one, and all are printed
at the first difference. The count is printed when an attempt differs and at the end; in live output also every ten
seconds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

from zmtpscope.dissect import Record
from zmtpscope.dissect.identity import Stream
from zmtpscope.export.front import Files
from zmtpscope.export.repeats.fold import ITSELF, WRITTEN_EVERY, Repeats, RowRange, conn_of, length, one, time_of
from zmtpscope.export.rows import RowWords
from zmtpscope.records import SECOND

COMPARED = {
    "greeting": ("form", "version_announced", "mechanism", "as_server", "socket_type", "identity", "length"),
    "command": (
        *("name", "length", "socket_type", "identity", "reason", "username"),
        *("server_longterm_key", "client_longterm_key", "close_code"),
    ),
    "leftover": ("kind", "bytes"),
    "finding": ("id", "severity"),
    "connection": ("handshake", "close", "closed_by", "reset_by", "opened_by"),
}
"""Compared fields by record type. A connection with a record of another type is not a failed attempt."""

ABOUT_RETRIES = frozenset({"ZMTP-CONN-09", "ZMTP-CONN-10"})
"""Findings that are printed once for each client and endpoint, and not compared."""

FAILED = frozenset({"fin", "rst"})
"""Values of `close` of a failed connection."""

MAX_RECORDS = 32

MAX_OPEN, MAX_PAIRS, MAX_FAILURES = 4096, 4096, 4
"""Open attempts, pairs of client and endpoint, and different failures of a pair."""

LONGEST_WAIT, LONGEST_WAIT_LIVE = 60 * SECOND, SECOND
"""Capture time to delay the lines of an attempt: longer than the handshake timer of libzmq (30 s), or a second if lines
do not wait."""

Pair = tuple[str, str, int]
"""Client address, address and port of the endpoint."""

Compared = dict[int | None, tuple[object, ...]]
"""Values by side (None: neither). The order between the sides varies from attempt to attempt."""


class Attempt:
    """A connection that may still become a failed attempt, opened at `began` (ns).

    `kept` are its delayed lines, or None if they are printed at once.
    """

    def __init__(self, pair: Pair, began: int, kept: list[RowRange] | None) -> None:
        self.pair, self.began, self.kept = pair, began, kept
        self.count = 0
        self._compared: Compared = {}
        self._records: list[Record] = []
        """Records that are not in `_compared` yet: most connections are never compared."""

    def add(self, record: Record) -> None:
        self._records.append(record)
        self.count += 1

    @property
    def compared(self) -> Compared:
        """The values of its records that must be equal in repeated attempts, by side."""
        for record in self._records:
            side = None if record.stream is None else record.stream.side
            values = tuple(map(record.own.get, COMPARED[record.type]))
            self._compared[side] = (*self._compared.get(side, ()), values)
        self._records.clear()
        return self._compared


class Failure:
    """One way in which attempts of a client at an endpoint fail; `compared` are the values of its records.

    The first such attempt was printed as connection `conn`.
    """

    def __init__(self, conn: int, compared: Compared, began: int) -> None:
        self.conn, self.compared = conn, compared
        self.count = 0
        """Number of equal attempts that are not printed yet."""
        self.since = began
        """Start of the attempt before the counted ones."""
        self.first = conn
        """Number of the first counted attempt."""
        self.last: tuple[Record, Files] | None = None
        """Record of the last counted attempt."""

    def add(self, conn: int, connection: Record, files: Files) -> None:
        self.first = self.first if self.count else conn
        self.count += 1
        self.last = connection, files

    def write(self) -> Iterator[RowRange]:
        """Yield one line for all counted attempts."""
        if self.last is None:
            return
        record, files = self.last
        began, last = record.own["start_ns"], conn_of(record)
        mean = length((began - self.since) // self.count)
        if self.count == 1:
            text = f"retried after {mean}, with the same outcome as c{self.conn}"
        else:
            times = f"{self.count} times, c{self.first} to c{last}, every {mean}"
            text = f"retried {times}, each with the same outcome as c{self.conn}"
        yield (Repeats(record, text), files), ITSELF
        self.count, self.last, self.since = 0, None, began


class FailedAttempts:
    def __init__(self) -> None:
        self.failures: list[Failure] = []
        """Distinct failures, oldest first."""
        self.noted: set[str] = set()
        """Findings of `ABOUT_RETRIES` that are already printed."""

    def like(self, compared: Compared) -> Failure | None:
        return next((failure for failure in self.failures if failure.compared == compared), None)

    def begins_like(self, compared: Compared) -> bool:
        """Whether a known failure starts with these values, on each side."""
        return any(
            all(failure.compared.get(side, ())[: len(values)] == values for side, values in compared.items())
            for failure in self.failures
        )

    def write(self) -> Iterator[RowRange]:
        for failure in self.failures:
            yield from failure.write()


class RetryFold:
    """Replaces repeated failed attempts by one line.

    `waits`: lines may be delayed until the attempt has ended; otherwise for about a second.
    """

    def __init__(self, *, waits: bool) -> None:
        self._waits = waits
        self._longest_wait = LONGEST_WAIT if waits else LONGEST_WAIT_LIVE
        self._open: dict[int, Attempt] = {}
        self._kept: dict[int, Attempt] = {}
        """Open attempts with delayed lines, oldest first."""
        self._failed: OrderedDict[Pair, FailedAttempts] = OrderedDict()
        """Failures by client and endpoint, the oldest first."""
        self._next_look = 0
        """Capture time of the next check for counts that have waited too long."""

    def feed(self, ranges: Iterable[RowRange]) -> Iterator[RowRange]:
        for row_range in ranges:
            line, files = row_range[0]
            if isinstance(line, RowWords):
                if self._open:
                    yield from self._rows(line, files, row_range[1])
                else:
                    yield row_range
            elif not isinstance(line, Record) or line.stream is None or line.stream.conn is None:
                yield row_range
            else:
                if self._kept or not self._waits:
                    yield from self._look(time_of(line))
                handle = self._connection if line.type == "connection" else self._record
                yield from handle(line, files, line.stream, line.stream.conn)

    def rest(self) -> Iterator[RowRange]:
        for conn, attempt in self._open.items():
            yield from self._release(conn, attempt)
        for failed in self._failed.values():
            yield from failed.write()

    def _rows(self, words: RowWords, files: Files, rows: Sequence[int]) -> Iterator[RowRange]:
        """Yield message rows to print.

        A connection with messages is no failed attempt, so its delayed lines are printed first.
        """
        begin = 0
        for place, row in enumerate(rows):
            conn = words.sender(row).stream.conn
            if conn is None or conn not in self._open:
                continue
            released = list(self._connected(conn))
            if released and begin < place:
                yield (words, files), rows[begin:place]
                begin = place
            yield from released
        yield (words, files), rows[begin:]

    def _record(self, record: Record, files: Files, stream: Stream, conn: int) -> list[RowRange]:
        """Return the lines to print for a record of the connection `conn`; the end of a connection has its own
        function."""
        printed: list[RowRange] = []
        own = record.own
        attempt = self._open.get(conn)
        if attempt is None and record.type == "greeting":
            printed += self._make_room()
            attempt = self._begin(conn, stream, record.ts_ns)
        if attempt is None:
            return [one(record, files)]
        if record.type == "finding" and own["id"] in ABOUT_RETRIES:
            failed = self._failed.get(attempt.pair)
            if failed is not None and attempt.kept is not None and own["id"] in failed.noted:
                attempt.kept.append(one(record, files))
                return printed
            if failed is not None:
                failed.noted.add(own["id"])
        elif record.type not in COMPARED or attempt.count == MAX_RECORDS:
            printed += self._connected(conn)
        else:
            attempt.add(record)
            if attempt.kept is not None:
                failed = self._failed.get(attempt.pair)
                if failed is not None and failed.begins_like(attempt.compared):
                    attempt.kept.append(one(record, files))
                    return printed
                printed += self._release(conn, attempt)
        printed.append(one(record, files))
        return printed

    def _make_room(self) -> Iterator[RowRange]:
        """If the number of open attempts is at its limit, yield the delayed lines of the oldest and forget it."""
        if len(self._open) == MAX_OPEN:
            oldest = next(iter(self._open))
            yield from self._release(oldest, self._open.pop(oldest))

    def _begin(self, conn: int, stream: Stream, time: int) -> Attempt:
        pair = _pair_of(stream)
        attempt = self._open[conn] = Attempt(pair, time, [] if pair in self._failed else None)
        if attempt.kept is not None:
            self._kept[conn] = attempt
        return attempt

    def _connection(self, connection: Record, files: Files, _: Stream, conn: int) -> Iterator[RowRange]:
        """Yield the lines to print at the end of a connection, and count it if it was a repeated failed attempt."""
        own = connection.own
        if conn in self._open and (own["handshake"] == "complete" or own["close"] not in FAILED):
            yield from self._connected(conn)
        elif conn in self._open:
            attempt = self._open.pop(conn)
            attempt.add(connection)
            same = self._failed.setdefault(attempt.pair, FailedAttempts()).like(attempt.compared)
            if same is not None and attempt.kept is not None:
                del self._kept[conn]
                same.add(conn, connection, files)
                if not self._waits and own["start_ns"] - same.since >= WRITTEN_EVERY:
                    yield from same.write()
                return
            yield from self._release(conn, attempt)
            if same is None:
                yield from self._remember(attempt.pair, Failure(conn, attempt.compared, own["start_ns"]))
            else:
                same.since = own["start_ns"]
        yield one(connection, files)

    def _remember(self, pair: Pair, failure: Failure) -> Iterator[RowRange]:
        """Store a new kind of failure; yield the counts of another one that is forgotten to limit memory."""
        failures = self._failed[pair].failures
        self._failed.move_to_end(pair)
        failures.append(failure)
        if len(failures) > MAX_FAILURES:
            yield from failures.pop(0).write()
        if len(self._failed) > MAX_PAIRS:
            yield from self._failed.popitem(last=False)[1].write()

    def _connected(self, conn: int) -> Iterator[RowRange]:
        """Yield the counted attempts of a client whose connection has succeeded, and forget them."""
        attempt = self._open.pop(conn)
        yield from self._release(conn, attempt)
        if attempt.pair in self._failed:
            yield from self._failed.pop(attempt.pair).write()

    def _release(self, conn: int, attempt: Attempt) -> Iterator[RowRange]:
        """Yield the counted attempts, then the delayed lines of this attempt. Its further lines are not delayed."""
        if attempt.kept is not None:
            if attempt.pair in self._failed:
                yield from self._failed[attempt.pair].write()
            del self._kept[conn]
            kept, attempt.kept = attempt.kept, None
            yield from kept

    def _look(self, now: int) -> Iterator[RowRange]:
        """Yield lines, and once a second counts, that have been delayed for too long at time `now` (ns)."""
        while self._kept:
            conn, attempt = next(iter(self._kept.items()))
            if now - attempt.began < self._longest_wait:
                break
            yield from self._release(conn, attempt)
        if not self._waits and now >= self._next_look:
            self._next_look = now + SECOND
            for failed in self._failed.values():
                for failure in failed.failures:
                    if failure.last is not None and now - failure.since >= WRITTEN_EVERY + LONGEST_WAIT_LIVE:
                        yield from failure.write()


def _pair_of(stream: Stream) -> Pair:
    """Return (client address, endpoint) of a stream; side 0 opened the connection."""
    if stream.side:
        return stream.dst_ip, stream.src_ip, stream.src_port
    return stream.src_ip, stream.dst_ip, stream.dst_port
