"""Alternating requests and replies: a REQ asks, a REP or ROUTER replies, and the REQ asks again.

While they alternate there is nothing to report, and `findings/requests.py` needs only to know whether a request waits
for its reply. A few columns decide this, so such connections stay in the lane.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zmtpscope.dissect.lane.arrived import Arrived
from zmtpscope.dissect.lane.sides import REPLIES
from zmtpscope.dissect.lane.slots import Slots
from zmtpscope.dissect.lane.turns import Messages, differences
from zmtpscope.dissect.records.columns import Bool, Int64


class Alternating(NamedTuple):
    """Connections with alternating requests and replies in a block, by the slot of side 0.

    `waits`: a request is open after the block. `asked_in` is the packet with the end of the last request, or `NONE`.
    """

    slots: Int64
    waits: Bool
    asked_in: Int64

    def waiting(self, slots: Int64, remembered: Slots) -> Bool:
        """Return a mask of these connections: a request is open after the block."""
        found: Bool = remembered.waits[slots] != 0
        if len(self.slots):
            places = np.minimum(self.slots.searchsorted(slots), len(self.slots) - 1)
            has_messages = self.slots[places] == slots
            found[has_messages] = self.waits[places[has_messages]]
        return found


NONE = 0
"""In place of a missing packet."""


def alternating(messages: Messages, arrived: Arrived) -> tuple[Alternating, Int64]:
    """Return the connections with alternating requests and replies in this block, and the slots of all others.

    Each message must begin with its delimiter, without addresses (wire.md 10.1).
    """
    remembered = messages.turns.remembered
    roles = remembered.role[messages.slots]
    turn_of = messages.spread(np.arange(len(roles)))
    which = (roles[turn_of] != 0).nonzero()[0]
    if not len(which):
        nothing = np.empty(0, np.int64)
        return Alternating(nothing, nothing > 0, nothing), nothing
    turn_of, first, last = turn_of[which], messages.first[which], messages.last[which]
    ends = messages.bodies[last] + messages.sizes[last] + arrived.shifts[messages.directions[turn_of]]
    decided, packets, _ = arrived.segments_at(ends - 1)
    of_messages = messages.slots[turn_of] & ~1
    in_order = np.lexsort((decided, of_messages))
    of_messages, packets = of_messages[in_order], packets[in_order]
    is_reply = roles[turn_of][in_order] == REPLIES
    begins = np.ones(len(of_messages) + 1, np.bool_)
    begins[1:-1] = of_messages[1:] != of_messages[:-1]
    edges = begins.nonzero()[0]
    slots, counts = of_messages[edges[:-1]], differences(edges)
    places = np.arange(len(of_messages)) - edges[:-1].repeat(counts)
    waited = remembered.waits[slots]
    is_wrong = is_reply != ((places + waited.repeat(counts)) % 2 == 1)
    is_wrong |= ((messages.sizes[first] > 0) | (first == last))[in_order]
    fits = ~np.logical_or.reduceat(is_wrong, edges[:-1])
    waits = (counts + waited) % 2 == 1
    ends = edges[1:] - 1
    last_request = np.where(waits, ends, np.maximum(ends - 1, edges[:-1]))
    asked_in = np.where(is_reply[last_request], NONE, packets[last_request])
    return Alternating(slots[fits], waits[fits], asked_in[fits]), slots[~fits]


def remember(these: Alternating, remembered: Slots) -> None:
    """Store the state after a block."""
    remembered.waits[these.slots] = these.waits
    asked = these.asked_in != NONE
    remembered.asked_in[these.slots[asked]] = these.asked_in[asked]
