"""Subscriptions that also match longer topics, and subscriptions that are meant to."""

from __future__ import annotations

import pytest

from tests.diagnosis.publishing_traffic import Subscriber, diagnosed

RULE = "longer-topic"


def subscriber(*topics: str, published: tuple[tuple[bytes, ...], ...]) -> Subscriber:
    """A SUB with some subscriptions, and messages that it gets."""
    sub = Subscriber(2, 0, *topics)
    for frames in published:
        sub.publish(*frames, times=3)
    return sub


@pytest.mark.parametrize(
    "published",
    [((b"a1", b"20 C"), (b"a10", b"21 C")), ((b"a1 20 C",), (b"a10 21 C",)), ((b'a1{"C":20}',), (b'a10{"C":21}',))],
    ids=["frames", "one-frame", "json"],
)
def test_a_longer_topic_is_a_note(published: tuple[tuple[bytes, ...], ...]) -> None:
    (diagnosis,) = diagnosed(subscriber("a1", published=published), rule=RULE)
    assert (diagnosis.severity, diagnosis.text) == (
        "note",
        'SUB 10.0.0.2 subscribed to "a1" and also gets "a10" (3 messages): a subscription matches every topic that '
        "begins with it",
    )


@pytest.mark.parametrize(
    ("topics", "published"),
    [
        (("a1",), ((b"a1", b"20 C"), (b"a1.0", b"21 C"))),
        (("a1", "a10"), ((b"a1", b"20 C"), (b"a10", b"21 C"))),
        (("a",), ((b"a1", b"20 C"), (b"a10", b"21 C"))),
        (("a1",), ((b"a1 20 C",), (b"a1 21 C",))),
        (("a1",), ((b"a10 20 C",), (b"a11 21 C",))),
        (("a1",), ((b"a1 20 C",), (b"a1\xfe0 20 C",), (b"a10 21 C",))),
        (("",), ((b"a1", b"20 C"), (b"a10", b"21 C"))),
    ],
    ids=["a level below", "both", "a prefix of all", "one topic", "only longer ones", "binary", "everything"],
)
def test_others_are_none(topics: tuple[str, ...], published: tuple[tuple[bytes, ...], ...]) -> None:
    assert not diagnosed(subscriber(*topics, published=published), rule=RULE)
