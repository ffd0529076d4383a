"""Messages that a publisher sends to whom has subscribed to them: as long as each begins with a topic that is in force
there is nothing to say of them, nor to remember.

So connections of which these topics are known and few stay in the lane without being judged, while the subscriber says
nothing. What begins with none of them is released, and judged in the ordinary way (`records/topics.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zmtpscope.dissect.lane.sides import LaneSide
from zmtpscope.dissect.lane.turns import Messages
from zmtpscope.dissect.records.batch import Int64
from zmtpscope.dissect.records.message_columns import NO_TOPIC
from zmtpscope.dissect.records.topics import LARGEST_TOPIC, Names, longest_names


def published(messages: Messages, sides: Sequence[LaneSide]) -> tuple[Int64, Int64]:
    """Look for the topics of what publishers have sent; `sides` are those of the turns. Octets of the topic of each
    message, as `MessageRun.topics` has them, and the slots of those that sent what begins with no topic in force. Of
    messages of these sides all octets are there (`LaneSide.keeps`)."""
    groups: dict[Names, list[int]] = {}
    for turn, side in enumerate(sides):
        if side.subscribed:
            groups.setdefault(side.subscribed, []).append(turn)
    topics = np.full(len(messages), NO_TOPIC)
    if not groups:
        return topics, messages.slots[:0]
    is_wrong = np.zeros(len(messages), np.bool_)
    data, shifts = messages.joined
    for names, turns in groups.items():
        chosen = np.zeros(len(sides), np.bool_)
        chosen[turns] = True
        rows = messages.spread(chosen).nonzero()[0]
        frames = messages.first[rows]
        starts, sizes = messages.bodies[frames] + shifts[frames], np.minimum(messages.sizes[frames], LARGEST_TOPIC)
        found = longest_names(names, data, starts, sizes)
        is_wrong[rows] = found == NO_TOPIC
        is_single = messages.last[rows] == frames
        of_frames = np.where(messages.sizes[frames] <= LARGEST_TOPIC, sizes, NO_TOPIC)
        topics[rows] = np.where(is_single, found, of_frames)
    return topics, messages.slots[messages.any_of(is_wrong)]
