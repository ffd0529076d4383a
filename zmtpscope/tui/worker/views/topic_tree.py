"""Topics as a tree: by the sign that separates their levels, if there is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

SEPARATORS = (b"/", b".", b":", b"|")
"""Signs that levels of topics are separated by, the likelier first."""

LEAST_SHARE = 0.5
"""So large a part of topics has to have the separator."""


class Node(NamedTuple):
    """A topic, or several that begin with `prefix`, the last octet of which is a separator. `label` is what stands
    behind the prefix of the node above it."""

    label: bytes
    prefix: bytes
    topics: Sequence[bytes]

    @property
    def is_group(self) -> bool:
        """Whether it is of several topics."""
        return len(self.topics) > 1


def separator_of(topics: Sequence[bytes]) -> bytes | None:
    """The sign by which topics make the best tree: most of them have it, and share what stands in front of it. None
    where no sign does that."""
    best, separator = 0, None
    for sign in SEPARATORS:
        having = [topic for topic in topics if sign in topic[:-1]]
        shared = len(having) - len({topic.split(sign, 1)[0] for topic in having})
        if len(having) >= LEAST_SHARE * len(topics) and shared > best:
            best, separator = shared, sign
    return separator


def nodes_of(topics: Sequence[bytes], separator: bytes | None, prefix: bytes = b"") -> list[Node]:
    """The nodes of one level: those of topics, which are sorted, that all begin with `prefix`. A group of one topic is
    that topic, and groups reach as far as all of their topics are the same."""
    if separator is None:
        return [Node(topic, topic, [topic]) for topic in topics]
    groups: dict[bytes, list[bytes]] = {}
    for topic in topics:
        head, sign, _ = topic[len(prefix) :].partition(separator)
        groups.setdefault(head + sign, []).append(topic)
    nodes = []
    for head, members in groups.items():
        begin = members[0]
        if len(members) > 1:
            same = _shared(members[0], members[-1])
            begin = same[: same.rindex(separator) + 1] if separator in head else prefix + head
        nodes.append(Node(begin[len(prefix) :], begin, members))
    return nodes


def _shared(one: bytes, other: bytes) -> bytes:
    """What both begin with."""
    different = (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return one[: next(different, min(len(one), len(other)))]
