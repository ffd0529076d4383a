from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.frame_ids import FirstFrames, first_frames
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.diagnosis.observers.room import Room
from zmtpscope.diagnosis.observers.run_summaries import RunSummary
from zmtpscope.dissect import Record
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.batch import RANKS
from zmtpscope.dissect.records.record_writer import NEITHER
from zmtpscope.dissect.records.tables import MessageTable
from zmtpscope.records import SCHEMA, empty


class DerivedTable(ABC):
    """At least one derived record, all of one type."""

    @abstractmethod
    def records(self) -> Iterable[Record]:
        """Yield the records, in order."""


READ_TOGETHER = 32
"""Messages whose first frames are read at once."""


class Turn(NamedTuple):
    """Successive messages of one side: their positions `begin..end` (`end` excluded) among its messages of the batch,
    and when the first and the last one ended (ns)."""

    side: int
    begin: int
    end: int
    first_ns: int
    last_ns: int


class Rows:
    """Messages of one connection in one batch: `sides` are the runs of each side; packets refer to `files`.

    A position is an index among all messages of a side, in order.
    """

    def __init__(self, files: Sequence[str | None]) -> None:
        self.sides: tuple[list[MessageTable], list[MessageTable]] = [], []
        self.summaries: tuple[list[RunSummary], list[RunSummary]] = [], []
        self.files = files
        self._first: tuple[dict[int, FirstFrames], dict[int, FirstFrames]] = {}, {}
        """First frames of each side that were read, by position."""

    def turns(self) -> Iterator[Turn]:
        """Yield the turns of both sides: a side has its turn until the other one sends a message."""
        for side in (0, 1):
            if not self.sides[1 - side]:
                summaries = sorted(self.summaries[side], key=attrgetter("last_order"))
                if summaries:
                    count = sum(each.messages for each in summaries)
                    yield Turn(side, 0, count, summaries[0].first_end_ns, summaries[-1].last_end_ns)
                return
        orders, ends = zip(*[self._orders_and_ends(side) for side in (0, 1)], strict=True)
        at, side = [0, 0], 0 if orders[0][0] <= orders[1][0] else 1
        while at[side] < len(orders[side]):
            begin, other = at[side], 1 - side
            if at[other] < len(orders[other]):
                cut = bisect_left if side else bisect_right  # side 0 precedes side 1 in the same segment
                end = cut(orders[side], orders[other][at[other]], begin)
            else:
                end = len(orders[side])
            at[side] = end
            yield Turn(side, begin, end, ends[side][begin], ends[side][end - 1])
            side = other

    def last_turn(self, side: int) -> range:
        """Return the positions of a side's messages after the last one of the other side."""
        runs, others = self.sides[side], self.sides[1 - side]
        stop = sum(map(len, runs))
        if not runs or not others:
            return range(stop)
        last = max(int(run.orders[-1]) for run in others)
        return range(sum(int(run.orders.searchsorted(last, "left" if side else "right")) for run in runs), stop)

    def first(self, side: int, position: int) -> FirstFrames:
        """Return the first frames of a message; the next ones are read with it."""
        known = self._first[side]
        if position not in known:
            stop = min(position + READ_TOGETHER, sum(map(len, self.sides[side])))
            known.update(zip(range(position, stop), self.first_frames(side, position, stop), strict=True))
        return known[position]

    def first_frames(self, side: int, begin: int, end: int) -> list[FirstFrames]:
        """Return the first frames of a side's messages at positions `begin..end` (`end` excluded)."""
        runs = self.sides[side]
        if len(runs) == 1:
            return first_frames(runs[0], begin, end)
        return [first_frames(runs[number], row, row + 1)[0] for number, row in self.places(side)[begin:end]]

    def places(self, side: int) -> list[tuple[int, int]]:
        """Return the messages of a side by position, each as the number of its run and its row."""
        runs = self.sides[side]
        places = [
            (order, number, row) for number, run in enumerate(runs) for row, order in enumerate(run.orders.tolist())
        ]
        return [(number, row) for _, number, row in sorted(places)]

    def _orders_and_ends(self, side: int) -> tuple[list[int], list[int]]:
        """Return the ordinals of a side's messages, and the times of their last octets, by position."""
        runs = self.sides[side]
        if len(runs) == 1:
            return runs[0].orders.tolist(), runs[0].time_ends.tolist()
        orders, ends = (np.concatenate([getattr(run, name) for run in runs]) for name in ("orders", "time_ends"))
        order = np.argsort(orders, kind="stable")
        return orders[order].tolist(), ends[order].tolist()


def first_order(run: MessageTable) -> int:
    """Return the order of a run's first message, a sort key for runs of one side."""
    return int(run.orders[0])


SocketTypes = tuple[str | None, str | None]


class Observer:
    """Follows one aspect of one connection, and writes facts into `observed` for rules.

    It gets the records of each batch, then the messages, in order. It is created for the first record in `begins_with`,
    or the first messages between socket types that it `follows`.
    """

    types: frozenset[str] = frozenset()
    """The record types that `record` processes."""
    begins_with: frozenset[str] = frozenset()
    """Record types, and names of commands."""

    @classmethod
    def follows(cls, socket_types: SocketTypes) -> bool:
        """Whether messages between these socket types matter."""
        return True

    def __init__(self, observed: ObservedConnection, room: Room) -> None:
        self.observed = observed
        self.room = room

    def record(self, record: Record) -> None:
        """Process a record of one of its `types`."""

    def rows(self, rows: Rows) -> None:
        """Process the messages of a batch."""

    def derive(self) -> list[DerivedTable]:
        """Return the records decided since the last call."""
        return []

    def finish(self, ordinal: int) -> list[DerivedTable]:
        """Return the remaining records at the end of the connection (`observed.values` is set) or of the capture."""
        return self.derive()


def derived(type_: str, ordinal: int, moment: Moment, stream: Stream | None = None, /, **own: object) -> Record:
    """Return a derived record that the segment `ordinal` decided; it begins at `moment`, and has the fields `own`."""
    values = empty(type_)
    values.update(schema=SCHEMA, record=type_, ts_ns=moment.ns, file=moment.file, packet=moment.packet)
    if stream is not None:
        values.update(stream._asdict())
    values.update(own)
    conn, side = values["conn"], values["side"]
    order = (
        ordinal,
        ACROSS if conn is None else conn,
        NEITHER if side is None else side,
        values.get("source") or 0,
        values.get("offset") or 0,
        RANKS[type_],
    )
    return Record.of(type_, order, values)


ACROSS = 1 << 63
"""Place of records about several connections: after all others."""
