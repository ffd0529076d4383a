"""Each frame of a message is read by the dissector that claims it: a command, then a pickle."""

from __future__ import annotations

import gzip
import pickle
from collections import OrderedDict
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dissect.talks import connected
from tests.payloads.reading import ABOUT, assert_tiled, offsets, registry_of
from tests.peer_octets import message
from tests.traffic import Capture, records
from zmtpscope.dissect import Options
from zmtpscope.payloads.api import About, Claim, Message
from zmtpscope.payloads.dissected import Dissected
from zmtpscope.payloads.json import JsonPayload
from zmtpscope.payloads.registry import Registry
from zmtpscope.payloads.side import Named, SidePayloads

PICKLED = pickle.dumps({"headless": False})
IMPORTING = pickle.dumps(OrderedDict(a=1))
PACKED = msgpack.packb({"type": "set_object"})
ZIPPED = gzip.compress(b'{"a":1}')


def made_of(*frames: bytes, named: str | None = None, judging: bool = False, trees: bool = False) -> Dissected | None:
    """Return the result of a side for its first message."""
    side = SidePayloads(Registry(), [Named(named)] if named else [], judging=judging, trees=trees)
    made = side.dissect(Message(frames, 0, None), ABOUT, offsets(frames))
    if trees and made is not None:
        assert_tiled(made, *frames)
    return made


@pytest.mark.parametrize("trees", [False, True])
@pytest.mark.parametrize(
    ("frames", "protocol", "summary"),
    [
        ((b"I", PICKLED), "pickle", "I | protocol 4: dict"),
        ((b"set_object", b"/meshcat/box", PACKED), "messagepack", 'set_object | /meshcat/box | {"type":"set_object"}'),
        ((b"\1", b"", b'{"a":1}'), "json", '1 octets |  | {"a":1}'),
        ((b'{"a":1}', PICKLED), "json", '{"a":1} | pickle protocol 4: dict'),
        ((b"gz", ZIPPED), "gzip", f'gz | {len(ZIPPED)} -> 7 octets, json {{"a":1}}'),
        (
            (PACKED, b"text", ZIPPED),
            "messagepack",
            f'{{"type":"set_object"}} | text | gzip {len(ZIPPED)} -> 7 octets, ',
        ),
    ],
)
def test_the_first_frame_that_is_claimed_names_the_protocol(
    frames: tuple[bytes, ...], protocol: str, summary: str, trees: bool
) -> None:
    made = made_of(*frames, trees=trees)
    assert made is not None
    assert (made.protocol, made.summary[: len(summary)]) == (protocol, summary)
    assert isinstance(made.fields, list)
    assert len(made.fields) == len(frames)


def test_fields_have_an_entry_for_each_frame() -> None:
    made = made_of(b"T", b"\0" * 4, PACKED, b'[1, {"b":2}]')
    assert made is not None
    assert made.fields == ["T", bytes(4), {"type": "set_object"}, [1, {"b": 2}]]


@pytest.mark.parametrize("frames", [(b"I", IMPORTING), (b"{}", IMPORTING), (PACKED, b"x", IMPORTING)])
def test_findings_of_every_frame_are_reported_in_every_mode(frames: tuple[bytes, ...]) -> None:
    for judging in (False, True):
        made = made_of(*frames, judging=judging)
        assert made is not None
        assert [(each.id, each.severity) for each in made.findings] == [("PICKLE-01", "warn")]


def test_a_named_dissector_reads_the_frames_of_its_format() -> None:
    made = made_of(b"T", b'{"a":1}', PACKED, named="json")
    assert made is not None
    assert (made.protocol, made.fields) == ("json", ["T", {"a": 1}, {"type": "set_object"}])


def test_a_dissector_that_is_sure_of_the_whole_message_goes_first() -> None:
    """A later frame counts only if no dissector claims the message as a whole, or by its first content frame."""

    class Whole(JsonPayload):
        name = "whole"
        begins: Any = None
        least_frames = 2

        def claim(self, message: Message, about: About) -> Claim:
            return Claim.MAYBE

        def dissect(self, message: Message, reader: Any) -> str:
            return "all of it"

    side = SidePayloads(registry_of(JsonPayload, Whole), [])
    made = side.dissect(Message((b"I", b"{}"), 0, None), ABOUT, offsets((b"I", b"{}")))
    assert made is not None
    assert made.protocol == "whole"


asked = 0


class Counting(JsonPayload):
    name = "json"

    def recognise(self, octets: bytes) -> Any:
        global asked
        asked += 1
        return super().recognise(octets)


@given(front=st.integers(0, 3), behind=st.integers(0, 3))
def test_no_frame_is_asked_about_twice(front: int, behind: int) -> None:
    global asked
    asked = 0
    frames = (*[b"[no"] * front, b"[1]", *[b"[2]"] * behind)
    side = SidePayloads(registry_of(Counting), [])
    made = side.dissect(Message(frames, 0, None), ABOUT, offsets(frames))
    assert made is not None
    assert asked == len(frames)


@pytest.mark.parametrize("size", [1, 1 << 30])
@pytest.mark.parametrize("only", [None, "pickle"])
def test_a_command_in_front_of_pickles_hides_nothing_from_a_capture(size: int, only: str | None) -> None:
    talk = connected("DEALER", "ROUTER")
    talk.send(0, message(b"I", PICKLED) + message(b"T", b"\0id", IMPORTING))
    found, _ = records(Capture(talk.packets, size), Options(payloads=Registry(only)))
    protocols = [each["payload"]["protocol"] for each in found if each["record"] == "message"]
    assert protocols == ["pickle", "pickle"]
    _, analyser = records(Capture(talk.packets, size), Options(payloads=Registry(only), records=False))
    assert analyser.summary.findings["warn", "PICKLE-01"] == 1
