"""Kept octets of messages: neither records nor shown octets depend on blocks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.peer_octets import hello, message
from tests.suites import examples
from tests.traffic import Capture, Conversation, Packet, records
from zmtpscope.dissect import Analyser, FrameTable, Options
from zmtpscope.dissect.records import message_columns, tables
from zmtpscope.dissect.records.details import details
from zmtpscope.dissect.stream import assembly, messages, runs
from zmtpscope.export.clock import Clock
from zmtpscope.export.json_lines import lines
from zmtpscope.export.text import Look, TextLines
from zmtpscope.payloads.registry import Registry

HEAD = 100

SIZES = st.sampled_from([0, 0, 1, 5, 20, 40, 60, 90, 110, 150, 250])
MESSAGES = st.lists(st.lists(SIZES, min_size=1, max_size=5), min_size=1, max_size=6)
TYPES = [("PUB", "SUB"), ("DEALER", "REP"), ("REQ", "ROUTER"), ("PUSH", "PULL")]
KEPT: list[dict[str, Any]] = [
    {},
    {"bodies": "none"},
    {"bodies": "none", "payloads": Registry()},
    {"bodies": "head", "head": 3},
    {"bodies": "head", "head": 3, "body_limit": 130},
    {"body_limit": 10},
    {"body_limit": 130},
    {"body_limit": 130, "payloads": Registry()},
]


def packets_of(types: tuple[str, str], shapes: list[list[int]], cut: int, lost: int | None) -> list[Packet]:
    """A connection on which messages of frames of these sizes are sent, in packets of `cut` octets; one may be lost."""
    talk = Conversation()
    talk.send(1, hello(types[1]))
    talk.send(0, hello(types[0]))
    if types[1] == "SUB":
        talk.send(1, b"\x04\x0a\x09SUBSCRIBE")
    before = len(talk.packets)
    octets = b"".join(
        message(*(bytes([97 + (number + place) % 26]) * size for place, size in enumerate(shape)))
        for number, shape in enumerate(shapes)
    )
    talk.send(0, octets, cuts=range(cut, len(octets), cut))
    talk.acknowledge(1)
    if lost is not None and len(talk.packets) - before > 2:
        del talk.packets[before + lost % (len(talk.packets) - before - 1)]
    talk.close()
    return talk.packets


def everything(packets: list[Packet], size: int, options: Options) -> list[Any]:
    """Return records, their octets and packets, JSON lines and text."""
    found, _ = records(Capture(packets, size), options)
    seen: list[Any] = []
    text = TextLines(Look(Clock("e", lambda: 0)), options)
    for made in Analyser(options).run(Capture(packets, size)):
        seen += lines(made, options)
        seen += text.lines(made)
        for item, index in made.in_order():
            seen += [(each.offset, each.octets, each.tree, each.slices) for each in details(item, index)]
    return [found, sorted(map(repr, seen))]


@pytest.fixture(autouse=True, scope="module")
def small_heads() -> Any:
    with pytest.MonkeyPatch.context() as patched:
        for module in (assembly, message_columns, messages, runs, tables):
            patched.setattr(module, "HEAD_KEPT", HEAD)
        yield


@examples(150)
@given(
    types=st.sampled_from(TYPES),
    shapes=MESSAGES,
    cut=st.sampled_from([7, 50, 120, 1000]),
    lost=st.none() | st.integers(0, 50),
    kept=st.sampled_from(KEPT),
    frames=st.booleans(),
    size=st.integers(1, 7),
)
def test_p1_what_is_kept_does_not_depend_on_blocks(
    types: tuple[str, str],
    shapes: list[list[int]],
    cut: int,
    lost: int | None,
    kept: dict[str, Any],
    frames: bool,
    size: int,
) -> None:
    packets = packets_of(types, shapes, cut, lost)
    options = Options(**kept, frames=frames, details=True)
    assert everything(packets, size, options) == everything(packets, 1 << 30, options)


def records_of(kind: str, packets: list[Packet], size: int, **kept: Any) -> list[dict[str, Any]]:
    return [each for each in records(Capture(packets, size), Options(**kept))[0] if each["record"] == kind]


@pytest.mark.parametrize("size", [1, 1000])
def test_topic_and_envelope_are_there_for_any_body_limit(size: int) -> None:
    """They arrived in an earlier block than the end of the message."""
    published = packets_of(("PUB", "SUB"), [[20, 500], [150, 500]], 7, None)
    asked = packets_of(("DEALER", "REP"), [[5, 6, 0, 500], [60, 60, 0, 500]], 7, None)
    for kept in ({"bodies": "none"}, {"body_limit": 10}, {"bodies": "head", "head": 1, "body_limit": 10}):
        topics = [each["topic"] for each in records_of("message", published, size, **kept)]
        envelopes = [each["envelope"] for each in records_of("message", asked, size, **kept)]
        assert topics[0] == "a" * 20
        assert (envelopes[0], envelopes[1]) == (["aaaaa", "bbbbbb"], None)


@pytest.mark.parametrize("size", [1, 1000])
def test_a_frame_is_reported_with_its_message(size: int) -> None:
    packets = packets_of(("PUSH", "PULL"), [[5, 60, 0], [30]], 20, None)
    frames = records_of("frame", packets, size, frames=True)
    assert [(each["size"], each["message"]) for each in frames] == [(5, 92), (60, 92), (0, 92), (30, 163)]
    assert [each["packet"] for each in frames] == [6, 6, 9, 9]
    shown = [
        each.octets[2:]
        for made in Analyser(Options(frames=True, details=True)).run(Capture(packets, size))
        for item, index in made.in_order()
        if isinstance(item, FrameTable)
        for each in details(item, index)
    ]
    assert shown == [b"a" * 5, b"b" * 60, b"", b"b" * 30]


@pytest.mark.parametrize("size", [1, 1000])
def test_the_head_of_a_body_is_shown_however_large_it_is(size: int) -> None:
    """`--body head:N` shows about N octets, whatever the limit for whole bodies; a frame that begins far later has
    none."""
    packets = packets_of(("PUSH", "PULL"), [[500], [500, 500]], 50, None)
    heads = records_of("message", packets, size, bodies="head", head=3, body_limit=10)
    assert [(each["bodies"], each["bodies_kept"]) for each in heads] == [
        ([b"aaa"], "head"),
        ([b"bbb", b""], "head"),
    ]


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize("kept", [{}, {"payloads": Registry()}])
def test_bodies_up_to_the_limit_are_whole(size: int, kept: dict[str, Any]) -> None:
    packets = packets_of(("PUSH", "PULL"), [[500]], 50, None)
    (whole,) = records_of("message", packets, size, **kept)
    assert (whole["bodies"], whole["bodies_kept"]) == ([b"a" * 500], "full")
