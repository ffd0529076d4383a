"""Evaluate filter conditions on packed columns without unpacking them, once for equal values.

Conditions on connections are evaluated once for each sender in a batch, conditions on topics once for each distinct
topic.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from zmtpscope.filter.conditions import (
    Compared,
    Condition,
    Either,
    Every,
    FieldOperand,
    Inverted,
    IsThere,
    OneOf,
    Predicate,
    bounds,
)
from zmtpscope.filter.fields import CAPTURE_START, FilterField
from zmtpscope.filter.rows import Rows
from zmtpscope.records import to_text
from zmtpscope.store.chunk import NUMBER_OF, Chunk
from zmtpscope.store.columns import OF_RUNS, StoredRecords, StoredRows, StoredRuns, StoredStreams
from zmtpscope.store.packed import Bool, Packed
from zmtpscope.store.record_tables import OF_STREAM, REST
from zmtpscope.store.rows import PackedRows

Decision = bool | Bool
"""Whether all rows match a condition (or none), or which rows do."""

SIZES = ("size", "sizes", "frame_sizes", "zmtp.length")
"""The size of the only frame, if each row has one frame."""

NUMBERS = {"ts_ns": "times", "packet": "packets", "parts": "counts"}
"""Row columns that hold a field unchanged; packet references do only with a single file."""

STREAM_FIELDS = frozenset(OF_STREAM)

TEXTS = {name: frozenset(("record", *names)) for name, names in REST.items()}
"""Fields that are kept together, by record type."""

Memory = dict[tuple[int, str, object], bool]
"""Results of conditions (by id) for topics and for texts of records (by place). Valid while the conditions exist,
and only for conditions that read no other field."""


class OfStreams:
    """Results of conditions on fields of connections, for the connections of a chunk, shared by all record types."""

    def __init__(self, chunk: Chunk, start: int | None) -> None:
        self._chunk = chunk
        self._start = start
        self._known: dict[tuple[int, bool], Bool] = {}

    def that_fulfil(self, condition: Condition, type: str) -> Bool:
        """Return a mask of the connections and flows that fulfil a condition on their fields.

        `type` is the record type: some types lack the fields that only TCP or only UDP has.
        """
        key = id(condition), type == "datagram"
        if key not in self._known:
            streams = StoredStreams(self._chunk, NUMBER_OF[type])
            self._known[key] = Rows(streams, self._start).that_fulfil(condition)
        return self._known[key]


class Narrow:
    """Evaluates conditions on packed columns.

    `start` is the time of the first packet of the capture, if known.
    """

    def __init__(
        self, columns: StoredRows | StoredRecords, streams: OfStreams, start: int | None, memory: Memory
    ) -> None:
        self.columns = columns
        self.streams = streams
        self.start = start
        self.memory = memory

    def decide(self, condition: Condition) -> Decision | None:
        """Return which rows fulfil a condition; None if the packed columns do not contain its fields."""
        if isinstance(condition, Inverted):
            inner = self.decide(condition.of)
            return not inner if isinstance(inner, bool) else None if inner is None else ~inner
        if isinstance(condition, Every | Either):
            return self._joined(condition)
        reads = condition.reads
        if reads == {"record"}:
            return condition.holds({"record": self.columns.type})
        compared = condition if isinstance(condition, Compared) else None
        operand = compared.operand if compared is not None and isinstance(compared.operand, FieldOperand) else None
        if operand is not None and self.columns.type not in operand.field.records:
            return False
        if reads <= STREAM_FIELDS:
            return self._of_streams(condition)
        if not isinstance(self.columns, StoredRows):
            return self._of_texts(condition, self.columns) if reads <= TEXTS[self.columns.type] else None
        if reads <= OF_RUNS:
            return spread(self._runs.that_fulfil(condition), self.columns.table.run_of)
        if reads == {"topic"} and "topic" in self.columns.derive:
            return self._of_topics(condition, self.columns)
        if compared is not None and operand is not None and not operand.steps and operand.field.accept is None:
            return self._of_numbers(operand.field, compared.predicate, self.columns)
        return None

    def _joined(self, condition: Every | Either) -> Decision | None:
        decides = isinstance(condition, Either)
        decisions = []
        for part in condition.parts:
            decision = self.decide(part)
            if decision is decides:
                return decides
            decisions.append(decision)
        found: Decision = not decides
        for each in decisions:
            if each is None:
                return None
            if not isinstance(each, bool):
                found = each if isinstance(found, bool) else found | each if decides else found & each
        return found

    def _of_streams(self, condition: Condition) -> Decision:
        table = self.columns.table
        of_runs = spread(self.streams.that_fulfil(condition, self.columns.type), table.streams)
        return (
            of_runs if isinstance(of_runs, bool) or not isinstance(table, PackedRows) else spread(of_runs, table.run_of)
        )

    def _of_texts(self, condition: Condition, columns: StoredRecords) -> Decision:
        """Return which records fulfil a condition on stored texts.

        Equal texts are stored once, so each is tested once.
        """
        places, first, which = np.unique(columns.table.places.all(), return_index=True, return_inverse=True)
        fits = []
        for place, record in zip(places.tolist(), first.tolist(), strict=True):
            known = self.memory.get(key := (id(condition), columns.type, place))
            if known is None:
                known = self.memory[key] = condition.holds(columns.values(record))
            fits.append(known)
        return spread(np.array(fits, np.bool_), Packed(0, len(which), which))

    @cached_property
    def _runs(self) -> Rows:
        assert isinstance(self.columns, StoredRows)
        return Rows(StoredRuns(self.columns), self.start)

    def _of_topics(self, condition: Condition, columns: StoredRows) -> Decision:
        topics = columns.table.topics
        assert topics is not None
        assert topics.texts is not None
        fits = []
        for text in topics.texts:
            known = self.memory.get(key := (id(condition), columns.type, text))
            if known is None:
                topic = None if text is None else to_text(text)
                known = self.memory[key] = condition.holds({"record": columns.type, "topic": topic})
            fits.append(known)
        return spread(np.array(fits, np.bool_), topics.codes)

    def _of_numbers(self, field: FilterField, predicate: Predicate, columns: StoredRows) -> Decision | None:
        table = columns.table
        packed, shift = None, 0
        if CAPTURE_START in field.reads:
            if self.start is None:
                return False
            packed, shift = table.rows["times"], self.start
        elif field.name in SIZES:
            packed = table.frames["sizes"] if len(table.frames["sizes"]) == len(table) else None
        elif field.reads[0] in NUMBERS and (field.reads[0] != "packet" or len(columns.files) == 1):
            packed = table.rows.get(NUMBERS[field.reads[0]])
        fits = None if packed is None else fitting(packed, predicate, shift)
        if fits is None or fits is False or columns.type != "message" or columns.are_open:
            return fits
        if packed is table.rows["times"] or packed is table.rows["packets"]:
            return fits
        return columns.is_open if fits is True else columns.is_open & fits  # others have no known size


def spread(fits: Bool, codes: Packed) -> Decision:
    """Return the element of `fits` at each of the indexes `codes`."""
    count = np.count_nonzero(fits)
    if count in (0, len(fits)):
        return bool(count)
    if codes.more is None:
        return bool(fits[codes.base])
    of_rows: Bool = fits[codes.base :][codes.more]
    return of_rows


def fitting(packed: Packed, predicate: Predicate, shift: int) -> Decision | None:
    """Return which of the numbers, after subtracting `shift`, fit a predicate.

    None if the predicate does not test numbers.
    """
    if isinstance(predicate, IsThere):
        return True
    if isinstance(predicate, OneOf):
        found: Decision = False
        for each in predicate.predicates:
            fits = fitting(packed, each, shift)
            if fits is None or fits is True:
                return fits
            if fits is not False:
                found = fits if found is False else found | fits
        return found
    interval = bounds(predicate)
    if interval is None:
        return None
    low, high, is_inverted = interval
    inside = _between(packed, None if low is None else low + shift, None if high is None else high + shift)
    return inside if not is_inverted else not inside if isinstance(inside, bool) else ~inside


def _between(packed: Packed, low: int | None, high: int | None) -> Decision:
    more = packed.more
    most = 0 if more is None else int(np.iinfo(more.dtype).max)
    first = 0 if low is None else low - packed.base
    last = most if high is None else high - packed.base
    if first > last or first > most or last < 0:
        return False
    if more is None or (first <= 0 and last >= most):
        return True
    if first <= 0:
        return more <= last
    if last >= most:
        return more >= first
    return more == first if first == last else (more >= first) & (more <= last)
