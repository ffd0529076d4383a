"""Decide which messages of a block need a payload dissector; `records/payload_rows.py` calls the dissectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.connection.message_rows import FOLLOWED
from zmtpscope.dissect.fast_path.segment_runs import Messages, cumulated, differences
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.columns import Bool, Int64
from zmtpscope.dissect.records.message_columns import content_among
from zmtpscope.dissect.records.payload_rows import PayloadRows, SideFacts
from zmtpscope.dissect.records.row_contents import (
    are_json,
    claimable_behind,
    contents_from,
    plain_texts,
    shapes_of_rows,
)
from zmtpscope.dissect.records.tables import MessageTable, Sender
from zmtpscope.payloads.shapes import Candidates, Shapes
from zmtpscope.payloads.side import MAX_UNCLAIMED
from zmtpscope.zmtp.reader import Finding
from zmtpscope.zmtp.regime import Framing, Phase, regime

NOBODY = Stream(None, "", None, "", 0, "", 0)
ANY_REGIME = regime(Framing.V2, None, None, Phase.TRAFFIC)
"""The regime of joined rows: decisions here do not depend on it."""


class Claims:
    """Messages for which dissectors need not read anything, but their claims have an effect on later messages.

    `runs` is a mask of the sides that have such messages, `rows` are the indexes of the messages. `frames` are their
    only content frames, with octets in `table`; `of_rows` are their shapes (`payloads/shapes.py`).
    """

    def __init__(
        self,
        messages: Messages,
        runs: Bool,
        table: MessageTable,
        rows: Int64,
        frames: Int64,
        shapes: Shapes,
        of_rows: Int64,
    ) -> None:
        self.runs = runs
        self.messages, self.rows, self.shapes, self.of_rows = messages, rows, shapes, of_rows
        self.edges: list[int] = rows.searchsorted(messages.edges).tolist()
        """Run k has the messages `edges[k]` up to `edges[k + 1]`."""
        self.data, self.starts, self.sizes = table.data, table.bodies[frames], table.sizes[frames]

    def take(self, run: int, payloads: PayloadRows) -> None:
        """Pass the messages of one side, which has the index `run`, to its payload state."""
        messages, low, high = self.messages, self.edges[run], self.edges[run + 1]
        places: list[int] = (self.rows[low:high] - messages.edges[run]).tolist()
        last = int(messages.offsets[messages.first[self.rows[high - 1]]])
        payloads.take_claims(int(messages.counts.messages[run]), places, partial(self._message, low), last)

    def _message(self, low: int, which: int) -> tuple[Candidates, bytes]:
        """Return the candidate dissectors and the content frame of message `which`; 0 is the message `low`."""
        start = int(self.starts[low + which])
        octets = self.data[start : start + int(self.sizes[low + which])]
        return self.shapes.candidates(int(self.of_rows[low + which])), octets


class JsonMessages:
    """JSON messages that need no dissection; `rows` is a mask of all messages.

    `runs` is a mask of the sides with such messages, on which no other message can be claimed, or a claim has no
    effect.
    """

    def __init__(self, messages: Messages, rows: Bool, runs: Bool) -> None:
        self.runs = runs
        edges, sums = messages.edges, cumulated(messages.sizes)
        octets = np.where(rows, sums[messages.last + 1] - sums[messages.first], 0)
        last = messages.last_of(rows)
        # by run
        self._octets: list[int] = differences(cumulated(octets)[edges]).tolist()
        self._behind: list[int] = (edges[1:] - 1 - last).tolist()
        self._begins: list[int] = messages.offsets[messages.first[last]].tolist()

    def take(self, run: int, payloads: PayloadRows) -> None:
        """Pass the JSON messages of one side, which has the index `run`, to its payload state."""
        payloads.take_json(self._octets[run], self._behind[run], self._begins[run])


class Inside(NamedTuple):
    undissected: Bool
    """Mask of the runs whose messages need no dissection."""
    is_followed: Bool
    """Mask of the runs with messages that a dissector may claim which needs both sides."""
    texts: Bool | None
    """Mask of the messages that are plain text, if requested."""
    json: Bool | None
    """Mask of the messages that are JSON, if there are any."""
    claimed: Sequence[Claims | JsonMessages]
    """Claims that were decided without dissection."""


def nothing_inside(runs: int) -> Inside:
    return Inside(np.ones(runs, np.bool_), np.zeros(runs, np.bool_), None, None, ())


def look_inside(
    messages: Messages, socket_types: list[str | None], payloads: Mapping[int, PayloadRows], asked: PayloadRows
) -> Inside:
    """Decide which messages need a payload dissector.

    `socket_types` are the types of the sending sides. `payloads` is the payload state of sides by slot (index in
    `SideStates`); `asked` is the state for all other sides.
    """
    side_states, slots = messages.runs.side_states, messages.slots
    unclaimed = side_states.unclaimed[slots]
    asks = unclaimed <= MAX_UNCLAIMED
    asks_for_text = np.full(len(slots), asked.side.asks_for_text)
    asks_about_all = np.zeros(len(slots), np.bool_)
    for run, slot in enumerate(slots.tolist()) if payloads else ():
        each = payloads.get(slot)
        if each is not None:
            asks[run], asks_for_text[run] = each.wants_rows, each.side.asks_for_text
            asks_about_all[run], unclaimed[run] = each.asks_about_all, each.side.unclaimed
    judging = np.array([not asked.options.reads_payloads(each) for each in socket_types])
    asks_for_text &= ~judging
    wants_texts = asked.recognises_text and not judging.all()
    if not (asks.any() or asks_about_all.any() or wants_texts):
        return nothing_inside(len(slots))._replace(is_followed=asks_about_all)
    table, shapes = _joined(messages), asked.side.shapes
    first, last, starts, known = contents_from(table, _content_frames(messages), asked.limit)
    first_of = messages.spread(map(shapes.first_of, socket_types))
    of_rows = shapes_of_rows(shapes, first_of, table, first, last, starts)
    claimable = shapes.claimable(of_rows) | claimable_behind(shapes, table, first, last)
    texts = plain_texts(table, first, last, starts, known) if wants_texts else None
    judged = messages.spread(judging) != 0
    only_claimed = shapes.only_claimed(of_rows) & (first == last) & judged
    may_be_json = known & (first == last) & shapes.only_json[of_rows] & (messages.spread(asks) != 0)
    if judging.any():  # only the last claim counts
        may_be_json &= ~judged | _are_last(messages, claimable)
    json = _are_json(table, starts, may_be_json & asked.side.recognises_json)
    texts = None if texts is None else texts & ~json
    plain = known & (json if texts is None else json | texts)
    has_unknown, has_others = messages.any_of(~known), asks_for_text & messages.any_of(~plain)
    is_json = asks & messages.any_of(json) & (unclaimed + messages.count_of(~json) <= MAX_UNCLAIMED)
    is_json &= ~(asks_about_all | has_unknown | has_others | messages.any_of(claimable & ~(json | only_claimed)))
    is_asked = has_unknown | messages.any_of(claimable & ~only_claimed)
    undissected = is_json | ~(asks_about_all | asks & is_asked | has_others)
    is_claimed, claimed = undissected & ~is_json & asks & messages.any_of(only_claimed), list[Claims | JsonMessages]()
    if is_claimed.any():
        rows = (only_claimed & messages.spread(is_claimed)).nonzero()[0]
        claimed.append(Claims(messages, is_claimed, table, rows, first[rows], shapes, of_rows[rows]))
    if is_json.any():
        claimed.append(JsonMessages(messages, json, is_json))
    is_followed = asks_about_all | messages.any_of(claimable & _may_be_followed(shapes, of_rows, claimable))
    return Inside(undissected, is_followed, texts, json if is_json.any() else None, claimed)


def _are_last(messages: Messages, chosen: Bool) -> Bool:
    """Return which of the chosen messages are the last ones of their sides."""
    last = np.zeros_like(chosen)
    last[messages.last_of(chosen) if chosen.any() else []] = True
    return last


def _are_json(table: MessageTable, starts: Int64, candidates: Bool) -> Bool:
    """Return which of the candidates, messages of one content frame, are JSON.

    Their content frames start at the indexes `starts`.
    """
    json, rows = np.zeros_like(candidates), candidates.nonzero()[0]
    if len(rows):
        json[rows] = are_json(table.data, starts[rows], table.sizes[table.last[rows]])
    return json


def _may_be_followed(shapes: Shapes, of_rows: Int64, claimable: Bool) -> Bool:
    """Return which messages may be claimed by a dissector that needs the messages of both sides.

    `of_rows` are the shapes of all messages, `claimable` is which of them any dissector may claim.
    """
    found = [
        shape
        for shape in np.flatnonzero(np.bincount(of_rows[claimable])).tolist()
        if any(each.name in FOLLOWED for each in shapes.candidates(shape).dissectors)
    ]
    chosen: Bool = np.isin(of_rows, found) if found else np.zeros(len(of_rows), np.bool_)
    return chosen


def ask(payloads: PayloadRows, table: MessageTable, facts: SideFacts) -> Iterator[tuple[Arrival, Finding, int]]:
    """Call the dissectors for the messages of a table.

    Yields (arrival of the message, finding, stream offset of the message).
    """
    payloads.take(table, facts)
    for row, made in enumerate(table.payloads or ()):
        if made is not None and made.findings:
            arrival = Arrival(int(table.orders[row]), int(table.packets[row]), int(table.times[row]))
            for finding in made.findings:
                yield arrival, finding, int(table.offsets[table.first[row]])


def _content_frames(messages: Messages) -> Int64:
    """Return the first content frame of each message: after addresses and delimiter, or after topic or group."""
    side_states, slots = messages.runs.side_states, messages.slots
    enveloped, grouped = (
        messages.spread(each[slots]) != 0 for each in (side_states.is_enveloped, side_states.is_grouped)
    )
    return content_among(messages.sizes, messages.first, messages.last, enveloped, grouped)


def _joined(messages: Messages) -> MessageTable:
    """Return the messages of all sides as one table with joined octets, as if one side had sent them."""
    (data, shift), none = messages.joined, messages.first
    return MessageTable(
        senders=[Sender(NOBODY, ANY_REGIME, "proven", data, 0, len(data))],
        offsets=messages.offsets + shift,
        bodies=messages.bodies + shift,
        sizes=messages.sizes,
        flags=messages.flags,
        first=messages.first,
        last=messages.last,
        complete=np.ones(len(messages.first), np.bool_),
        orders=none,
        packets=none,
        times=none,
        packet_ends=none,
        time_ends=none,
    )
