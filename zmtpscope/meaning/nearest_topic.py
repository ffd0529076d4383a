"""Subscriptions that nearly match a topic: the usual mistakes, each in words."""

from __future__ import annotations

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from typing import NamedTuple

MOST_LOOKED_AT = 512
"""So many topics are compared."""

LONGEST_COMPARED = 128
"""Octets that are compared letter by letter."""

LIKE = 0.8
"""So much of two topics has to be equal where they are said to be spelt alike."""

BEHIND = {
    0x00: "a zero octet",
    0x09: "a tab",
    0x0A: "a line feed",
    0x0D: "a carriage return",
    0x20: "a blank",
    0x23: "a #, which is no wildcard,",
    0x2A: "a *, which is no wildcard,",
    0x2E: "a dot",
    0x2F: "a slash",
    0x3E: "a >, which is no wildcard,",
}
"""What is often one too many at an end of a subscription."""

WILDCARDS = b"*#>"
"""What stands for anything elsewhere, and for itself here."""

QUOTES = b"\"'"
SHORTEST_WORD = 3
"""Shorter ones are anywhere in a topic by chance."""


class Near(NamedTuple):
    """A topic, or a subscription, and in which way the subscription does not match; `is_telling` where that is hardly
    by chance."""

    name: bytes
    how: str
    is_telling: bool


def _case(subscription: bytes, topic: bytes) -> str | None:
    is_same = topic.lower().startswith(subscription.lower())
    return "differs in upper and lower case" if is_same else None


def _behind(subscription: bytes, topic: bytes) -> str | None:
    extra = BEHIND.get(subscription[-1])
    bare = subscription.rstrip(bytes(BEHIND))
    return f"has {extra} behind it" if extra and bare and topic.startswith(bare) else None


def _in_front(subscription: bytes, topic: bytes) -> str | None:
    extra = BEHIND.get(subscription[0])
    bare = subscription.lstrip(bytes(BEHIND))
    return f"has {extra} in front of it" if extra and bare and topic.startswith(bare) else None


def _wide(subscription: bytes, topic: bytes) -> str | None:
    """Every second octet of what is not beyond ASCII is zero in UTF-16, behind a mark of the order or not."""
    text = subscription.removeprefix(BOM_UTF16_LE).removeprefix(BOM_UTF16_BE)
    for zeros, bare in ((text[1::2], text[::2]), (text[::2], text[1::2])):
        if bare and len(zeros) == len(bare) and not any(zeros) and topic.startswith(bare):
            return "is in UTF-16"
    return None


def _quoted(subscription: bytes, topic: bytes) -> str | None:
    bare = subscription.removeprefix(b"b").strip(QUOTES)
    is_quoted = len(bare) < len(subscription) and subscription[-1] in QUOTES
    return "has quotes around it" if is_quoted and bare and topic.startswith(bare) else None


def _longer(subscription: bytes, topic: bytes) -> str | None:
    return "is longer than the topic" if topic and subscription.startswith(topic) else None


def _within(subscription: bytes, topic: bytes) -> str | None:
    is_word = re.search(rb"(?<![0-9A-Za-z])" + re.escape(subscription) + rb"(?![0-9A-Za-z])", topic)
    if is_word is None or len(subscription) < SHORTEST_WORD:
        return None
    return f"stands {is_word.start()} octets behind its beginning"


def _separators(subscription: bytes, topic: bytes) -> str | None:
    one, other = (re.sub(rb"[ ._:/\\|-]", b".", each) for each in (subscription, topic))
    return "has other separators" if other.startswith(one) and len(one) > 1 else None


def _alike(subscription: bytes, topic: bytes) -> str | None:
    one, other = subscription[:LONGEST_COMPARED], topic[: min(len(topic), len(subscription), LONGEST_COMPARED)]
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    is_alike = matcher.real_quick_ratio() >= LIKE and matcher.quick_ratio() >= LIKE and matcher.ratio() >= LIKE
    return "is spelt nearly like it" if is_alike else None


MISTAKES: tuple[tuple[Callable[[bytes, bytes], str | None], bool], ...] = (
    (_case, True),
    (_behind, True),
    (_in_front, True),
    (_wide, True),
    (_quoted, True),
    (_separators, True),
    (_within, True),
    (_longer, True),
    (_alike, False),
)
"""The likeliest first; of the last, `sensor1` and `sensor2` are an example that is none."""


def ends_in_wildcard(subscription: bytes) -> bool:
    """Whether it was likely meant for all that begins with what stands before."""
    return subscription[-1:] in {bytes([each]) for each in WILDCARDS}


def nearest_topic(subscription: bytes, topics: Iterable[bytes]) -> Near | None:
    """The topic that a subscription was likely meant for; None where it is like none of them."""
    some = [topic for topic, _ in zip(topics, range(MOST_LOOKED_AT), strict=False)]
    return _nearest([(subscription, topic, topic) for topic in some])


def nearest_subscription(topic: bytes, subscriptions: Iterable[bytes]) -> Near | None:
    """The subscription that was likely meant for a topic."""
    some = [each for each, _ in zip(subscriptions, range(MOST_LOOKED_AT), strict=False)]
    return _nearest([(each, topic, each) for each in some])


def _nearest(pairs: list[tuple[bytes, bytes, bytes]]) -> Near | None:
    for mistake, is_telling in MISTAKES:
        for subscription, topic, name in pairs:
            how = mistake(subscription, topic) if subscription else None
            if how is not None:
                return Near(name, how, is_telling)
    return None
