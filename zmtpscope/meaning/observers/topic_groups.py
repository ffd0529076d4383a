"""Which messages of a run have the same topic, many at a time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zmtpscope.dissect.records.batch import Int64, MessageRun
from zmtpscope.dissect.records.topic_words import LONGEST_TOPIC, WORD, mixed, words_of


class TopicKey(NamedTuple):
    """A topic, its first `LONGEST_TOPIC` octets; None where it is not known. `is_frame`: it is the first of several
    frames, as the publisher wrote it. Else it is the longest subscription that the only frame begins with, so that
    another subscriber may have the same messages under another topic."""

    topic: bytes | None
    is_frame: bool


UNKNOWN = TopicKey(None, False)


class TopicGroups(NamedTuple):
    """The messages `order[edges[i]:edges[i + 1]]` of a run have the topic `keys[i]`, and ascend."""

    keys: list[TopicKey]
    order: Int64
    edges: list[int]


def topic_groups(run: MessageRun) -> TopicGroups:
    """The messages of a run of a publisher, by topic."""
    count = len(run.first)
    if run.topics is None or int(run.topics.max()) < 0:
        return TopicGroups([UNKNOWN], np.arange(count), [0, count])
    sizes = np.minimum(run.topics, LONGEST_TOPIC)
    is_known = sizes >= 0
    seeds = np.where(is_known, sizes * 2 + (run.last > run.first), -1).astype(np.uint64)
    starts = np.where(is_known, run.bodies[run.first] - run.base, 0)
    number_of_words = -(-int(sizes.max()) // WORD)
    data, needed = run.data, int(starts.max()) + number_of_words * WORD
    if needed > len(data):
        data += bytes(needed - len(data))  # words are read whole
    columns = [seeds, *(words_of(data, starts, sizes, number_of_words) if number_of_words else ())]
    numbers = mixed(seeds, columns[1:])
    order = np.argsort(numbers, kind="stable")
    differs = _differs(columns, order)
    if (differs & (numbers[order][1:] == numbers[order][:-1])).any():  # different topics share a number
        order = np.lexsort(columns)
        differs = _differs(columns, order)
    edges = [0, *(np.flatnonzero(differs) + 1).tolist(), count]
    keys = [_key(run, int(row)) for row in order[edges[:-1]]]
    return TopicGroups(keys, order, edges)


def _differs(columns: list[np.ndarray[tuple[int], np.dtype[np.uint64]]], order: Int64) -> np.ndarray:
    differs = np.zeros(len(order) - 1, np.bool_)
    for column in columns:
        ordered = column[order]
        differs |= ordered[1:] != ordered[:-1]
    return differs


def _key(run: MessageRun, row: int) -> TopicKey:
    topic = run.topic(row)
    return UNKNOWN if topic is None else TopicKey(topic[:LONGEST_TOPIC], bool(run.last[row] > run.first[row]))
