"""Whether somebody may know what rides inside the messages of turns (`payload_rows.py` asks whom)."""

from __future__ import annotations

import numpy as np

from zmtpscope.dissect.lane.turns import Messages, Turn
from zmtpscope.dissect.records.batch import Int64, MessageRun
from zmtpscope.dissect.records.columns import Bool
from zmtpscope.dissect.records.message_columns import GROUPED, REQUESTERS, behind_envelopes
from zmtpscope.dissect.records.row_contents import contents_from, plain_texts, shapes_of_rows


def passed_by(turns: list[Turn], messages: Messages) -> tuple[Bool, Bool | None]:
    """Of which turns nobody is to be asked about any message, and, where that is asked for, which messages are plain
    text."""
    sides = [turn.side.payloads for turn in turns]
    asks = np.array([each is not None and each.wants_rows for each in sides])
    asks_for_text = np.array([each is not None and each.side.asks_for_text for each in sides])
    one = next((each for each in sides if each is not None and (each.wants_rows or each.recognises_text)), None)
    if one is None:
        return np.ones(len(turns), np.bool_), None
    run = _joined(turns, messages)
    first, last, starts, known = contents_from(run, _content_frames(turns, messages), one.limit)
    claimable = one.side.shapes.claimable(shapes_of_rows(one.side.shapes, run, first, last, starts))
    texts = plain_texts(run, first, last, starts, known) if one.recognises_text else None
    others = ~known if texts is None else ~(known & texts)
    is_claimed, has_others = messages.any_of(~known | claimable), messages.any_of(others)
    asks_about_all = np.array([each is not None and each.asks_about_all for each in sides])
    return ~(asks_about_all | asks & is_claimed | asks_for_text & has_others), texts


def _content_frames(turns: list[Turn], messages: Messages) -> Int64:
    """The first frame of each message that is no address, delimiter, topic or group."""
    content: Int64 = messages.first
    types = [(turn.side.regime.socket_type, turn.side.peer_socket_type) for turn in turns]
    is_enveloped = [not REQUESTERS.isdisjoint(each) for each in types]
    if any(is_enveloped):
        behind = behind_envelopes(messages.sizes, messages.first, messages.last)
        content = np.where(messages.spread(is_enveloped), behind, content)
    is_grouped = [socket_type in GROUPED for socket_type, _ in types]
    if any(is_grouped):
        second = np.minimum(messages.first + 1, messages.last)
        content = np.where(messages.spread(is_grouped), second, content)
    return content


def _joined(turns: list[Turn], messages: Messages) -> MessageRun:
    """The messages of all turns as one run, whose octets are those of the turns, one behind the other."""
    sizes = np.array([0, *(len(turn.data) for turn in turns)]).cumsum()[:-1]
    shifts = sizes - np.array([turn.base for turn in turns])
    shift = shifts.repeat(np.diff(messages.frame_edges))
    side, data, none = turns[0].side, b"".join([turn.data for turn in turns]), messages.first
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
