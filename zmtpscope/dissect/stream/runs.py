"""Frames of messages as runs of rows: columns, cut where what they have in common changes."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.batch import HEAD_KEPT, FrameRun, Int64, MessageRun, Pieces
from zmtpscope.dissect.stream.arrivals import Arrivals, segments_at
from zmtpscope.zmtp.events import FrameColumns
from zmtpscope.zmtp.regime import Regime


@dataclass(slots=True, eq=False)
class Context:
    """What a side's rows share at the time they are made: octets from `base` on, arrivals up to `end`, and the rest."""

    data: bytes
    base: int
    end: int
    arrivals: Arrivals
    regimes: list[tuple[int, Regime]]
    version: str | None
    confidence: str
    doubtful: int | None
    """Rows behind this stream offset are no more than likely."""
    settled: int
    """No row was decidable before the segment with this ordinal."""
    pieces: Pieces | None
    seals: bool
    """MESSAGEs may be among the frames."""
    messages: bool
    """Whether message rows are wanted at all (else they are only counted)."""
    frames: bool
    limit: int
    """Octets of bodies up to which a message is kept whole; of a larger one `HEAD_KEPT` octets are."""


class Kept(NamedTuple):
    """Octets of a stream from `base` on, and how they came, where details were asked for."""

    data: bytes
    base: int
    pieces: Pieces | None


class Edges(NamedTuple):
    """What the columns of some messages do not say: of the first, and how the last octet came."""

    start: Arrival | None
    """The segment with the first octet of the first, where that came before what is read now."""
    end: Arrival
    """The segment with the last octet of the last, where it is not remembered otherwise any more."""
    is_damaged: bool
    """Octets of the first were lost."""
    is_uncertain: bool
    """What stood in front of the first is not known."""
    head: Kept | None
    """The octets of the first, where they are not held any more."""


def message_runs(
    stream: Stream, frames: FrameColumns, last: Int64, complete: bool, edges: Edges, context: Context
) -> list[MessageRun]:
    """Rows of the messages whose last frames are `last`; the first of them begins with the first of `frames`.
    `complete`: they are, but for what the edges say."""
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
    run = MessageRun(
        stream=stream,
        regime=regime,
        confidence=confidence,
        data=context.data,
        base=context.base,
        offsets=offsets,
        bodies=bodies,
        sizes=sizes,
        flags=flags,
        end=context.end,
        pieces=context.pieces,
        version=context.version,
        socket_type=regime.socket_type,
        peer_socket_type=None,
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
            each.regime, each.confidence, each.socket_type = regime, confidence, regime.socket_type
    if edges.head is not None or edges.is_uncertain:
        whole = runs[0]
        count = len(whole.first)
        head = whole.part(0, 1) if count > 1 else whole
        if edges.head is not None:
            head.data, head.base, head.pieces = edges.head
        if edges.is_uncertain:
            head.confidence = "likely"
        runs[:1] = [head, whole.part(1, count)] if count > 1 else [head]
    if max([len(run.data) for run in runs]) > context.limit:
        runs = [part for run in runs for part in cut_large(run, context.limit)]
    return runs


def _times(starts: Int64, bodies: Int64, sizes: Int64, edges: Edges, context: Context) -> tuple[Int64, ...]:
    """When messages came that begin at `starts`, and the last bodies of which are these: ordinals of the segments
    that made them decidable, packets and times of their first octets, packets and times of their last."""
    stops = bodies + np.minimum(sizes, context.end - bodies)  # the last body may be announced and not there
    table = context.arrivals.table()
    _, packets, times = segments_at(table, starts)
    if edges.start is not None:
        packets[0], times[0] = edges.start.packet, edges.start.time
    orders, packet_ends, time_ends = segments_at(table, stops - 1)
    if stops[-1] <= context.arrivals.begin:
        packet_ends[-1], time_ends[-1] = edges.end.packet, edges.end.time
    return np.maximum(orders, context.settled), packets, times, packet_ends, time_ends


def _row_of_one(frames: FrameColumns, last: int, edges: Edges, context: Context) -> tuple[Int64, ...]:
    """Its first frame, and the same, of one message up to the frame `last`: often a segment has no more,
    and this is quick."""
    stop = min(frames.bodies[last] + frames.sizes[last], context.end)
    start = edges.start if edges.start is not None else context.arrivals.at(frames.offsets[0])
    end = context.arrivals.at(stop - 1)
    order = max(end.ordinal, context.settled)
    if stop <= context.arrivals.begin:
        end = edges.end
    return tuple(np.array(((0,), (order,), (start.packet,), (start.time,), (end.packet,), (end.time,)), np.int64))


def frame_runs(runs: list[MessageRun], packets: array[int], times: array[int], context: Context) -> list[FrameRun]:
    """Frame rows of the messages in `runs`; `packets` and `times` are those of the first octets of their frames."""
    made: list[FrameRun] = []
    done = 0
    for run in runs:
        count = len(run.offsets)
        whole = count - (int(run.bodies[-1]) + int(run.sizes[-1]) > context.end)
        frames, counts = slice(done, done + whole), run.last - run.first + 1
        done += count
        if whole:
            made.append(
                FrameRun(
                    stream=run.stream,
                    regime=run.regime,
                    confidence=run.confidence,
                    data=run.data,
                    base=run.base,
                    offsets=run.offsets[:whole],
                    bodies=run.bodies[:whole],
                    sizes=run.sizes[:whole],
                    flags=run.flags[:whole],
                    end=run.end,
                    pieces=run.pieces,
                    messages=run.offsets[run.first].repeat(counts)[:whole],
                    orders=run.orders.repeat(counts)[:whole],
                    packets=as_array(packets[frames]),
                    times=as_array(times[frames]),
                )
            )
    return made


def cut_large(run: MessageRun, limit: int) -> Iterator[MessageRun]:
    """The run, each message of more than `limit` octets, which is not kept whole, as a run of its own, with its first
    octets."""
    if len(run.data) <= limit:
        yield run
        return
    lasts = np.minimum(run.sizes[run.last], run.end - run.bodies[run.last])
    done = 0
    for row in np.flatnonzero(run.bodies[run.last] + lasts - run.offsets[run.first] > limit).tolist():
        first, last = int(run.first[row]), int(run.last[row])
        if int(run.sizes[first:last].sum()) + int(lasts[row]) <= limit:
            continue
        if done < row:
            yield run.part(done, row)
        large, done = run.part(row, row + 1), row + 1
        large.base = max(run.base, int(large.offsets[0]))
        large.data = run.data[large.base - run.base :][:HEAD_KEPT]
        yield large
    if done < len(run.first):
        yield run.part(done, len(run.first)) if done else run


def slices(context: Context, offsets: Int64) -> Iterator[tuple[Regime, str, int, int]]:
    """(regime, confidence, low, high): what the units at `offsets[low:high]` have in common."""
    doubtful = len(offsets)
    if context.doubtful is not None and context.confidence == "proven":
        doubtful = int(np.searchsorted(offsets, context.doubtful, "right"))
    for regime, low, high in regime_slices(context.regimes, offsets):
        if low < doubtful:
            yield regime, context.confidence, low, min(high, doubtful)
        if doubtful < high:
            yield regime, "likely", max(low, doubtful), high


def regime_slices(regimes: list[tuple[int, Regime]], offsets: Int64) -> Iterator[tuple[Regime, int, int]]:
    """(regime, low, high): the units at `offsets[low:high]` stand under that regime."""
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
    """A column of the core as numpy sees it (no copy: the column must not grow afterwards)."""
    return np.frombuffer(column, np.int64) if column else np.empty(0, np.int64)


def columns_of(frames: FrameColumns) -> tuple[array[int], array[int], array[int], array[int]]:
    """Offsets, bodies, sizes and flags."""
    return frames.offsets, frames.bodies, frames.sizes, frames.flags
