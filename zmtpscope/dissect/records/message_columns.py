"""The columns of messages: every field of messages is derived here (docs/decisions/columns.md).

`octets` joins the kept octets of all senders. The body of frame j has `sizes[j]` octets; the first `held[j]` of them
were kept, at `octets[starts[j]:]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from zmtpscope.capture.segments import PACKET_MASK
from zmtpscope.dissect.options import Options
from zmtpscope.dissect.records.batch import Arrangement, Batch, rows_in_order
from zmtpscope.dissect.records.columns import (
    Bool,
    Booleans,
    Int64,
    Integers,
    Lists,
    Octets,
    Texts,
    Words,
    numbers,
)
from zmtpscope.dissect.records.row_columns import NOTHING, FrameRowColumns, RowColumns, common, word_of_sender
from zmtpscope.dissect.records.tables import HEAD_KEPT, FrameTable, MessageTable, Sender, table_and_row
from zmtpscope.payloads.dissected import Dissected
from zmtpscope.payloads.values import BETWEEN_FRAMES, LONGEST_SUMMARY, shortened
from zmtpscope.zmtp.events import CANCEL, ENCRYPTED, MARKED, SPECIAL, SUBSCRIBE
from zmtpscope.zmtp.socket_types import PUBLISHERS

KINDS = {0: "data", ENCRYPTED: "encrypted", SUBSCRIBE: "subscribe", CANCEL: "cancel"}
"""Kinds of messages by `SPECIAL` bits."""

REQUESTERS = frozenset({"REQ", "REP"})
GROUPED = PUBLISHERS | {"RADIO"}
"""Socket types whose messages of several frames begin with a topic or group."""

NO_TOPIC = -1
"""Stands for the offset of a missing topic."""

NOT_KEPT, HEAD_KEPT_ONLY, KEPT = range(3)
KEPT_WORDS = ("none", "head", "full")
"""Values of `bodies_kept`, by `NOT_KEPT`, `HEAD_KEPT_ONLY` and `KEPT`."""

NOTHING_INSIDE, TEXT_INSIDE, OTHER_INSIDE, JSON_INSIDE = range(4)
"""What a message contains: nothing that a dissector claims, plain text, a payload that a dissector has read, or JSON
that is parsed on first access."""

LONGEST_JSON = 4096
"""Octets of JSON parsed on first access. Larger JSON is parsed with its run."""

UNLIMITED = 2**64 - 1

DEFAULT = Options()


def is_enveloped(run: MessageTable | Sender) -> bool:
    """Return whether the frames before an empty frame are an envelope, by the socket types of both sides (wire.md
    10.1)."""
    return not REQUESTERS.isdisjoint((run.socket_type, run.peer_socket_type))


def delimiters(sizes: Int64, first: Int64, last: Int64) -> Int64:
    """Return the first empty frame of each message; its last frame if there is none.

    Message i has the frames `first[i]..last[i]`; `sizes` are those of all frames.
    """
    is_empty = sizes == 0
    empty = np.append(np.flatnonzero(is_empty), len(sizes))
    in_front = np.cumsum(is_empty) - is_empty
    found: Int64 = np.minimum(empty[in_front[first]], last)
    return found


def behind_envelopes(sizes: Int64, first: Int64, last: Int64) -> Int64:
    """Return the frame after the delimiter of each message; its first frame if it has no delimiter.

    Message i has the frames `first[i]..last[i]`; `sizes` are those of all frames.
    """
    if not sizes[first].any() and (first < last).all():  # as sent by REQ, and in most replies
        return first + 1
    delimiter = delimiters(sizes, first, last)
    found: Int64 = np.where(delimiter < last, delimiter + 1, first)
    return found


def after_empty(sizes: Int64, first: Int64, last: Int64) -> Int64:
    """Return the second frame of each message if the first one is empty and not the only one, otherwise the first.

    Applications with DEALER and ROUTER send delimiters themselves. Message i has the frames `first[i]..last[i]`;
    `sizes` are those of all frames.
    """
    found: Int64 = first + ((sizes[first] == 0) & (first < last))
    return found


def content_frames(run: MessageTable) -> Int64:
    """Return the first content frame of each message: after addresses and delimiter, or after topic or group."""
    if is_enveloped(run):
        return behind_envelopes(run.sizes, run.first, run.last)
    if run.socket_type in GROUPED:
        return np.minimum(run.first + 1, run.last)
    return after_empty(run.sizes, run.first, run.last)


def content_among(sizes: Int64, first: Int64, last: Int64, enveloped: Bool, grouped: Bool) -> Int64:
    """Return the first content frame of each message of many sides.

    Message i has the frames `first[i]..last[i]`; `sizes` are those of all frames. `enveloped`: the message has an
    envelope. `grouped`: its first frame is a topic or group.
    """
    content = after_empty(sizes, first, last)
    if grouped.any():
        content = np.where(grouped, np.minimum(first + 1, last), content)
    if enveloped.any():
        content = np.where(enveloped, behind_envelopes(sizes, first, last), content)
    return content


class Made(NamedTuple):
    """The payloads of messages, by row.

    It does not refer to the columns of the batch: the reference cycle would keep a batch until the garbage collector
    runs.
    """

    tables: Sequence[MessageTable]
    begins: list[int]
    places: Int64

    def of(self, row: int) -> Dissected | None:
        """Return the payload of a message, parsing JSON if necessary; None without a payload."""
        table, place = table_and_row(self.tables, self.begins, int(self.places[row]))
        return table.made(place)

    def tolist(self) -> list[Dissected | None]:
        """Return the payloads of all rows; None for JSON that is not parsed yet."""
        found = self.in_tables()
        return [found[place] for place in self.places.tolist()]

    def in_tables(self) -> list[Dissected | None]:
        """Return the payloads in the order of tables."""
        found: list[Dissected | None] = []
        for table in self.tables:
            found += [None] * len(table) if table.payloads is None else table.payloads
        return found


@dataclass(slots=True, eq=False)
class Payloads:
    """The field `payload` of each message: protocol, summary and fields.

    `texts` contains the frames with plain text or JSON, long ones truncated. `texts.index[row]` is the last frame of a
    message. The text of a message is in its last `counts[row]` frames.
    """

    inside: NDArray[np.int8]
    texts: Octets
    counts: Int64
    made: Made

    def __getitem__(self, row: int, /) -> dict[str, Any] | None:
        inside = self.inside[row]
        if inside == TEXT_INSIDE:
            return {"protocol": "text", "summary": self.text(row), "fields": None}
        made = None if inside == NOTHING_INSIDE else self.made.of(row)
        if made is None or not made.protocol:  # the dissector that claimed the message failed
            return None
        return {"protocol": made.protocol, "summary": made.summary, "fields": made.fields}

    def text(self, row: int) -> str:
        """Return the summary of a message of plain text."""
        texts, behind = self.texts, int(self.texts.index[row]) + 1
        frames = range(behind - int(self.counts[row]), behind)[:LONGEST_SUMMARY]
        places = [(int(texts.starts[frame]), int(texts.sizes[frame])) for frame in frames]
        parts = [texts.octets.slice(start, min(size, LONGEST_SUMMARY + 1)) for start, size in places]
        return shortened(BETWEEN_FRAMES.join([part.decode("ascii") for part in parts]))

    def tolist(self) -> list[dict[str, Any] | None]:
        return [self[row] for row in range(len(self.inside))]


class MessageColumns(RowColumns[MessageTable]):
    """The messages of several tables as columns. `options` only limit the body octets shown."""

    def __init__(
        self,
        tables: Sequence[MessageTable],
        places: Int64,
        files: Sequence[str | None] = (),
        options: Options = DEFAULT,
    ) -> None:
        super().__init__(tables, places, files)
        self.options = options

    @classmethod
    def of(cls, batch: Batch, options: Options = DEFAULT) -> Self:
        return cls(batch.messages, rows_in_order(batch.messages)[0], batch.files, options)

    @classmethod
    def of_arrangement(cls, order: Arrangement, files: Sequence[str | None], options: Options = DEFAULT) -> Self:
        return cls(order.tables, order.places, files, options)

    # -- arrays from which fields are derived --------------------------------------------------------------------------

    @cached_property
    def first_in_tables(self) -> Int64:
        """The first frame of each message, in the order of tables and of frames."""
        first = self.joined("first")
        if len(self.tables) <= 1:
            return first
        frames = np.cumsum([0, *(len(table.offsets) for table in self.tables[:-1])])
        joined: Int64 = first + frames.repeat([len(table) for table in self.tables])
        return joined

    @cached_property
    def counts_in_tables(self) -> Int64:
        counts: Int64 = np.diff(self.first_in_tables, append=len(self.sizes))
        return counts

    @cached_property
    def frame_senders(self) -> Int64:
        senders: Int64 = self.senders_in_tables
        return senders if len(senders) == len(self.sizes) else senders.repeat(self.counts_in_tables)

    @cached_property
    def first(self) -> Int64:
        return self.first_in_tables[self.places]

    @cached_property
    def last(self) -> Int64:
        return self.first + (self.counts - 1)

    @cached_property
    def counts(self) -> Int64:
        counts: Int64 = self.counts_in_tables[self.places]
        return counts

    @cached_property
    def special(self) -> Int64:
        special: Int64 = self.of_first_frames("flags") & SPECIAL
        return special

    @cached_property
    def is_open(self) -> Bool:
        is_open: Bool = self.special != ENCRYPTED
        return is_open

    @cached_property
    def is_kept(self) -> Bool:
        """Whether all octets of a message were kept, apart from empty frames at the end."""
        first, last = self.first, self.last
        is_kept: Bool = self.bodies[first] >= self.bases[first]
        is_kept &= self.sizes[last] <= self.stops[last] - self.bodies[last]
        return is_kept

    @cached_property
    def complete(self) -> Bool:
        return self.of_rows("complete")

    @cached_property
    def packet_ends(self) -> Int64:
        return self.of_rows("packet_ends")

    @cached_property
    def time_ends(self) -> Int64:
        return self.of_rows("time_ends")

    @cached_property
    def starts(self) -> Int64:
        if not self.is_kept.all():
            return super().starts
        shifts = self.octets.begins - self.of_each(lambda sender: sender.base)
        starts: Int64 = self.bodies + shifts[self.frame_senders]
        return starts

    @cached_property
    def held(self) -> Int64:
        """How many body octets of each frame were kept."""
        if self.is_kept.all():
            return self.sizes
        room = self.octets.ends[self.frame_senders] - self.starts
        return np.where(self.are_there, np.minimum(self.sizes, room), 0)

    def _totals(self, of_frames: NDArray[Any]) -> NDArray[np.uint64]:
        """Return the sum of a frame column for each message. Frames do not overlap, so sizes sum to less than 2^64."""
        edges = np.concatenate((np.zeros(1, np.uint64), np.cumsum(of_frames.astype(np.uint64))))
        totals: NDArray[np.uint64] = edges[self.last + 1] - edges[self.first]
        return totals

    @cached_property
    def body_octets(self) -> Int64:
        """The number of captured body octets of each message."""
        if not len(self):
            return NOTHING
        there = np.maximum(self.of_each(lambda sender: sender.end)[self.frame_senders] - self.bodies, 0)
        sizes = np.minimum(self.sizes, there)  # the last frame of a sender may be incomplete
        first = self.first_in_tables
        octets: Int64 = (sizes if len(first) == len(sizes) else np.add.reduceat(sizes, first))[self.places]
        return octets

    @cached_property
    def _shown(self) -> tuple[Int64, NDArray[np.int8]]:
        """For each frame, how many body octets are shown; for each row, how much of its bodies is shown (`kept`)."""
        options, lengths = self.options, self.held
        if options.bodies == "none":
            return lengths, np.zeros(len(self), np.int8)
        limit = min(options.body_limit, UNLIMITED)
        if options.bodies == "full" and (self.is_kept & (self.lengths <= limit)).all():
            return lengths, np.where(self.is_open, KEPT, NOT_KEPT).astype(np.int8)
        if options.bodies == "head":
            lengths = np.minimum(lengths, options.head)
        else:
            too_large = self._totals(self.sizes) > limit
            if too_large.any():
                lengths = lengths.copy()
                lengths[numbers(self.first[too_large], self.counts[too_large])] = 0
        is_whole = self._totals(self.are_there & (lengths == self.sizes)) == self.counts
        shown = np.where(is_whole, KEPT, np.where(self._totals(lengths) > 0, HEAD_KEPT_ONLY, NOT_KEPT))
        return lengths, np.where(self.is_open, shown, NOT_KEPT).astype(np.int8)

    @property
    def kept(self) -> NDArray[np.int8]:
        return self._shown[1]

    @cached_property
    def is_enveloped(self) -> Bool:
        """Whether each message has an envelope, by the socket types of both sides."""
        return self.of_senders(is_enveloped).astype(np.bool_)

    @cached_property
    def content(self) -> Int64:
        """The first content frame of each message: after addresses and delimiter, or after topic or group."""
        grouped = self.of_senders(lambda sender: sender.socket_type in GROUPED).astype(np.bool_)
        return content_among(self.sizes, self.first, self.last, self.is_enveloped, grouped)

    @cached_property
    def topic_sizes(self) -> Int64:
        return self._optional("topics", NO_TOPIC, np.int64)

    def _optional(self, name: str, nothing: int, type_: type) -> NDArray[Any]:
        """Return the row array `name`, with the value `nothing` for rows of tables that lack it."""
        columns = [getattr(table, name) for table in self.tables]
        if all(column is None for column in columns):
            return np.full(len(self), nothing, type_)
        rows = zip(self.tables, columns, strict=True)
        found = [np.full(len(table), nothing, type_) if column is None else column for table, column in rows]
        joined: NDArray[Any] = (found[0] if len(found) == 1 else np.concatenate(found))[self.places]
        return joined

    @cached_property
    def inside(self) -> NDArray[np.int8]:
        inside = np.zeros(len(self), np.int8)
        for kind, name in ((TEXT_INSIDE, "texts"), (JSON_INSIDE, "json")):
            inside[self._optional(name, False, np.bool_)] = kind
        if any(table.payloads is not None for table in self.tables):
            have_results = np.array([made is not None for made in self.made.in_tables()])
            inside[have_results[self.places]] = OTHER_INSIDE
        return inside

    @cached_property
    def made(self) -> Made:
        return Made(self.tables, self.begins, self.places)

    # -- fields ------------------------------------------------------------------------------------------------------

    def list_of_bodies(self) -> Lists:
        lengths, kept = self._shown
        known = kept != NOT_KEPT
        frames, edges = first_of(self.first, self.counts, known)
        return Lists(Octets(self.octets, self.starts, lengths, frames), edges, known)

    def envelope(self) -> Lists:
        """Return the frames before the delimiter of each message, if all of them were kept."""
        first = self.first
        if not self.is_enveloped.any():
            items = Octets(self.octets, NOTHING, NOTHING, NOTHING)
            return Lists(Texts(items), np.zeros(len(self) + 1, np.int64), np.zeros(len(self), np.bool_))
        delimiter = delimiters(self.sizes, first, self.last)
        known = self.is_enveloped & (self.special == 0) & (delimiter < self.last)
        behind = np.where(known, delimiter, first)
        known &= self.bodies[behind] - self.offsets[first] <= HEAD_KEPT
        if not self.is_kept.all():
            whole = np.append(0, np.cumsum(self.are_there & (self.held == self.sizes)))
            known &= whole[behind] - whole[first] == behind - first
        frames, edges = first_of(first, behind - first, known)
        return Lists(Texts(Octets(self.octets, self.starts, self.held, frames)), edges, known)

    def topic(self) -> Texts:
        """Return the topic of each message: the start of its first frame, after the mark of a subscription."""
        known = self.topic_sizes != NO_TOPIC
        if not known.any():
            return Texts(Octets(self.octets, NOTHING, NOTHING, np.zeros_like(self.places), known))
        first = self.first_in_tables
        sizes = np.zeros(len(first), np.int64)
        sizes[self.places[known]] = self.topic_sizes[known]
        mark = (self.flags[first] & MARKED) != 0
        starts = self.starts[first] + np.minimum(mark, self.held[first])
        return Texts(Octets(self.octets, starts, sizes, self.places, known))

    def payload(self) -> Payloads:
        """Return the payload of each message.

        At most `LONGEST_JSON` octets of a frame are read, enough for any summary.
        """
        texts = Octets(self.octets, self.starts, np.minimum(self.held, LONGEST_JSON), self.last)
        return Payloads(self.inside, texts, self.last - self.content + 1, self.made)


def columns_of_rows(batch: Batch, options: Options) -> RowColumns[Any] | None:
    """Return the columns of a batch of messages or frames; None for other record types."""
    if batch.messages:
        return MessageColumns.of(batch, options)
    return FrameRowColumns.of(batch) if batch.frames else None


def columns_of_table(table: MessageTable | FrameTable, files: Sequence[str | None] = ()) -> RowColumns[Any]:
    if isinstance(table, MessageTable):
        return MessageColumns.of_table(table, files)
    return FrameRowColumns.of_table(table, files)


def first_of(first: Int64, counts: Int64, known: Bool) -> tuple[Int64, Int64]:
    """Return the frames of the known messages, joined, and where those of each message start.

    Message i has `counts[i]` frames from `first[i]` on.
    """
    if not known.all():
        counts = np.where(known, counts, 0)
    return numbers(first, counts), np.append(0, np.cumsum(counts))


def list_of_sizes(columns: Any) -> Lists:
    frames, edges = first_of(columns.first, columns.counts, columns.is_open)
    return Lists(Integers(columns.sizes[frames]), edges, columns.is_open)


def kind(columns: Any) -> Words:
    codes = np.zeros(len(columns), np.int8)
    if columns.special.any():
        for code, bits in enumerate(KINDS):
            codes[columns.special == bits] = code
    return Words(list(KINDS.values()), codes)


MessageColumns.derive = {
    **common("message"),
    "parts": lambda columns: Integers(columns.counts, columns.is_open),
    "sizes": list_of_sizes,
    "bodies": MessageColumns.list_of_bodies,
    "bodies_kept": lambda columns: Words(KEPT_WORDS, columns.kept),
    "packet_end": lambda columns: Integers(columns.packet_ends & PACKET_MASK),
    "ts_end_ns": lambda columns: Integers(columns.time_ends),
    "version": word_of_sender("version"),
    "socket_type": word_of_sender("socket_type"),
    "peer_socket_type": word_of_sender("peer_socket_type"),
    "envelope": MessageColumns.envelope,
    "topic": lambda columns: columns.topic(),
    "kind": kind,
    "decrypted": lambda columns: Booleans(columns.of_regimes("opened").astype(np.bool_)),
    "payload": MessageColumns.payload,
    "complete": lambda columns: Booleans(columns.complete),
    "confidence": word_of_sender("confidence"),
}
