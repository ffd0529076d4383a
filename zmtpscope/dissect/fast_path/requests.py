"""Connections on which requests and replies alternate: a REQ asks, a REP or ROUTER replies, the REQ asks again.

While they alternate there is nothing to report, and `findings/requests.py` needs only to know whether a request waits
for its reply. A few columns decide this, so such connections stay on the fast path.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zmtpscope.dissect.fast_path.carrying_rows import CarryingRows
from zmtpscope.dissect.fast_path.segment_runs import Messages, differences
from zmtpscope.dissect.fast_path.side_states import SideStates
from zmtpscope.dissect.fast_path.sides import REPLIES
from zmtpscope.dissect.records.columns import Bool, Int64


class Alternating(NamedTuple):
    """Connections on which requests and replies alternate in a block, by slot of side 0.

    `waits`: a request has no reply at the end of the block. `asked_in` is the packet with the end of the last request,
    or `NONE`.
    """

    slots: Int64
    waits: Bool
    asked_in: Int64

    def waiting(self, slots: Int64, side_states: SideStates) -> Bool:
        """Return which of the connections with these slots have a request without a reply at the end of the block."""
        found: Bool = side_states.waits[slots] != 0
        if len(self.slots):
            places = np.minimum(self.slots.searchsorted(slots), len(self.slots) - 1)
            has_messages = self.slots[places] == slots
            found[has_messages] = self.waits[places[has_messages]]
        return found


NONE = 0
"""Stands for a missing packet."""


def alternating(messages: Messages, carrying: CarryingRows) -> tuple[Alternating, Int64]:
    """Return the connections on which requests and replies alternate in this block, and the slots of all others.

    Each message must begin with its delimiter, without addresses (wire.md 10.1).
    """
    side_states = messages.runs.side_states
    roles = side_states.role[messages.slots]
    run_of = messages.spread(np.arange(len(roles)))
    which = (roles[run_of] != 0).nonzero()[0]
    if not len(which):
        nothing = np.empty(0, np.int64)
        return Alternating(nothing, nothing > 0, nothing), nothing
    run_of, first, last = run_of[which], messages.first[which], messages.last[which]
    ends = messages.bodies[last] + messages.sizes[last] + carrying.shifts[messages.directions[run_of]]
    decided, packets, _ = carrying.segments_at(ends - 1)
    of_messages = messages.slots[run_of] & ~1
    in_order = np.lexsort((decided, of_messages))
    of_messages, packets = of_messages[in_order], packets[in_order]
    is_reply = roles[run_of][in_order] == REPLIES
    begins = np.ones(len(of_messages) + 1, np.bool_)
    begins[1:-1] = of_messages[1:] != of_messages[:-1]
    edges = begins.nonzero()[0]
    slots, counts = of_messages[edges[:-1]], differences(edges)
    places = np.arange(len(of_messages)) - edges[:-1].repeat(counts)
    waited = side_states.waits[slots]
    is_wrong = is_reply != ((places + waited.repeat(counts)) % 2 == 1)
    is_wrong |= ((messages.sizes[first] > 0) | (first == last))[in_order]
    fits = ~np.logical_or.reduceat(is_wrong, edges[:-1])
    waits = (counts + waited) % 2 == 1
    ends = edges[1:] - 1
    last_request = np.where(waits, ends, np.maximum(ends - 1, edges[:-1]))
    asked_in = np.where(is_reply[last_request], NONE, packets[last_request])
    return Alternating(slots[fits], waits[fits], asked_in[fits]), slots[~fits]


def remember(these: Alternating, side_states: SideStates) -> None:
    side_states.waits[these.slots] = these.waits
    asked = these.asked_in != NONE
    side_states.asked_in[these.slots[asked]] = these.asked_in[asked]
