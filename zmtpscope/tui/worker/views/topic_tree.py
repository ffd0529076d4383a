"""Topics as a tree, by the separator of their levels, such as `.` or `/`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from zmtpscope.grouping import grouped

SEPARATORS = (b"/", b".", b":", b"|")
"""Separators of topic levels, likelier ones first."""

MIN_SHARE = 0.5
"""Minimum share of topics that contain the separator."""


class Node(NamedTuple):
    """A topic, or a group of topics that begin with `prefix`, which ends with a separator.

    `label` is the name without the prefix of the parent.
    """

    label: bytes
    prefix: bytes
    topics: Sequence[bytes]

    @property
    def is_group(self) -> bool:
        return len(self.topics) > 1


def separator_of(topics: Sequence[bytes]) -> bytes | None:
    """Return the separator that most topics contain after parts that several share, or None."""
    best, separator = 0, None
    for sign in SEPARATORS:
        having = [topic for topic in topics if sign in topic[:-1]]
        shared = len(having) - len({topic.split(sign, 1)[0] for topic in having})
        if len(having) >= MIN_SHARE * len(topics) and shared > best:
            best, separator = shared, sign
    return separator


def nodes_of(topics: Sequence[bytes], separator: bytes | None, prefix: bytes = b"") -> list[Node]:
    """Return the nodes of one level of the tree, from sorted topics that start with `prefix`.

    A group contains several topics, and its prefix is the longest that they share.
    """
    if separator is None:
        return [Node(topic, topic, [topic]) for topic in topics]
    nodes = []
    heads = (b"".join(topic[len(prefix) :].partition(separator)[:2]) for topic in topics)
    for head, members in grouped(zip(heads, topics, strict=True)).items():
        begin = members[0]
        if len(members) > 1:
            same = _shared(members[0], members[-1])
            begin = same[: same.rindex(separator) + 1] if separator in head else prefix + head
        nodes.append(Node(begin[len(prefix) :], begin, members))
    return nodes


def _shared(one: bytes, other: bytes) -> bytes:
    different = (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return one[: next(different, min(len(one), len(other)))]
