"""Group the messages of a run by topic."""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

import numpy as np

from zmtpscope import compiled
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.dissect.records.tables import MessageTable
from zmtpscope.dissect.records.topic_words import LONGEST_TOPIC


class TopicKey(NamedTuple):
    """A topic, up to `LONGEST_TOPIC` octets; None if unknown.

    If `is_frame`, the topic is the first of several frames. Otherwise it is the longest subscription that a
    single-frame message begins with, so another subscriber may have the same messages under another topic.
    """

    topic: bytes | None
    is_frame: bool


UNKNOWN = TopicKey(None, False)


class TopicRows(NamedTuple):
    key: TopicKey
    rows: Int64
    octets: int
    """Captured octets in all frames, without headers."""
    complete: int
    times: Int64
    """Start times in order, each at least as late as all earlier ones in the run."""


@compiled.where_possible
def by_topic(run: MessageTable, latest_ns: int) -> list[TopicRows]:
    """Group a publisher's messages by topic, in order of appearance. Earlier messages have times up to `latest_ns`."""
    rows_of: dict[TopicKey, list[int]] = {}
    for row in range(len(run.first)):
        topic = run.topic(row)
        key = UNKNOWN if topic is None else TopicKey(topic[:LONGEST_TOPIC], bool(run.last[row] > run.first[row]))
        rows_of.setdefault(key, []).append(row)
    times = [*accumulate(run.times.tolist(), max, initial=latest_ns)][1:]
    sizes, frames = run.sizes.tolist(), [*zip(run.first.tolist(), run.last.tolist(), strict=True)]
    sizes[-1] = min(sizes[-1], max(0, run.end - int(run.bodies[-1])))  # the last body may be incomplete
    return [
        TopicRows(
            key,
            np.array(rows, np.int64),
            sum(sum(sizes[first : last + 1]) for first, last in map(frames.__getitem__, rows)),
            int(run.complete[rows].sum()),
            np.array([times[row] for row in rows], np.int64),
        )
        for key, rows in rows_of.items()
    ]
