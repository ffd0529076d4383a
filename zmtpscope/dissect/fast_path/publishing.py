"""Compare published messages with the subscriptions of the other side.

A connection with few, known subscriptions stays on the fast path while all messages match and the subscriber sends
nothing. A message without a matching subscription releases the connection, and `records/topics.py` checks the message.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zmtpscope.dissect.fast_path.segment_runs import Messages
from zmtpscope.dissect.fast_path.sides import PlainSide
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.dissect.records.message_columns import NO_TOPIC
from zmtpscope.dissect.records.topics import LARGEST_TOPIC, Names, longest_names


def published(messages: Messages, sides: Sequence[PlainSide]) -> tuple[Int64, Int64]:
    """Compare the messages of publishers with subscriptions.

    Returns the topic size of each message, as in `MessageTable.topics`, and the slots of sides with unmatched messages.
    All octets of these messages must be available (`PlainSide.keeps`).
    """
    groups: dict[Names, list[int]] = {}
    for run, side in enumerate(sides):
        if side.subscribed:
            groups.setdefault(side.subscribed, []).append(run)
    topics = np.full(len(messages), NO_TOPIC)
    if not groups:
        return topics, messages.slots[:0]
    is_wrong = np.zeros(len(messages), np.bool_)
    data, shifts = messages.joined
    for names, runs in groups.items():
        chosen = np.zeros(len(sides), np.bool_)
        chosen[runs] = True
        rows = messages.spread(chosen).nonzero()[0]
        frames = messages.first[rows]
        starts, sizes = messages.bodies[frames] + shifts[frames], np.minimum(messages.sizes[frames], LARGEST_TOPIC)
        found = longest_names(names, data, starts, sizes)
        is_wrong[rows] = found == NO_TOPIC
        is_single = messages.last[rows] == frames
        of_frames = np.where(messages.sizes[frames] <= LARGEST_TOPIC, sizes, NO_TOPIC)
        topics[rows] = np.where(is_single, found, of_frames)
    return topics, messages.slots[messages.any_of(is_wrong)]
