"""Where only findings are wanted, and a dissector has none, it is only asked whether messages are its own."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.payloads.reading import ABOUT, result_of
from zmtpscope.payloads.dissected import Message
from zmtpscope.payloads.registry import Registry
from zmtpscope.payloads.shapes import Candidates
from zmtpscope.payloads.side import MAX_UNCLAIMED, SidePayloads

JSON = [b"{}", b'{"a":1}', b'{"a":1}\n{"b":2}', b'{"a":' * 70 + b"0" + b"}" * 70, b'{"n":99999999999999999999}']
ARRAYS = [b"[1,2]", b"[" * 70 + b"]" * 70, b"["]
"""JSON arrays; LZ4 or zstd data may begin in the same way."""
PACKED = [b"\x81\xa2id\x07", b"\x82\xa2id\x07\xa1x\x82", b"\x81\x82\xa2id\x07\x01", b"\xa1\x62id\x07"]
EITHER = b"\x81\xa1\x18\xa3bcA"
"""Valid as MessagePack and as CBOR: it belongs to the last dissector."""
OTHERS = [b"{no}", b"{", b"\xff", b"", b"plain text", b"\x81\x01\x02", b"\x84abc"]


def counting() -> SidePayloads:
    """Return the dissectors that are asked about the messages of a side if only findings are wanted."""
    return SidePayloads(Registry(), [], judging=True)


def candidates_of(side: SidePayloads, body: bytes) -> Candidates:
    return side.shapes.candidates(side.shapes.of(Message([body], 0, None), None))


def known(side: SidePayloads) -> tuple[Any, ...]:
    """Return the state that decides later claims."""
    last = None if side.last is None else side.last.name
    return side.unclaimed, side.left_alone, last, side.allowance.octets


@given(
    bodies=st.lists(st.sampled_from([*JSON, *PACKED, EITHER, *OTHERS]), min_size=1, max_size=40),
    before=st.integers(0, 3) | st.integers(MAX_UNCLAIMED - 20, MAX_UNCLAIMED + 2),
    cuts=st.sets(st.integers(1, 39)),
)
@example(bodies=[b"\xff"] * 10 + [b"{}"], before=MAX_UNCLAIMED - 8, cuts=set())
@example(bodies=[b"{}"] + [b"{no}"] * 3 + [b"\xff"], before=0, cuts=set())
@example(bodies=[PACKED[0], EITHER, b"{no}", EITHER], before=0, cuts=set())
@example(bodies=[PACKED[0], b"{}", EITHER], before=0, cuts=set())
def test_messages_that_are_only_claimed_are_counted_as_if_each_was_asked_about(
    bodies: list[bytes], before: int, cuts: set[int]
) -> None:
    one_by_one, together = counting(), counting()
    for side in one_by_one, together:
        side.pass_by(before)
    for body in bodies:
        if one_by_one.left_alone or not candidates_of(one_by_one, body).dissectors:
            one_by_one.pass_by(1)
        else:
            assert one_by_one.dissect(Message([body], 0, None), ABOUT, [2]) is None
    for low, high in pairwise(sorted({0, *(cut for cut in cuts if cut < len(bodies)), len(bodies)})):
        part = bodies[low:high]
        places = [place for place, body in enumerate(part) if candidates_of(together, body).dissectors]
        frames = [part[place] for place in places]
        messages = [(candidates_of(together, frame), frame) for frame in frames]
        together.take_claims(len(part), places, messages.__getitem__)
    assert known(together) == known(one_by_one)


@pytest.mark.parametrize("name", ["cbor", "json", "messagepack"])
@pytest.mark.parametrize("body", [*JSON, *ARRAYS, *PACKED, EITHER, *[each for each in OTHERS if each]], ids=repr)
def test_claims_at_once_equal_claims(name: str, body: bytes) -> None:
    side = counting()
    payload = side.registry.make(side.registry.dissectors[name])
    assert payload is not None
    if side.registry.dissectors[name].may_begin(body[0]):
        assert payload.claims_at_once(body) == bool(payload.claim(Message([body], 0, None), ABOUT))


def test_a_message_that_begins_as_json_or_messagepack_can_only_be_claimed() -> None:
    side = counting()
    assert candidates_of(side, b"{}").only_claim
    assert candidates_of(side, EITHER).only_claim
    assert not candidates_of(side, b"\x80\x04.").only_claim  # pickles have findings
    assert not candidates_of(side, b"[]").only_claim
    assert not side.shapes.candidates(side.shapes.of(Message([b"{}", b""], 0, None), "PUB")).only_claim


@given(bodies=st.lists(st.sampled_from([*JSON, *PACKED, EITHER, *OTHERS]), min_size=1, max_size=12))
@example(bodies=[EITHER, PACKED[0], EITHER])
def test_the_dissector_asked_at_once_is_the_one_that_would_claim(bodies: list[bytes]) -> None:
    quick, careful = SidePayloads(Registry(), []), SidePayloads(Registry(), [])
    for body in bodies:
        message = Message([body], 0, None)
        result = careful.dissect(message, ABOUT, [2])
        made = quick.dissect_at_once(candidates_of(quick, body), body, len(body)) or quick.dissect(message, ABOUT, [2])
        assert (made and result_of(made)) == (result and result_of(result))
    assert known(quick) == known(careful)
