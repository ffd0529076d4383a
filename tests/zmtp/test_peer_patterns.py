"""Publishers filter: subscribers get all messages that they subscribed to, and no others (wire.md 10.2, 10.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.peers import Act, Meeting, met
from zmtpscope.zmtp.peer import Settings

NAMES = ("", "a", "b", "ab", "new", "news")
STEPS = st.lists(st.tuples(st.sampled_from([True, True, False]), st.sampled_from(NAMES)), max_size=12)
"""Whether the step subscribes or cancels, and the topic."""

Steps = list[tuple[bool, str]]


def wanted_after(meeting: Meeting, steps: Steps, ask: str, no_more: str) -> Iterator[set[str]]:
    """Yield the subscriptions of side 1 after each of these steps, which are counted."""
    counts: Counter[str] = Counter()
    for asked, name in steps:
        if asked or counts[name]:
            counts[name] += 1 if asked else -1
            meeting.act(1, Act(ask if asked else no_more, (name.encode() if ask == "subscribe" else name,)))
            meeting.settle()
        yield {name for name, count in counts.items() if count}


@pytest.mark.parametrize("version", ["2.0", "3.0", "3.1"])
@pytest.mark.parametrize("publisher", ["PUB", "XPUB"])
@given(steps=STEPS)
def test_topics_are_prefixes_and_are_counted(version: str, publisher: str, steps: Steps) -> None:
    meeting = met(Settings(publisher, version=version), Settings("SUB"))
    for wanted in wanted_after(meeting, steps, "subscribe", "cancel"):
        for first in NAMES:
            asked_for = any(first.startswith(topic) for topic in wanted)
            assert meeting.peers[0].send([first.encode(), b"content"]) is asked_for


@pytest.mark.parametrize("version", ["3.0", "3.1"])
@given(steps=STEPS)
def test_groups_are_compared_as_a_whole(version: str, steps: Steps) -> None:
    meeting = met(Settings("RADIO", version=version), Settings("DISH"))
    for wanted in wanted_after(meeting, steps, "join", "leave"):
        for group in NAMES:
            assert meeting.peers[0].send([group.encode(), b"content"]) is (group in wanted)


def test_1_0_has_no_subscriptions() -> None:
    """So all messages are sent, as by libzmq (wire.md 3.3)."""
    meeting = met(Settings("PUB"), Settings("SUB", version="1.0"))
    assert meeting.peers[0].send([b"anything"])
