"""Make tables of messages and frames. A table ends where version, mechanism or another constant of the side changes."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.dissect.records.tables import HEAD_KEPT, FrameTable, MessageTable, Pieces, Sender, used_senders
from zmtpscope.dissect.stream.arrivals import Arrivals, segments_at
from zmtpscope.zmtp.events import FrameColumns
from zmtpscope.zmtp.regime import Regime


@dataclass(slots=True, eq=False)
class Context:
    """The octets and properties of one side from which tables of messages are made.

    `data` are the octets from stream offset `base` on; `arrivals` are known up to `end`. From offset `doubtful` on
    messages are uncertain.
    """

    data: bytes
    base: int
    end: int
    arrivals: Arrivals
    regimes: list[tuple[int, Regime]]
    version: str | None
    confidence: str
    doubtful: int | None
    settled: int
    """Ordinal of the segment before which no row was decidable."""
    pieces: Pieces | None
    seals: bool
    """Whether frames may be MESSAGEs."""
    messages: bool
    """Whether to make message rows; otherwise messages are only counted."""
    frames: bool
    limit: int
    """Body octets of a message to keep whole; of a larger one `HEAD_KEPT` octets are kept."""


class Kept(NamedTuple):
    """Octets from stream offset `base` on, and their packets if details are requested."""

    data: bytes
    base: int
    pieces: Pieces | None


class Edges(NamedTuple):
    """Properties of the first and of the last message of a call that the columns of frames do not contain."""

    start: Arrival | None
    """The segment with the first octet, if it was read earlier."""
    end: Arrival
    """The segment with the last octet, kept because its arrival may be forgotten."""
    is_damaged: bool
    """Whether octets of the first message were lost."""
    is_uncertain: bool
    """Whether data before the first message is missing."""
    head: Kept | None
    """The octets of the first message, if they are no longer held."""


def message_runs(
    stream: Stream, frames: FrameColumns, last: Int64, complete: bool, edges: Edges, context: Context
) -> list[MessageTable]:
    """Return tables of the messages that end with the frames `last`; the first message starts with the first frame.

    `complete`: all are complete, except if `edges` has another value.
    """
    count = int(last[-1]) + 1
    offsets, bodies, sizes, flags = [as_array(column)[:count] for column in columns_of(frames)]
    if len(last) == 1:
        completeness = np.array([complete and not edges.is_damaged])
        first, orders, packets, times, packet_ends, time_ends = _row_of_one(frames, count - 1, edges, context)
        starts = offsets[:1]
    else:
        completeness, first = np.empty(len(last), np.bool_), np.empty_like(last)
        completeness[:], first[0], first[1:] = complete, 0, last[:-1] + 1
        completeness[0] &= not edges.is_damaged
        starts = offsets[first]
        times_of_rows = _times(starts, bodies[last], sizes[last], edges, context)
        orders, packets, times, packet_ends, time_ends = times_of_rows
    common = list(slices(context, starts))
    regime, confidence, _, _ = common[0]
    sender = Sender(
        stream=stream,
        regime=regime,
        confidence=confidence,
        data=context.data,
        base=context.base,
        end=context.end,
        pieces=context.pieces,
        version=context.version,
        socket_type=regime.socket_type,
    )
    run = MessageTable(
        senders=[sender],
        offsets=offsets,
        bodies=bodies,
        sizes=sizes,
        flags=flags,
        first=first,
        last=last,
        complete=completeness,
        orders=orders,
        packets=packets,
        times=times,
        packet_ends=packet_ends,
        time_ends=time_ends,
    )
    runs = [run]
    if len(common) > 1:
        runs = [run.part(low, high) for _, _, low, high in common]
        for each, (regime, confidence, _, _) in zip(runs, common, strict=True):
            each.change(regime=regime, confidence=confidence, socket_type=regime.socket_type)
    if edges.head is not None or edges.is_uncertain:
        whole = runs[0]
        count = len(whole.first)
        head = whole.part(0, 1) if count > 1 else whole
        if edges.head is not None:
            head.change(**edges.head._asdict())
        if edges.is_uncertain:
            head.change(confidence="likely")
        runs[:1] = [head, whole.part(1, count)] if count > 1 else [head]
    return [part for run in runs for part in cut_large(run, context.limit).by_sender()]


def _times(starts: Int64, bodies: Int64, sizes: Int64, edges: Edges, context: Context) -> tuple[Int64, ...]:
    """Return five columns for messages: ordinals of completing segments, packets and times of first and of last octets.

    Messages start at the offsets `starts`; `bodies` and `sizes` are those of their last frames.
    """
    stops = bodies + np.minimum(sizes, context.end - bodies)  # the last body may be incomplete
    table = context.arrivals.table()
    _, packets, times = segments_at(table, starts)
    if edges.start is not None:
        packets[0], times[0] = edges.start.packet, edges.start.time
    orders, packet_ends, time_ends = segments_at(table, stops - 1)
    if stops[-1] <= context.arrivals.begin:
        packet_ends[-1], time_ends[-1] = edges.end.packet, edges.end.time
    return np.maximum(orders, context.settled), packets, times, packet_ends, time_ends


def _row_of_one(frames: FrameColumns, last: int, edges: Edges, context: Context) -> tuple[Int64, ...]:
    """Return the values of a single message: its first frame, then the five values of `_times`.

    Its last frame has the index `last`. This is fast for segments with one message.
    """
    stop = min(frames.bodies[last] + frames.sizes[last], context.end)
    start = edges.start if edges.start is not None else context.arrivals.at(frames.offsets[0])
    end = context.arrivals.at(stop - 1)
    order = max(end.ordinal, context.settled)
    if stop <= context.arrivals.begin:
        end = edges.end
    return tuple(np.array(((0,), (order,), (start.packet,), (start.time,), (end.packet,), (end.time,)), np.int64))


def frame_runs(runs: list[MessageTable], packets: array[int], times: array[int], context: Context) -> list[FrameTable]:
    """Return tables of the frames in the messages `runs`.

    `packets` and `times` are those of the frames' first octets.
    """
    made: list[FrameTable] = []
    done = 0
    for run in runs:
        count = len(run.offsets)
        whole = count - (int(run.bodies[-1]) + int(run.sizes[-1]) > context.end)
        frames, counts = slice(done, done + whole), run.last - run.first + 1
        done += count
        if whole:
            made.append(
                FrameTable(
                    senders=run.senders,
                    offsets=run.offsets[:whole],
                    bodies=run.bodies[:whole],
                    sizes=run.sizes[:whole],
                    flags=run.flags[:whole],
                    messages=run.offsets[run.first].repeat(counts)[:whole],
                    orders=run.orders.repeat(counts)[:whole],
                    packets=as_array(packets[frames]),
                    times=as_array(times[frames]),
                )
            )
    return made


def cut_large(table: MessageTable, limit: int) -> MessageTable:
    """Return the table with only the first octets of each message of more than `limit` octets."""
    if max([len(sender.data) for sender in table.senders]) <= limit:
        return table
    first, last = table.first, table.last
    sender_of = np.zeros(len(table), np.int64) if table.sender_of is None else table.sender_of.copy()
    ends = np.array([sender.end for sender in table.senders])[sender_of]
    lasts = np.minimum(table.sizes[last], ends - table.bodies[last])
    senders = [*table.senders]
    for row in np.flatnonzero(table.bodies[last] + lasts - table.offsets[first] > limit).tolist():
        if int(table.sizes[first[row] : last[row]].sum()) + int(lasts[row]) > limit:
            sender = table.sender_at(row)
            base = max(sender.base, int(table.offsets[first[row]]))
            sender_of[row] = len(senders)
            senders.append(sender._replace(base=base, data=sender.data[base - sender.base :][:HEAD_KEPT]))
    if len(senders) == len(table.senders):
        return table
    return replace(table, **used_senders(senders, sender_of))


def slices(context: Context, offsets: Int64) -> Iterator[tuple[Regime, str, int, int]]:
    """Divide rows into ranges with equal regime and confidence: yield (regime, confidence, low, high).

    The rows start at the stream offsets `offsets`; `high` is excluded.
    """
    doubtful = len(offsets)
    if context.doubtful is not None and context.confidence == "proven":
        doubtful = int(np.searchsorted(offsets, context.doubtful, "right"))
    for regime, low, high in regime_slices(context.regimes, offsets):
        if low < doubtful:
            yield regime, context.confidence, low, min(high, doubtful)
        if doubtful < high:
            yield regime, "likely", max(low, doubtful), high


def regime_slices(regimes: list[tuple[int, Regime]], offsets: Int64) -> Iterator[tuple[Regime, int, int]]:
    """Divide rows into ranges with equal regime: yield (regime, low, high).

    The rows start at the stream offsets `offsets`; `high` is excluded.
    """
    if len(regimes) == 1 or offsets[0] >= regimes[-1][0]:
        yield regimes[-1][1], 0, len(offsets)
        return
    places = np.searchsorted(offsets, [offset for offset, _ in regimes[1:]], "left").tolist()
    low = 0
    for (_, regime), high in zip(regimes, [*places, len(offsets)], strict=True):
        if high > low:
            yield regime, low, high
            low = high


def as_array(column: array[int]) -> Int64:
    """Return a column as an array over the same memory; the column must not grow afterwards."""
    return np.frombuffer(column, np.int64) if column else np.empty(0, np.int64)


def columns_of(frames: FrameColumns) -> tuple[array[int], array[int], array[int], array[int]]:
    return frames.offsets, frames.bodies, frames.sizes, frames.flags
