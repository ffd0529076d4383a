"""Requests and replies that alternate: a REQ asks, a REP or ROUTER replies, and it asks again.

As long as they do there is nothing to say of them, and nothing that `findings/requests.py` would remember behind a
reply. So it takes two looks at columns to let a connection of them stay in the lane.
"""

from __future__ import annotations

import numpy as np

from zmtpscope.dissect.lane.arrived import Arrived
from zmtpscope.dissect.lane.sides import ASKS, REPLIES
from zmtpscope.dissect.lane.turns import Messages
from zmtpscope.dissect.records.batch import Int64

ROLES: dict[tuple[str | None, str | None], tuple[int, int]] = {
    ("REQ", "REP"): (ASKS, REPLIES),
    ("REQ", "ROUTER"): (ASKS, REPLIES),
    ("REP", "REQ"): (REPLIES, ASKS),
    ("ROUTER", "REQ"): (REPLIES, ASKS),
}
"""Who asks and who replies, by the socket types of both sides."""


def not_alternating(messages: Messages, arrived: Arrived) -> Int64:
    """The slots (of side 0) of connections on which requests and replies do not alternate in this block, which begins
    and ends behind a reply, each with its delimiter in front and nothing in front of that (wire.md 10.1)."""
    roles = messages.turns.remembered.role[messages.slots]
    turn_of = messages.spread(np.arange(len(roles)))
    which = (roles[turn_of] != 0).nonzero()[0]
    if not len(which):
        return np.empty(0, np.int64)
    turn_of, first, last = turn_of[which], messages.first[which], messages.last[which]
    ends = messages.bodies[last] + messages.sizes[last] + arrived.shifts[messages.directions[turn_of]]
    decided, _, _ = arrived.segments_at(ends - 1)
    connections = messages.slots[turn_of] & ~1
    in_order = np.lexsort((decided, connections))
    connections, is_reply = connections[in_order], roles[turn_of][in_order] == REPLIES
    begins = np.ones(len(connections) + 1, np.bool_)
    begins[1:-1] = connections[1:] != connections[:-1]
    edges = begins.nonzero()[0]
    counts = np.diff(edges)
    places = np.arange(len(connections)) - edges[:-1].repeat(counts)
    is_wrong = is_reply != (places % 2 == 1)
    is_wrong |= ((messages.sizes[first] > 0) | (first == last))[in_order]
    is_wrong[edges[1:] - 1] |= counts % 2 == 1
    found: Int64 = np.unique(connections[is_wrong])
    return found
