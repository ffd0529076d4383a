"""Texts for rules: names of peers, durations, counts. Text of peers stays escaped (`to_text`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from zmtpscope.diagnosis.observers.durations import median
from zmtpscope.diagnosis.observers.observed import Endpoint, ObservedConnection
from zmtpscope.records import MILLISECOND, SECOND, from_text, to_text
from zmtpscope.words import counted, host_port, how_many_times

MIN_CADENCE = 3
"""Number of times that are enough to show a rhythm."""
LARGEST_DEVIATION = 0.25
"""Largest deviation of an interval from the median, as a fraction of it."""


def address(endpoint: Endpoint) -> str:
    """Write an endpoint: `10.0.0.1:5555` or `[::1]:5555`."""
    return host_port(*endpoint)


def client_name(connection: ObservedConnection, *, with_port: bool = False) -> str:
    """Name a client: `DEALER "worker-1" 10.0.0.2`."""
    side = connection.client
    node = zre_node(side.identity)
    identity = f"ZRE {node}" if node else f'"{shown(side.identity)}"' if side.identity else None
    words = [None if node else side.socket_type, identity, address((side.ip, side.port)) if with_port else side.ip]
    return " ".join(word for word in words if word)


def server_name(connection: ObservedConnection) -> str:
    """Name a server: `PUB 10.0.0.1:5556`."""
    side = connection.server
    return " ".join(word for word in (side.socket_type, address(connection.endpoint)) if word)


def name_of(connection: ObservedConnection, side: int) -> str:
    return server_name(connection) if side == connection.listener else client_name(connection)


End = tuple[ObservedConnection, int]


def names_of(*ends: End) -> list[str]:
    """Return names for several peers of one sentence. Clients that would have the same name also get their ports."""
    names = [name_of(connection, side) for connection, side in ends]
    return [
        client_name(connection, with_port=True) if side != connection.listener and names.count(name) > 1 else name
        for name, (connection, side) in zip(names, ends, strict=True)
    ]


def duration(ns: float) -> str:
    """Write a duration: `37 ms`, `2.3 s` or `1.5 min`."""
    if ns >= 120 * SECOND:
        return f"{ns / SECOND / 60:.3g} min"
    return f"{ns / SECOND:.3g} s" if ns >= SECOND else f"{ns / MILLISECOND:.3g} ms"


def steady(values: Sequence[int], largest_deviation: float = LARGEST_DEVIATION) -> int | None:
    """Return the median if all values are close to it, otherwise None."""
    if not values:
        return None
    usual = median(values)
    return int(usual) if all(abs(value - usual) <= usual * largest_deviation for value in values) else None


def cadence(times: Sequence[int]) -> int | None:
    """Return the usual interval (ns) of events at the ascending `times`, or None if they are not regular."""
    if len(times) < MIN_CADENCE:
        return None
    return steady([later - sooner for sooner, later in pairwise(times)])


def how_often(times: Sequence[int], count: int | None = None, last_ns: int = 0) -> str:
    """Describe how often events occurred: `once` or `3 times in 90 s, every 30.1 s`.

    If `times` (ns) contains only some of the events, `count` is the number of all, and `last_ns` the time of the last.
    """
    count = len(times) if count is None else count
    if count == 1 or not times:
        return how_many_times(count)
    ordered = sorted(times)
    span = max(ordered[-1], last_ns) - ordered[0]
    rhythm = cadence(ordered) if count == len(times) else None
    every = "" if rhythm is None else f", every {duration(rhythm)}"
    return f"{count} times in {duration(span)}{every}" if span else f"{count} times"


def repeated(times: Sequence[int], count: int | None = None, last_ns: int = 0) -> str:
    """Return the text of `how_often`, to append to a sentence, or "" for a single event."""
    return f", {how_often(times, count, last_ns)}" if (len(times) if count is None else count) > 1 else ""


def same_on(others: int, noun: str = "other connection") -> str:
    """Describe how many further connections have the same problem: `; the same on 2 other connections`, or
    "" for none."""
    return f"; the same on {counted(others, noun)}" if others else ""


LONGEST_NAME = 40
"""Characters of a topic or identity in a sentence."""

ZRE_IDENTITY, ZRE_SHOWN = 17, 6
"""Length of a ZRE node's identity, 01 and a UUID (36/ZRE), and its digits in a sentence."""

MAX_ESCAPED = 4
"""Escaped octets to show of a topic or identity; more are not readable."""

CHARACTERS = re.compile(r"\\x[0-9a-f]{2}|\\\\|.", re.DOTALL)
"""A character of `to_text`, or the escape of an octet."""

MAX_TOPICS_NAMED = 10


def zre_node(identity: str | None) -> str | None:
    """Return the first digits of the UUID in the identity of a ZRE node; None if the peer is no ZRE node."""
    octets = from_text(identity) if identity and identity.startswith("\x01") else b""
    return octets[1:].hex()[:ZRE_SHOWN].upper() if len(octets) == ZRE_IDENTITY else None


def shown(text: str) -> str:
    """Shorten a topic or identity for a sentence; `…` replaces the rest."""
    found, escaped = "", 0
    for match in CHARACTERS.finditer(text):
        escaped += len(match[0]) == 4 or not match[0].isprintable()
        if escaped > MAX_ESCAPED or len(found) >= LONGEST_NAME:
            return found + "…"
        found += match[0]
    return found


def topic_name(topic: bytes | None) -> str:
    if not topic:
        return '"" (everything)' if topic is not None else "an unknown topic"
    return f'"{shown(to_text(topic))}"'


def of_topics(topics: Sequence[bytes]) -> str:
    names = [topic_name(topic) for topic in topics[:MAX_TOPICS_NAMED]]
    more = len(topics) - len(names)
    if more:
        return f"{', '.join(names)} and {counted(more, 'topic')} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
