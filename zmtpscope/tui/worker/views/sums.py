"""Sums of messages by sender."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from zmtpscope.store.counting import CountedMessages, Sender


class Sum(NamedTuple):
    """The messages of one sender. Times are in nanoseconds since the epoch."""

    sender: Sender
    messages: int
    octets: int
    first_ns: int
    last_ns: int


def sums_of(messages: CountedMessages) -> Iterator[Sum]:
    count = len(messages.senders)
    counts = np.bincount(messages.sender_of, minlength=count)
    by_sender = np.argsort(messages.sender_of, kind="stable")
    begins = np.cumsum(counts) - counts
    octets, times = messages.octets[by_sender], messages.times[by_sender]
    columns = (
        counts,
        np.add.reduceat(octets, begins),
        np.minimum.reduceat(times, begins),
        np.maximum.reduceat(times, begins),
    )
    yield from map(Sum, messages.senders, *(column.tolist() for column in columns))
