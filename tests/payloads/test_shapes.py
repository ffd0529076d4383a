"""The dissectors of a message, by their declarations of its shape, as a table."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dissect.talks import connected
from tests.payloads.reading import registry_of
from tests.peer_octets import message
from tests.traffic import Capture, records
from zmtpscope.dissect import Options
from zmtpscope.payloads.api import About, Claim, Message, Payload, Reader
from zmtpscope.payloads.dissectors import OURS, Dissector, declared
from zmtpscope.payloads.json import JsonPayload
from zmtpscope.payloads.shapes import Shapes

OCTETS = st.sampled_from([b"", b"a", b"ab", b"ba", b"\xff", b"\0", b"{}"])
TYPES = st.sampled_from(["PUB", "REQ", "DEALER", None])
KINDS = st.lists(
    st.fixed_dictionaries(
        {
            "begins": st.none() | st.sampled_from([b"", b"a", b"b\xff\0", (b"ab", b"\xff"), (), (b"{",)]),
            "least_frames": st.integers(-1, 5),
            "looks_in_front": st.booleans(),
            "socket_types": st.none() | st.frozensets(TYPES),
        }
    ).map(lambda given: Dissector("", "", **given)),
    max_size=5,
)


@given(kinds=KINDS, frames=st.lists(OCTETS, min_size=1, max_size=7), content=st.integers(0, 6), sender=TYPES)
def test_dissectors_that_declare_the_shape_are_asked(
    kinds: list[Dissector], frames: list[bytes], content: int, sender: str | None
) -> None:
    content = min(content, len(frames) - 1)
    first = frames[content]

    def may_claim(kind: Dissector) -> bool:
        count = len(frames) if kind.looks_in_front else len(frames) - content
        fits = isinstance(kind.begins, tuple) and first.startswith(kind.begins)
        fits = fits or (isinstance(kind.begins, bytes) and first[:1] != b"" and first[0] in kind.begins)
        comes_from = kind.socket_types is None or sender in kind.socket_types
        return comes_from and count >= kind.least_frames and (kind.begins is None or fits)

    asked = Shapes(tuple(kinds)).asked(Message(frames, content, None), sender)
    assert list(asked) == [kind for kind in kinds if may_claim(kind)]


@pytest.mark.parametrize("ours", OURS, ids=[each.name for each in OURS])
def test_the_table_matches_the_declarations_of_our_classes(ours: Dissector) -> None:
    assert ours == declared(ours.load())._replace(source=ours.source)


class Order(Payload):
    """JSON that another dissector also knows, by its beginning."""

    name = "order"
    prefix = "order"
    begins: Any = (b'{"order"',)

    def claim(self, message: Message, about: About) -> Claim:
        return Claim.YES if message.bodies[0].startswith(b'{"order"') else Claim.NO

    def dissect(self, message: Message, reader: Reader) -> str:
        return "an order"


def protocols_and_fields(*kinds: type[Payload], bodies: list[bytes]) -> list[tuple[str, Any]]:
    """Return protocol and fields of a publisher's messages under a topic, with these dissectors only."""
    talk = connected("PUB", "SUB")
    talk.send(0, b"".join(message(b"topic", body) for body in bodies))
    found, _ = records(Capture(talk.packets), Options(payloads=registry_of(*kinds)))
    return [(each["payload"]["protocol"], each["payload"]["fields"]) for each in found if each["record"] == "message"]


BODIES = [b'{"a":1}', b'{"order":2}', b'{"a":3}']


def test_all_dissectors_with_this_beginning_are_asked_if_octets_suffice_for_one() -> None:
    json = [("json", {"a": 1}), ("json", {"order": 2}), ("json", {"a": 3})]
    assert protocols_and_fields(JsonPayload, bodies=BODIES) == json
    assert protocols_and_fields(JsonPayload, Order, bodies=BODIES) == [json[0], ("order", None), json[2]]
    anything = type("Anything", (Order,), {"begins": None})
    assert protocols_and_fields(JsonPayload, anything, bodies=BODIES) == [json[0], ("order", None), json[2]]


def test_a_quick_result_fits_every_output() -> None:
    class Odd(JsonPayload):
        def at_once(self, octets: bytes) -> tuple[str, Any] | None:
            return "odd\ud800", {"n": 2**70, 7: float("nan")}

    assert protocols_and_fields(Odd, bodies=[b"{}"]) == [("json", {"n": hex(2**70), "7": "NaN"})]


def test_a_dissector_that_fails_at_once_is_asked_as_usual() -> None:
    class Failing(JsonPayload):
        def at_once(self, octets: bytes) -> tuple[str, Any] | None:
            raise ValueError

    assert protocols_and_fields(Failing, bodies=BODIES[:1]) == [("json", {"a": 1})]
