"""Pack messages and frames without their octets, and restore them as tables.

Rows and frames are in record order. A run is the rows of one sender in a batch; the fields that they share are stored
once for each run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from zmtpscope.dissect import FrameTable, MessageTable
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.columns import numbers
from zmtpscope.dissect.records.message_columns import JSON_INSIDE, NO_TOPIC, OTHER_INSIDE, TEXT_INSIDE, MessageColumns
from zmtpscope.dissect.records.row_columns import FrameRowColumns
from zmtpscope.dissect.records.tables import FRAME_COLUMNS, Sender, used_senders
from zmtpscope.payloads.dissected import Dissected
from zmtpscope.store.keeping import IN_FILES, Kept
from zmtpscope.store.packed import Columns, Int64, Packed
from zmtpscope.store.streams import Words
from zmtpscope.store.topics import Topics
from zmtpscope.zmtp.events import CANCEL, MARKED, SUBSCRIBE

SHARED = ("regime", "confidence", "version", "socket_type", "peer_socket_type")
"""Fields that the rows of a run share, besides the stream."""

NEAR = 4096
"""Octets between two messages of a run that are read together."""

MARKS = {0: b"", SUBSCRIBE: b"\1", CANCEL: b"\0"}
"""The octet before a topic, by the marks in the frame flags."""


@dataclass(slots=True)
class Payloads(Columns):
    """The payloads of messages, in order: offset and size in the spool (a temporary file), and protocol.

    Messages without a payload are left out.
    """

    places: Packed
    sizes: Packed
    protocols: Words


@dataclass(slots=True)
class PackedRows(Columns):
    """Packed messages or frames.

    `runs` has a value for each run (the rows of one sender in a batch), `streams` the number of its connection, and
    `run_of` the run of each row. Frames have no `payloads` and no `topics`.
    """

    streams: Packed
    shared: Words
    runs: dict[str, Packed]
    """`ends`, `bases`, number (`kept`) and place of the kept octets, offset of the first frame."""
    run_of: Packed
    rows: dict[str, Packed]
    """`packet_delays` and `time_delays` are the differences from the first octet to the last, `counts` is the number of
    frames; of frames, `messages` is the distance from the start of the message."""
    frames: dict[str, Packed]
    """`offsets` count from the first frame of the run; `headers` are header sizes."""
    payloads: Payloads | None
    topics: Topics | None

    def __len__(self) -> int:
        return len(self.run_of)

    @property
    def times(self) -> Int64:
        return self.rows["times"].all()

    def first_frames(self) -> Int64 | None:
        """Return the index of the first frame of each row, and the end of the last; None if each row is one frame."""
        counts = self.rows.get("counts")
        if counts is None or (counts.more is None and counts.base == 1):
            return None
        return np.append(0, np.cumsum(counts.all()))

    def payload_places(self) -> Int64:
        """Return for each row the index of its payload in `payloads`; meaningless for a row without one."""
        has: Int64 = np.cumsum(self.rows["inside"].all() == OTHER_INSIDE)
        return has - 1


def pack_messages(
    columns: MessageColumns, streams: Sequence[int], places: Sequence[int], keep: Callable[[Dissected], tuple[int, int]]
) -> PackedRows:
    """Pack messages.

    `streams` and `places` are, for each sender, the number of its connection and the spool offset of its octets. `keep`
    stores a dissected payload and returns its spool offset and size.
    """
    made = [columns.made.of(row) for row in np.flatnonzero(columns.inside == OTHER_INSIDE).tolist()]
    kept = np.array([keep(each) for each in made if each is not None], np.int64).reshape(-1, 2)
    packets, times = columns.joined("packets"), columns.joined("times")
    counts = columns.counts_in_tables
    in_runs = {
        "complete": columns.joined("complete"),
        "orders": columns.joined("orders"),
        "packets": packets,
        "times": times,
        "packet_delays": columns.joined("packet_ends") - packets,
        "time_delays": columns.joined("time_ends") - times,
        "counts": counts,
    }
    rows = {name: Packed.of(column).at(columns.places) for name, column in in_runs.items()}
    are_single = len(columns.sizes) == len(columns)
    frames = columns.places if are_single else numbers(columns.first, columns.counts)
    return PackedRows(
        **_runs_and_frames(columns, streams, places, frames),
        rows=rows | {"inside": Packed.of(columns.inside)},
        payloads=Payloads(
            Packed.of(kept[:, 0]),
            Packed.of(kept[:, 1]),
            Words.of(each.protocol for each in made if each is not None),
        ),
        topics=Topics.of(columns.topic().octets, columns.topic_sizes),
    )


def pack_frames(columns: FrameRowColumns, streams: Sequence[int], places: Sequence[int]) -> PackedRows:
    in_runs = {name: columns.joined(name) for name in ("orders", "packets", "times")}
    in_runs["messages"] = columns.offsets - columns.joined("messages")
    return PackedRows(
        **_runs_and_frames(columns, streams, places, columns.places),
        rows={name: Packed.of(column).at(columns.places) for name, column in in_runs.items()},
        payloads=None,
        topics=None,
    )


def _runs_and_frames(
    columns: MessageColumns | FrameRowColumns, streams: Sequence[int], places: Sequence[int], frames: Int64
) -> dict[str, Any]:
    """Return the columns of runs (the rows of one sender), and the columns of `frames` in record order.

    `streams` and `places` are, for each run, the number of its connection and the spool offset of its octets. Columns
    are packed before they are reordered, because narrow ones move faster.
    """
    senders, sender_of = columns.senders, columns.frame_senders
    first_offsets = np.zeros(len(senders), np.int64)
    first_offsets[sender_of[::-1]] = columns.offsets[::-1]
    of_runs = {
        "ends": [sender.end for sender in senders],
        "bases": [sender.base for sender in senders],
        "kept": [len(sender.data) for sender in senders],
        "places": places,
        "first_offsets": first_offsets,
    }
    of_frames = {
        "offsets": columns.offsets - first_offsets[sender_of],
        "headers": columns.bodies - columns.offsets,
        "sizes": columns.sizes,
        "flags": columns.flags,
    }
    return {
        "streams": Packed.of(np.array(streams, np.int64)),
        "shared": Words.of(tuple(getattr(sender, name) for name in SHARED) for sender in senders),
        "runs": {name: Packed.of(np.array(values, np.int64)) for name, values in of_runs.items()},
        "run_of": Packed.of(columns.sender_of),
        "frames": {name: Packed.of(column).at(frames) for name, column in of_frames.items()},
    }


def join_rows(parts: Sequence[PackedRows], stream_begins: Sequence[int]) -> PackedRows:
    run_begins = np.cumsum([0, *(len(part.streams) for part in parts[:-1])])
    return PackedRows.joined(parts, streams=stream_begins, run_of=run_begins.tolist())


class Unpacked:
    """Rows of `packed` at the ascending indexes `places`, sorted by sender, with the columns of their frames."""

    def __init__(self, packed: PackedRows, places: Int64) -> None:
        self.packed = packed
        run_of = packed.run_of.take(places)
        order = run_of.argsort(kind="stable")
        self.places = places[order]
        self.run_of = run_of[order]
        first = packed.first_frames()
        if first is None:
            self.counts = np.ones(len(places), np.int64)
            frames = self.places
        else:
            self.counts = first[self.places + 1] - first[self.places]
            frames = numbers(first[self.places], self.counts)
        runs = self.run_of if first is None else self.run_of.repeat(self.counts)
        self.offsets = packed.frames["offsets"].take(frames) + packed.runs["first_offsets"].take(runs)
        self.bodies = self.offsets + packed.frames["headers"].take(frames)
        self.sizes = packed.frames["sizes"].take(frames)
        self.flags = packed.frames["flags"].take(frames)
        self.ends = np.cumsum(self.counts)
        """Ends of the last frame of each row."""

    def row(self, name: str) -> Int64:
        return self.packed.rows[name].take(self.places)

    def runs(self, stream_of: Callable[[int], Stream], source: Kept) -> Iterator[tuple[Sender, slice, bool]]:
        """Yield the rows of each sender in parts: (sender with octets, slice of rows, whether its octets are
        available).

        `stream_of` returns the connection with a number; `source` reads octets. Rows are divided at gaps of more than
        `NEAR` octets.
        """
        packed = self.packed
        first = self.ends - self.counts
        last = self.ends - 1
        ends = packed.runs["ends"].take(self.run_of)
        begins = self.offsets[first]
        stops = self.bodies[last] + np.minimum(self.sizes[last], np.maximum(ends - self.bodies[last], 0))
        apart = np.ones(len(self.places), np.bool_)
        apart[1:] = (self.run_of[1:] != self.run_of[:-1]) | (begins[1:] - stops[:-1] > NEAR)
        cuts = np.append(np.flatnonzero(apart), len(self.places)).tolist()
        for low, high in pairwise(cuts):
            run = int(self.run_of[low])
            stream = stream_of(packed.streams[run])
            base, kept = packed.runs["bases"][run], packed.runs["kept"][run]
            start = min(max(int(begins[low]), base), base + kept)
            stop = max(start, min(int(stops[high - 1]), base + kept))
            place = packed.runs["places"][run]
            place += start - base if place != IN_FILES else 0
            data = source.octets(stream, place, start, stop)
            sender = Sender(
                stream=stream,
                data=data or b"",
                base=start if data is not None else stop,
                end=packed.runs["ends"][run],
                pieces=source.pieces(stream, int(begins[low]), int(stops[high - 1])),
                **dict(zip(SHARED, packed.shared[run], strict=True)),
            )
            yield sender, slice(low, high), data is not None


def messages(packed: PackedRows, places: Int64, stream_of: Callable[[int], Stream], source: Kept) -> MessageTable:
    """Restore the messages at the ascending indexes `places`.

    `stream_of` returns the connection with a number; `source` reads octets and payloads.
    """
    rows = Unpacked(packed, places)
    assert packed.topics is not None
    assert packed.payloads is not None
    senders: list[Sender] = []
    sender_of, are_there = np.empty(len(places), np.int64), np.empty(len(places), np.bool_)
    for sender, some, is_there in rows.runs(stream_of, source):
        sender_of[some], are_there[some] = len(senders), is_there
        senders.append(sender)
    first = rows.ends - rows.counts
    topics = packed.topics.sizes(rows.places)
    gone, known = (topics >= 0) & ~are_there, packed.topics.texts
    topics = np.where(gone, NO_TOPIC, topics)
    if gone.any() and known is not None and source.wants_octets:  # only the topic is left of such a message
        codes = packed.topics.codes.take(rows.places)
        for row in np.flatnonzero(gone).tolist():
            frame, text = int(first[row]), known[codes[row]]
            if text is not None:
                data = MARKS[int(rows.flags[frame]) & MARKED] + text
                senders.append(senders[sender_of[row]]._replace(data=data, base=int(rows.bodies[frame])))
                sender_of[row], topics[row] = len(senders) - 1, len(text)
    inside = rows.row("inside")
    texts, others, json = inside == TEXT_INSIDE, inside == OTHER_INSIDE, (inside == JSON_INSIDE) & are_there
    payloads: list[Dissected | None] | None = None
    if others.any():
        found, which = packed.payloads, packed.payload_places()[rows.places].tolist()
        payloads = [
            source.made(found.places[place], found.sizes[place]) if has_result else None
            for place, has_result in zip(which, others.tolist(), strict=True)
        ]
    packets, times = rows.row("packets"), rows.row("times")
    return MessageTable(
        **used_senders(senders, sender_of),
        offsets=rows.offsets,
        bodies=rows.bodies,
        sizes=rows.sizes,
        flags=rows.flags,
        first=first,
        last=rows.ends - 1,
        complete=rows.row("complete").astype(np.bool_),
        orders=rows.row("orders"),
        packets=packets,
        times=times,
        packet_ends=packets + rows.row("packet_delays"),
        time_ends=times + rows.row("time_delays"),
        payloads=payloads,
        texts=texts if texts.any() else None,
        json=json if json.any() else None,
        topics=topics if (topics != NO_TOPIC).any() else None,
    )


def frame_runs(packed: PackedRows, places: Int64, stream_of: Callable[[int], Stream], source: Kept) -> list[FrameTable]:
    """Restore the frames at the ascending indexes `places`.

    `stream_of` returns the connection with a number; `source` reads octets.
    """
    rows = Unpacked(packed, places)
    columns: dict[str, Any] = {name: rows.row(name) for name in ("orders", "packets", "times")}
    columns["messages"] = rows.offsets - rows.row("messages")
    columns |= {name: getattr(rows, name) for name in FRAME_COLUMNS}
    return [
        FrameTable(senders=[sender], **{name: column[some] for name, column in columns.items()})
        for sender, some, _ in rows.runs(stream_of, source)
    ]
