"""Write and count the handshakes and the ends of many new connections at once."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from zmtpscope.capture.segments import ORDINALS
from zmtpscope.dissect.arrivals import Arrival, Stamp, tuples_of
from zmtpscope.dissect.connection import outcome
from zmtpscope.dissect.fast_path.identities import Identities
from zmtpscope.dissect.fast_path.known import LISTENER, report_close
from zmtpscope.dissect.fast_path.new_connections import NewConnections
from zmtpscope.dissect.fast_path.openings import KEY, LearnedFact, LearnedNote
from zmtpscope.dissect.fast_path.side_states import SideStates
from zmtpscope.dissect.identity import Stream, ends_of
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.dissect.records.facts import Connected, Endpoint, Origin, pair_of
from zmtpscope.dissect.records.record_writer import (
    AT_THE_END,
    NEITHER,
    count_event,
    count_finding,
    put_events,
    put_findings,
    put_records,
)
from zmtpscope.dissect.records.sink import Sink
from zmtpscope.dissect.stream.plain_state import Counts
from zmtpscope.dissect.tcp.connection import NEVER, Connection, TcpState


class NewConnectionRecords:
    """Writes the records of new connections, whose numbers must be known, or only counts them."""

    def __init__(self, new: NewConnections, sink: Sink) -> None:
        self._new, self._sink, self._places = new, sink, list(new.numbers)
        self._pairs = [pair_of(one) for one, _ in new.keys_of]
        """Addresses of client and server, and the server's port, by entry."""

    # -- openings -----------------------------------------------------------------------------------------------------

    def emit(self) -> None:
        """Write the records of the handshakes. If no output needs records, events are only counted."""
        new, sink, places = self._new, self._sink, self._places
        if not places:
            return
        identities, rows = [new.identities[place] for place in places], new.rows[:, places]
        for step, decided in zip(new.path.steps, rows, strict=True):
            for learned in step.learned:
                first = rows[learned.first]
                if isinstance(learned, LearnedFact):
                    for place, named, at in zip(places, identities, self._arrivals(first, decided), strict=True):
                        sink.report(learned.fact(at, self._origin(place), named))
                elif isinstance(learned, LearnedNote):
                    self._count(learned, first)
                    if sink.options.records:
                        note, streams = learned.note(NEVER), self._streams(learned.side)
                        put_findings(sink, note, streams, self._arrivals(first, decided))
                elif sink.options.records:
                    fields, streams = [learned.fields(each) for each in identities], self._streams(learned.side)
                    put_events(sink, learned.event, fields, streams, self._arrivals(first, decided))
                else:
                    count_event(sink.summary, learned.event, len(places))

    def _arrivals(self, rows: Int64, decided: Int64 | None = None) -> list[Arrival]:
        """Return packet, time and ordinal of each of `rows`.

        The ordinals are those of the rows `decided`, if given.
        """
        block = self._new.block
        ordinals = block.ordinal + ORDINALS * (rows if decided is None else decided)
        return tuples_of(Arrival, ordinals.tolist(), block.packets[rows].tolist(), block.times[rows].tolist())

    def _streams(self, side: int | None) -> list[Stream]:
        """Return the `Stream` of one side of each connection; for `side` None that of the connection itself."""
        which = NEITHER if side is None else side
        return [self._new.streams[place][which] for place in self._places]

    def _origin(self, place: int) -> Origin:
        new = self._new
        return Origin(new.streams[place][0], new.starts[place], LISTENER, new.initials[place])

    def _count(self, learned: LearnedNote, rows: Int64) -> None:
        """Count a finding that several connections have.

        `rows` are the segments with the finding, one for each connection.
        """
        times, numbers = (column[rows].tolist() for column in (self._new.block.times, self._new.block.packets))
        packets: dict[bytes, list[tuple[int, int]]] = {}
        for place, at in zip(self._places, zip(times, numbers, strict=True), strict=True):
            packets.setdefault(self._pairs[place], []).append(at)
        for pair, found in packets.items():
            client, endpoint = _ends_of_pair(pair)
            count_finding(self._sink.summary, learned.finding, len(found), endpoint, client, Stamp(*min(found)))

    # -- ends ---------------------------------------------------------------------------------------------------------

    def finish(self, side_states: SideStates) -> None:
        """Write and count the outcome of the connections that have ended."""
        new, sink, over = self._new, self._sink, self._new.over()
        if not over:
            return
        pairs, opening = new.pairs[:, over], new.opening
        fins = new.directions.fin_rows[pairs]
        last, closers = fins.max(axis=0), (fins[1] < fins[0]).astype(int)
        ends, clients = self._arrivals(last), [self._pairs[place] for place in over]
        sink.batch.facts += tuples_of(Connected, ends, clients, [new.starts[place] for place in over])
        for each in range(len(over)) if opening.has_facts else (closers == LISTENER).nonzero()[0].tolist():
            closer, origin = int(closers[each]), partial(self._origin, over[each])
            (first,) = self._arrivals(fins[closer, each : each + 1])
            report_close(sink, opening, ends[each], (first, closer), origin)
        firsts: dict[bytes, Arrival] = {}
        for pair, end in zip(clients, ends, strict=True):
            firsts.setdefault(pair, end)
        for pair, end in firsts.items():
            sink.connected_to(_ends_of_pair(pair)[1], end)
        counts = [side_states.counts[:, new.slots[over] + number] for number in (0, 1)]
        if sink.options.records:
            fin_times = zip(*new.block.times[fins].tolist(), strict=True)
            each_counts = zip(*(zip(*columns.tolist(), strict=True) for columns in counts), strict=True)
            self._write_ends(over, list(each_counts), ends, closers.tolist(), list(fin_times))
        one, other = (Counts(*columns.sum(axis=1).tolist()) for columns in counts)
        outcome.count(opening.outcome_with((one, other), connections=len(over)), len(over), sink.summary)
        sink.summary.closes["fin"] += len(over)
        sink.summary.sums.captured += int(new.directions.octet_counts[pairs].sum())

    def _write_ends(
        self,
        over: list[int],
        counts: list[tuple[tuple[int, ...], tuple[int, ...]]],
        ends: list[Arrival],
        closers: list[int],
        fin_times: list[tuple[int, int]],
    ) -> None:
        """Write the records of ended connections.

        For each entry in `over`: `counts` are the fields of `Counts` of both sides, `ends` the last packets, `closers`
        the sides of the first FIN, `fin_times` the times of both FINs (ns).
        """
        new, fields, streams = self._new, [], []
        alike: dict[tuple[tuple[tuple[int, ...], ...], Identities], dict[str, Any]] = {}  # few, as a rule
        for place, of_sides, end, closer, fins in zip(over, counts, ends, closers, fin_times, strict=True):
            key, stream = (of_sides, new.identities[place]), new.streams[place][NEITHER]
            if key not in alike:
                reached = new.opening.outcome_with((Counts(*of_sides[0]), Counts(*of_sides[1])), key[1])
                alike[key] = outcome.values(reached, _ended())
            fields.append(alike[key] | outcome.ends_and_times(stream, new.starts[place].time, end.time, closer, fins))
            streams.append(stream)
            if place in new.writers:
                new.writers[place].counted_findings(end.ordinal)
        firsts = [Arrival(end.ordinal, *new.starts[place][::-1]) for place, end in zip(over, ends, strict=True)]
        put_records(self._sink, "connection", 0, AT_THE_END, fields, streams, firsts)


def _ends_of_pair(pair: bytes) -> tuple[str, Endpoint]:
    """Return the address of the client and the endpoint of the server, from a pair of addresses and the server's
    port."""
    (client, _), endpoint = ends_of(pair[:-2] + bytes(2) + pair[-2:])
    return client, endpoint


@cache
def _ended() -> Connection:
    """Return a TCP connection that both sides have closed, as an example for the fields of connection records.

    Other such connections differ only in the fields of `outcome.ends_and_times`.
    """
    connection, state = Connection(0, KEY, NEVER, 0), TcpState.after(0, 0, 0, NEVER, NEVER)
    connection.opened_by, connection.listener = 0, LISTENER
    connection.finish((state, state))
    connection.close("fin", NEVER, NEVER, None)
    return connection
