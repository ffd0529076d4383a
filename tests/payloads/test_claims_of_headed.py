"""MessagePack and CBOR have few distinctive octets: other data must not be claimed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import cbor2
import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.payloads.reading import claimed
from zmtpscope.payloads.api import Claim
from zmtpscope.payloads.cbor import Cbor
from zmtpscope.payloads.headed import Headed
from zmtpscope.payloads.messagepack import MessagePack

KINDS = (MessagePack, Cbor)
WORDS = ["a", "of", "the", "that", "which", "publisher", "subscriber", "message", "frame", "it", "not", "Receives"]


def asked_and_claimed(kind: type[Headed], octets: bytes) -> bool:
    """Whether the dissector that is asked claims a frame."""
    return octets[0] in kind.begins and claimed(kind, octets) is not Claim.NO


def share(kind: type[Headed], frame: Callable[[random.Random], bytes], count: int = 20_000) -> float:
    """Return how many of the frames are claimed, if their first octet can begin a map or array."""
    numbers = random.Random(7)
    return sum(asked_and_claimed(kind, frame(numbers)) for _ in range(count)) / count


def begin(kind: type[Headed], numbers: random.Random) -> bytes:
    return bytes([numbers.choice(kind.begins)])


@pytest.mark.parametrize("kind", KINDS)
def test_random_octets(kind: type[Headed]) -> None:
    """Fewer than one random frame in 10,000 is claimed."""
    claims = share(kind, lambda numbers: begin(kind, numbers) + numbers.randbytes(numbers.randint(7, 63)))
    assert claims * len(kind.begins) / 256 < 0.0001


@pytest.mark.parametrize("kind", KINDS)
def test_small_numbers(kind: type[Headed]) -> None:
    """No small numbers are claimed, however many of them fit."""
    assert share(kind, lambda numbers: begin(kind, numbers) + bytes(numbers.choices(range(24), k=8))) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_an_octet_in_front_of_words(kind: type[Headed]) -> None:
    def frame(numbers: random.Random) -> bytes:
        return begin(kind, numbers) + " ".join(numbers.choices(WORDS, k=numbers.randint(1, 8))).encode()

    assert share(kind, frame) < 0.005


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "cp1251", "shift-jis", "utf-16-le"])
@given(text=st.text(min_size=8, max_size=64))
def test_text(kind: type[Headed], encoding: str, text: str) -> None:
    octets = text.encode(encoding, "ignore")
    assert not octets or not asked_and_claimed(kind, octets)


def value_of(numbers: random.Random, depth: int = 0) -> Any:
    kinds = ["map", "array"] if depth == 0 else ["map", "array", "text", "number", "number", "float", "none", "octets"]
    kind = numbers.choice(kinds)
    inside = range(numbers.randint(1, 5) if depth < 3 else 0)
    match kind:
        case "map":
            return {numbers.choice(WORDS): value_of(numbers, depth + 1) for _ in inside}
        case "array":
            return [value_of(numbers, depth + 1) for _ in inside]
        case "text":
            return " ".join(numbers.choices(WORDS, k=numbers.randint(0, 6)))
        case "number":
            return numbers.randint(-1, 10 ** numbers.randint(0, 12))
        case "float":
            return numbers.gauss(0, 100)
        case "none":
            return None
    return numbers.randbytes(numbers.randint(0, 20))


def test_each_leaves_the_other_alone() -> None:
    assert share(Cbor, lambda numbers: msgpack.packb(value_of(numbers)), 3_000) < 0.001
    assert share(MessagePack, lambda numbers: cbor2.dumps(value_of(numbers)), 3_000) < 0.001


def test_most_of_what_programs_send_is_claimed() -> None:
    """The rest are arrays of a few numbers or octets."""
    assert share(MessagePack, lambda numbers: msgpack.packb(value_of(numbers)), 3_000) > 0.85
    assert share(Cbor, lambda numbers: cbor2.dumps(value_of(numbers)), 3_000) > 0.85
