"""Whether somebody may know what rides inside the messages of turns (`payload_rows.py` asks whom)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zmtpscope.dissect.lane.turns import Messages, Turn
from zmtpscope.dissect.records.batch import MessageRun
from zmtpscope.dissect.records.payload_rows import PayloadRows
from zmtpscope.dissect.records.row_contents import contents, plain_texts, shapes_of_rows

Bool = NDArray[np.bool_]


def passed_by(turns: list[Turn], messages: Messages) -> tuple[Bool, Bool | None]:
    """Of which turns nobody is to be asked about any message, and, where that is asked for, which messages are plain
    text."""
    sides = [turn.side.payloads if turn.side.judge is None else None for turn in turns]
    asks = np.array([each is not None and each.wants_rows for each in sides])
    asks_for_text = np.array([each is not None and each.side.asks_for_text for each in sides])
    one = next((each for each in sides if each is not None and (each.wants_rows or each.recognises_text)), None)
    if one is None:
        return np.ones(len(turns), np.bool_), None
    return _passed_by(turns, messages, one, asks, asks_for_text)


def _passed_by(
    turns: list[Turn], messages: Messages, payloads: PayloadRows, asks: Bool, asks_for_text: Bool
) -> tuple[Bool, Bool | None]:
    """The same, where `asks` says of turns whether anybody is asked; `payloads` are those of one of them."""
    run = _joined(turns, messages)
    first, last, starts, known = contents(run, payloads.limit)
    claimable = known & payloads.side.shapes.claimable(shapes_of_rows(payloads.side.shapes, run, first, last, starts))
    texts = plain_texts(run, first, last, starts, known) if payloads.recognises_text else None
    others = ~known if texts is None else ~(known & texts)
    is_claimed, has_others = messages.any_of(~known | claimable), messages.any_of(others)
    return ~(asks & is_claimed | asks_for_text & has_others), texts


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
