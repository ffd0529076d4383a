"""Which reply answers which request: for many of them at once."""

from __future__ import annotations

import numpy as np

from zmtpscope.dissect.records.columns import Bool, Int64

NOBODY = -1


def newest_first(keys: Int64, is_reply: Bool) -> Int64:
    """The number of the request that each reply answers, `NOBODY` where there is none. Requests and replies stand in
    the order in which they came, and only those with equal keys belong together. The newest request is answered, once:
    whoever asks anew waits for the older ones no longer."""
    order = np.argsort(keys, kind="stable")
    replies = np.flatnonzero(is_reply[order])
    before = replies - 1
    fits = (before >= 0) & (keys[order[before]] == keys[order[replies]]) & ~is_reply[order[before]]
    return _numbers(len(keys), order[replies[fits]], order[before[fits]])


def oldest_first(keys: Int64, is_reply: Bool) -> Int64:
    """The same where the oldest request is answered first: whoever is asked keeps to the order."""
    order = np.argsort(keys, kind="stable")
    replies = is_reply[order]
    step = np.where(replies, -1, 1)
    is_first = np.append(True, np.diff(keys[order]) != 0)[: len(order)]
    group = np.cumsum(is_first) - 1
    # how many of a key are open, if replies to nobody closed something, too; that of each key lies below all in front
    floor = -group * (2 * len(order) + 1)
    open_ = np.cumsum(step)
    open_ += floor - (open_ - step)[is_first][group]
    # where it is lower than it ever was, somebody was answered who had not asked
    least = np.minimum.accumulate(np.minimum(open_, floor))
    least_before = np.where(is_first, floor, np.append(0, least)[:-1])
    is_asked = replies & (least == least_before)
    # the k-th of the other replies answers the k-th request
    place = np.cumsum(is_asked) - is_asked
    place -= place[is_first][group]
    requests, answers = (~replies).nonzero()[0], is_asked.nonzero()[0]
    begins = np.searchsorted(requests, is_first.nonzero()[0])
    return _numbers(len(keys), order[answers], order[requests[begins[group[answers]] + place[answers]]])


def asked_anew(keys: Int64, is_reply: Bool) -> Int64:
    """The number of the next request behind each request, where that comes before a reply; `NOBODY` for all others."""
    order = np.argsort(keys, kind="stable")
    here, behind = order[:-1], order[1:]
    fits = (keys[here] == keys[behind]) & ~is_reply[here] & ~is_reply[behind]
    return _numbers(len(keys), here[fits], behind[fits])


def _numbers(count: int, places: Int64, values: Int64) -> Int64:
    found = np.full(count, NOBODY, np.int64)
    found[places] = values
    return found
