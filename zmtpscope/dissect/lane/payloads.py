"""Whether somebody may know what rides inside the messages of turns (`payload_rows.py` asks whom)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zmtpscope.dissect.lane.sides import LaneSide
from zmtpscope.dissect.lane.turns import Messages
from zmtpscope.dissect.records.batch import Int64, MessageRun
from zmtpscope.dissect.records.columns import Bool
from zmtpscope.dissect.records.message_columns import behind_envelopes
from zmtpscope.dissect.records.payload_rows import PayloadRows
from zmtpscope.dissect.records.row_contents import contents_from, plain_texts, shapes_of_rows
from zmtpscope.payloads.side import MOST_UNCLAIMED


def passed_by(messages: Messages, sides: Sequence[LaneSide], asked: PayloadRows) -> tuple[Bool, Bool | None]:
    """Of which turns, of these sides, nobody is to be asked about any message, and, where that is asked for, which
    messages are plain text. `asked` are those who are asked about a new side."""
    remembered, slots = messages.turns.remembered, messages.slots
    asks = remembered.unclaimed[slots] <= MOST_UNCLAIMED
    asks_for_text = remembered.asks_for_text[slots] != 0
    asks_about_all = np.zeros(len(slots), np.bool_)
    for turn in remembered.is_judged[slots].nonzero()[0].tolist():
        payloads = sides[turn].payloads
        asks[turn] = payloads is not None and payloads.wants_rows
        asks_for_text[turn] = payloads is not None and payloads.side.asks_for_text
        asks_about_all[turn] = payloads is not None and payloads.asks_about_all
    if not (asks.any() or asks_about_all.any() or asked.recognises_text):
        return np.ones(len(slots), np.bool_), None
    run = _joined(messages, sides[0])
    first, last, starts, known = contents_from(run, _content_frames(messages), asked.limit)
    claimable = asked.side.shapes.claimable(shapes_of_rows(asked.side.shapes, run, first, last, starts))
    texts = plain_texts(run, first, last, starts, known) if asked.recognises_text else None
    others = ~known if texts is None else ~(known & texts)
    is_claimed, has_others = messages.any_of(~known | claimable), messages.any_of(others)
    return ~(asks_about_all | asks & is_claimed | asks_for_text & has_others), texts


def _content_frames(messages: Messages) -> Int64:
    """The first frame of each message that is no address, delimiter, topic or group."""
    content: Int64 = messages.first
    remembered, slots = messages.turns.remembered, messages.slots
    is_enveloped = remembered.is_enveloped[slots]
    if is_enveloped.any():
        behind = behind_envelopes(messages.sizes, messages.first, messages.last)
        content = np.where(messages.spread(is_enveloped), behind, content)
    is_grouped = remembered.is_grouped[slots]
    if is_grouped.any():
        second = np.minimum(messages.first + 1, messages.last)
        content = np.where(messages.spread(is_grouped), second, content)
    return content


def _joined(messages: Messages, side: LaneSide) -> MessageRun:
    """The messages of all turns as one run, as if they were of this side: their octets are those of the turns, one
    behind the other."""
    turns = messages.turns
    lengths = np.array([0, *map(len, turns.data)])
    shifts = lengths.cumsum()[:-1] - (messages.ends - lengths[1:])
    shift = shifts.repeat(np.diff(messages.frame_edges))
    data, none = b"".join(turns.data), messages.first
    return MessageRun(
        stream=side.stream,
        regime=side.regime,
        confidence=side.confidence,
        data=data,
        base=0,
        offsets=messages.offsets + shift,
        bodies=messages.bodies + shift,
        sizes=messages.sizes,
        flags=messages.flags,
        end=len(data),
        pieces=None,
        version=None,
        socket_type=None,
        peer_socket_type=None,
        first=messages.first,
        last=messages.last,
        complete=np.ones(len(messages.first), np.bool_),
        orders=none,
        packets=none,
        times=none,
        packet_ends=none,
        time_ends=none,
    )
