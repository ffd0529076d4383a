"""Find subscriptions that nearly match a topic, because of a usual mistake, and describe the mistake."""

from __future__ import annotations

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable
from typing import NamedTuple

from zmtpscope.words import counted

MAX_EXAMINED = 512

LONGEST_COMPARED = 64
"""Octets to compare letter by letter, which takes more than quadratic time."""

MAX_COMPARED = 16
"""Names with similar letters to compare letter by letter."""

LIKE = 0.8
"""Similarity of two topics that differ by a slip of the pen."""

NAMES = {
    b"\0": "a zero octet",
    b"\t": "a tab",
    b"\n": "a line feed",
    b"\r": "a carriage return",
    b" ": "a blank",
    b'"': "a quote",
    b"'": "a quote",
    b"#": "a #, which is no wildcard,",
    b"*": "a *, which is no wildcard,",
    b".": "a dot",
    b"/": "a slash",
    b">": "a >, which is no wildcard,",
    b"\xef\xbb\xbf": "a byte order mark",
    b"\xc2\xa0": "a no-break space",
}
"""Octets that are often added by mistake at an end of a name."""

NO_WORDS = bytes(octet for octet in range(0x80) if not chr(octet).isalnum())
"""Octets that may have been added by mistake after a name."""

IN_FRONT = re.compile(rb"(?:b(?=[\"'])|\xef\xbb\xbf|\xc2\xa0|[%s])*" % re.escape(NO_WORDS))
"""Octets that may have been added by mistake before a name; the b is from `str(b"name")` in Python."""

SINGLE = re.compile(rb"\xef\xbb\xbf|\xc2\xa0|.", re.DOTALL)

SEPARATORS = b".:/-_|\\"
"""Separators between parts of a name, which end a subscription on purpose."""

MAX_IN_FRONT = 8
"""Maximum superfluous octets before a name."""

MAX_NAMED = 2
"""Different octets to name one by one."""

WILDCARDS = b"*#>"
"""Wildcards of other systems, which are ordinary octets in ZeroMQ."""

QUOTES = b"\"'"
SHORTEST_WORD = 3
"""Letters of a word to find inside a topic; shorter ones occur by chance."""


class Near(NamedTuple):
    """A topic or subscription that nearly matches, and a text `how` they differ. `is_telling`: the likeness is hardly
    chance."""

    name: bytes
    how: str
    is_telling: bool


CASE = "differs in upper and lower case"


def _case(subscription: bytes, topic: bytes) -> str | None:
    return CASE if topic.lower().startswith(subscription.lower()) else None


def _around(subscription: bytes, topic: bytes) -> str | None:
    """Describe the octets to add or remove at both ends so that the subscription matches the topic; None if that is not
    enough."""
    front, behind = _in_front(subscription), len(subscription) - len(subscription.rstrip(NO_WORDS))
    if len(subscription) <= front + behind:
        return None
    core = len(subscription) - behind
    for lacks in range(_in_front(topic) + 1):
        for extra in range(front + 1):
            if topic[lacks : lacks + core - extra].lower() != subscription[extra:core].lower():
                continue
            same = _same(subscription[extra:], topic[lacks:])
            rest = subscription[extra + same :]
            if not (extra or lacks or rest) or (lacks and same < SHORTEST_WORD):
                continue
            if rest[:1] and rest[0] in SEPARATORS and len(topic) > lacks + same:
                continue
            is_case = subscription[extra : extra + same] != topic[lacks : lacks + same]
            return _in_words(subscription[:extra], topic[:lacks], rest) + (f" and {CASE}" if is_case else "")
    return None


def _in_front(name: bytes) -> int:
    """Return how many octets at the start of a name may be superfluous, such as a quote or a length octet."""
    found = IN_FRONT.match(name[:MAX_IN_FRONT])
    return 0 if found is None else found.end()


def _same(one: bytes, other: bytes) -> int:
    pairs = enumerate(zip(one.lower(), other.lower(), strict=False))
    return next((place for place, (octet, another) in pairs if octet != another), min(len(one), len(other)))


def _in_words(front: bytes, lacks: bytes, behind: bytes) -> str:
    if front and behind and not (front.removeprefix(b"b") + behind).strip(QUOTES):
        return "has quotes around it"
    has = [f"{_named(front)} before it"] if front else []
    has += [f"{_named(behind)} after it"] if behind else []
    words = [f"lacks {_named(lacks)} before it"] if lacks else []
    words += [f"has {' and '.join(has)}"] if has else []
    return " and ".join(words)


def _named(octets: bytes) -> str:
    """Describe octets by which a topic differs from another one: `a blank and a line feed` or `4 octets (00
    00 00 06)`."""
    singles = SINGLE.findall(octets)
    names = [NAMES.get(each) or f"a {chr(each[0])}" for each in singles if each in NAMES or each.isascii()]
    is_printable = all(each in NAMES or each.decode("latin-1").isprintable() for each in singles)
    if is_printable and len(set(singles)) == len(singles) <= MAX_NAMED:
        return " and ".join(names)
    return f"{len(octets)} octet{'s' if len(octets) > 1 else ''} ({octets[:MAX_IN_FRONT].hex(' ')})"


def _wide(subscription: bytes, topic: bytes) -> str | None:
    """Describe the mistake if the subscription or the topic is text in UTF-16, in which every second octet of ASCII is
    zero."""
    text = subscription.removeprefix(BOM_UTF16_LE).removeprefix(BOM_UTF16_BE)
    for zeros, bare in ((text[1::2], text[::2]), (text[::2], text[1::2])):
        if bare and len(zeros) == len(bare) and not any(zeros) and topic.startswith(bare):
            return "is in UTF-16"
    return None


def _longer(subscription: bytes, topic: bytes) -> str | None:
    return "is longer than the topic" if topic and subscription.startswith(topic) else None


def _within(subscription: bytes, topic: bytes) -> str | None:
    is_word = re.search(rb"(?<![0-9A-Za-z])" + re.escape(subscription) + rb"(?![0-9A-Za-z])", topic)
    if is_word is None or len(subscription) < SHORTEST_WORD:
        return None
    return f"is {counted(is_word.start(), 'octet')} after its beginning"


def _separators(subscription: bytes, topic: bytes) -> str | None:
    one, other = (re.sub(rb"[ ._:/\\|-]", b".", each) for each in (subscription, topic))
    return "has other separators" if other.startswith(one) and len(one) > 1 else None


MISTAKES: tuple[Callable[[bytes, bytes], str | None], ...] = (_case, _wide, _around, _separators, _within, _longer)
"""Functions that look for one mistake each, likeliest first."""


def ends_in_wildcard(subscription: bytes) -> bool:
    return subscription[-1:] in {bytes([each]) for each in WILDCARDS}


def nearest_topic(subscription: bytes, topics: Iterable[bytes], *, whole: bool = False) -> Near | None:
    """Return the topic for which a subscription was probably meant, or None.

    With `whole`, the subscription is a group, which must equal the topic and not only begin it.
    """
    some = [topic for topic, _ in zip(topics, range(MAX_EXAMINED), strict=False)]
    if whole and subscription:
        longer = next((topic for topic in some if topic.startswith(subscription)), None)
        if longer is not None:
            return Near(longer, "is only the beginning of it", is_telling=len(subscription) >= SHORTEST_WORD)
    return _nearest([(subscription, topic, topic) for topic in some])


def nearest_subscription(topic: bytes, subscriptions: Iterable[bytes]) -> Near | None:
    some = [each for each, _ in zip(subscriptions, range(MAX_EXAMINED), strict=False)]
    return _nearest([(each, topic, each) for each in some])


def _nearest(pairs: list[tuple[bytes, bytes, bytes]]) -> Near | None:
    pairs = [pair for pair in pairs if pair[0]]
    for mistake in MISTAKES:
        for subscription, topic, name in pairs:
            how = mistake(subscription, topic)
            if how is not None:
                return Near(name, how, is_telling=True)
    return _alike(pairs)


def _alike(pairs: Iterable[tuple[bytes, bytes, bytes]]) -> Near | None:
    """Return the first name whose spelling is similar to that of another, or None.

    Names such as `sensor1` and `sensor2` are similar on purpose and do not count.
    """
    from difflib import SequenceMatcher  # loaded only if used

    compared = 0
    for subscription, topic, name in pairs:
        one, other = subscription[:LONGEST_COMPARED], topic[: min(len(subscription), LONGEST_COMPARED)]
        matcher = SequenceMatcher(None, one, other, autojunk=False)
        if compared < MAX_COMPARED and matcher.real_quick_ratio() >= LIKE and matcher.quick_ratio() >= LIKE:
            compared += 1
            if matcher.ratio() >= LIKE:
                how = f"is nearly equal, and differs from octet {_same(one, other) + 1} on"
                return Near(name, how, is_telling=False)
    return None
