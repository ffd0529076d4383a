"""CBOR: the examples of RFC 8949, comparison with the library `cbor2`, and arbitrary octets."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import cbor2
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests import strategies
from tests.payloads.headed import Pairs, as_fields, assert_sound
from tests.payloads.reading import START, claimed, dissected
from tests.zmtp.sides import MANY
from zmtpscope.payloads.api import Claim
from zmtpscope.payloads.cbor import Cbor

EXAMPLES: list[tuple[str, Any]] = [
    ("00", 0),
    ("17", 23),
    ("1818", 24),
    ("1903e8", 1000),
    ("1a000f4240", 1000000),
    ("1bffffffffffffffff", 18446744073709551615),
    ("c249010000000000000000", "0x10000000000000000"),
    ("3bffffffffffffffff", "-0x10000000000000000"),
    ("c349010000000000000000", "-0x10000000000000001"),
    ("20", -1),
    ("3903e7", -1000),
    ("f98000", -0.0),
    ("f93c00", 1.0),
    ("fb3ff199999999999a", 1.1),
    ("f97bff", 65504.0),
    ("fa47c35000", 100000.0),
    ("fa7f7fffff", 3.4028234663852886e38),
    ("fb7e37e43c8800759c", 1.0e300),
    ("f90001", 5.960464477539063e-8),
    ("f97c00", "Infinity"),
    ("f97e00", "NaN"),
    ("fbfff0000000000000", "-Infinity"),
    ("f4", False),
    ("f5", True),
    ("f6", None),
    ("f7", {"simple": 23}),
    ("f0", {"simple": 16}),
    ("f8ff", {"simple": 255}),
    ("c074323031332d30332d32315432303a30343a30305a", {"tag": 0, "value": "2013-03-21T20:04:00Z"}),
    ("c11a514b67b0", {"tag": 1, "value": 1363896240}),
    ("c1fb41d452d9ec200000", {"tag": 1, "value": 1363896240.5}),
    ("d74401020304", {"tag": 23, "value": b"\1\2\3\4"}),
    ("d818456449455446", {"tag": 24, "value": "IETF"}),
    ("d82076687474703a2f2f7777772e6578616d706c652e636f6d", {"tag": 32, "value": "http://www.example.com"}),
    ("40", b""),
    ("4401020304", b"\1\2\3\4"),
    ("60", ""),
    ("62225c", '"\\'),
    ("62c3bc", "ü"),
    ("64f0908591", "\U00010151"),
    ("80", []),
    ("8301820203820405", [1, [2, 3], [4, 5]]),
    ("98190102030405060708090a0b0c0d0e0f101112131415161718181819", list(range(1, 26))),
    ("a0", None),
    ("a201020304", {"1": 2, "3": 4}),
    ("a26161016162820203", {"a": 1, "b": [2, 3]}),
    ("5f42010243030405ff", b"\1\2\3\4\5"),
    ("7f657374726561646d696e67ff", "streaming"),
    ("9fff", []),
    ("9f018202039f0405ffff", [1, [2, 3], [4, 5]]),
    ("83018202039f0405ff", [1, [2, 3], [4, 5]]),
    ("826161bf61626163ff", ["a", {"b": "c"}]),
    ("bf6346756ef563416d7421ff", {"Fun": True, "Amt": -2}),
]
"""RFC 8949, appendix A: octets and our fields."""

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-300, 300),
    st.floats(),
    st.text(max_size=40),
    st.binary(max_size=40),
    st.just(cbor2.undefined),
    st.builds(cbor2.CBORSimpleValue, st.integers(0, 19) | st.integers(32, 255)),
)
KEYS = st.text(max_size=5) | st.integers(-200, 2**64 - 1) | st.binary(max_size=5) | st.none()
VALUES = st.recursive(
    SCALARS,
    lambda each: st.one_of(
        st.lists(each, max_size=5),
        st.dictionaries(KEYS, each, max_size=5),
        st.builds(cbor2.CBORTag, st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 4, 37]), each),
        st.builds(lambda value: cbor2.CBORTag(24, cbor2.dumps(value)), each),
    ),
    max_leaves=20,
)

ITEMS = st.recursive(
    st.sampled_from(
        [b"\x05", b"\x38\x20", b"\x43abc", b"\x63abc", b"\x61\xff", b"\xf7", b"\xf9\x3c\x01", b"\x5f\x41a\xff"]
    ),
    lambda each: st.one_of(
        st.lists(each, max_size=4).map(lambda items: b"\x9f" + b"".join(items) + b"\xff"),
        st.lists(each, max_size=4).map(lambda items: b"\xbf" + b"".join(items) + b"\xff"),
        st.lists(each, max_size=4).map(lambda items: b"\x7f" + b"".join(items) + b"\xff"),
        st.lists(each, max_size=4).map(lambda items: b"\x98" + bytes([len(items)]) + b"".join(items)),
        st.tuples(st.sampled_from([b"\xc2", b"\xc3", b"\xd8\x18", b"\xd9\xd9\xf7", b"\xdb" + bytes(8)]), each).map(
            b"".join
        ),
        each.map(lambda item: b"\xd8\x18\x58" + bytes([len(item) % 256]) + item),
    ),
    max_leaves=8,
)
"""Forms that the library does not write: indefinite lengths, wrong pieces, tags before anything."""


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """Draw a value, a damaged value, or arbitrary octets."""
    octets = draw(VALUES.map(cbor2.dumps) | ITEMS)
    return draw(st.just(octets) | strategies.damaged(octets) | st.binary(max_size=30))


KNOWN_TAGS = {number: functools.partial(cbor2.CBORTag, number) for number in (*range(500), 1004, 43000, 55799)}
"""Prevents the library from converting tagged values."""


def by_library(octets: bytes) -> Any:
    """Return the value that `cbor2` reads, if it ends with the octets; raise ValueError if there is none."""
    value = loaded(octets)
    try:
        loaded(octets[:-1])
    except ValueError:
        return value
    raise ValueError("octets follow")


def loaded(octets: bytes) -> Any:
    """Return the value that `cbor2` reads; further octets may follow it."""
    decoders = {number: lambda value, _, as_tag=as_tag: as_tag(value) for number, as_tag in KNOWN_TAGS.items()}
    try:
        return cbor2.loads(octets, semantic_decoders=decoders, str_errors="surrogateescape")
    except (cbor2.CBORDecodeError, EOFError) as problem:
        raise ValueError from problem


def special(value: Any) -> Any:
    """Convert values that JSON does not have to our form."""
    if isinstance(value, Mapping):
        return Pairs(value.items())
    if isinstance(value, cbor2.CBORSimpleValue):
        return Pairs((("simple", value.value),))
    if value is cbor2.undefined:
        return Pairs((("simple", 23),))
    if isinstance(value, cbor2.CBORTag):
        inside = value.value
        if isinstance(inside, bytes):
            if value.tag in (2, 3):
                return int.from_bytes(inside) if value.tag == 2 else -1 - int.from_bytes(inside)
            if value.tag == 24:
                inside = by_library(inside)
        return Pairs((("tag", value.tag), ("value", inside)))
    return value


NESTED = functools.reduce(lambda inside, _: cbor2.dumps(cbor2.CBORTag(24, inside)), range(65), b"\5")


@pytest.mark.parametrize(("octets", "fields"), EXAMPLES)
def test_examples_of_the_rfc(octets: str, fields: Any) -> None:
    made = assert_sound(Cbor, bytes.fromhex(octets))
    assert not made.findings
    assert repr(made.fields) == repr(fields)


@MANY
@given(frames())
@example(b"\xd9\xd9\xf7\xd9\xd9\xf7\x05")
@example(b"\x81\xd8\x18\x42\x82\x05")
@example(b"\x81\xd8\x18\x42\x05\x05")
@example(b"\x82\xd8\x18\x4a\xd8\x18\x46\xd8\x18\x43\x82\x05\x06\x07\x07")
@example(b"\x7f\x61\xc3\x61\xbc\xff")
def test_fields_match_the_library(octets: bytes) -> None:
    # a number or an embedded value in pieces: we show its octets, the library does not have them
    assume(not any(tag + b"\x5f" in octets for tag in (b"\xc2", b"\xc3", b"\x18")))
    made = assert_sound(Cbor, octets)
    try:
        value = by_library(octets)
        if isinstance(value, cbor2.CBORTag) and value.tag == 55799:
            value = value.value
        fields = as_fields(value, special)
    except ValueError:
        assert made.findings
        return
    assert not made.findings
    assert repr(made.fields) == repr(None if fields == {} else fields)


def test_bignum_of_any_length() -> None:
    octets = b"\xc2\x59\x80\x00" + b"\xff" * 0x8000
    assert assert_sound(Cbor, b"\x81" + octets).fields == ["0x" + "f" * 0x10000]
    assert list(assert_sound(Cbor, b"\xa1" + octets + b"\x05").fields.values()) == [5]


def test_tree_names_heads_keys_and_values() -> None:
    octets = bytes.fromhex("d9d9f7 bf 6161 d818 43 820506 63616263 c24105 ff")
    [tag, tree] = dissected(Cbor, octets, trees=True).nodes[0]
    assert [(leaf.name, leaf.start - START, leaf.length, leaf.value) for leaf in (tag, *tree.leaves())] == [
        ("cbor.tag", 0, 3, 55799),
        ("cbor.pairs", 3, 1, "until a break"),
        ("cbor.key", 4, 2, "a"),
        ("cbor.tag", 6, 2, 24),
        ("cbor.octets", 8, 1, 3),
        ("cbor.items", 9, 1, 2),
        ("cbor.0", 10, 1, 5),
        ("cbor.1", 11, 1, 6),
        ("cbor.key", 12, 4, "abc"),
        ("cbor.abc", 16, 3, 5),
        ("cbor.break", 19, 1, 255),
    ]


@pytest.mark.parametrize(
    ("octets", "summary"),
    [
        ("821c", "malformed at octet 1 of frame 0: items: 2, octets left: 1"),
        ("811c", "malformed at octet 1 of frame 0: no value begins with 0x1c"),
        ("811f", "malformed at octet 1 of frame 0: no value begins with 0x1f"),
        ("8119ff", "malformed at octet 1 of frame 0: the frame ends inside a head"),
        ("81f81f", "malformed at octet 1 of frame 0: the simple value 31 takes two octets"),
        ("81ff", "malformed at octet 1 of frame 0: a break instead of a value"),
        ("bf05ff", "malformed at octet 2 of frame 0: a break instead of a value"),
        ("9f05", "malformed at octet 2 of frame 0: the frame ends before a value"),
        ("817f4161ff", "malformed at octet 1 of frame 0: a piece is cut off or of another kind"),
        ("81055f", "malformed at octet 2 of frame 0: octets after the value: 1"),
        ("9bffffffffffffffff", "malformed at octet 9 of frame 0: items: 18446744073709551615, octets left: 0"),
        (
            "5bffffffffffffffff",
            "malformed at octet 9 of frame 0: value needs 18446744073709551624 octets, but only 9 remain",
        ),
        ("9f" * 66, "not read to its end: more than 64 levels"),
        ("c7" * 66, "not read to its end: more than 64 levels"),
        ("82d818420505", "malformed at octet 5 of frame 0: octets after the embedded value: 1"),
        ("82d8184119051805", "malformed at octet 5 of frame 0: value needs 3 octets, but only 1 remain"),
        ("82d81843d818420505", "malformed at octet 7 of frame 0: value needs 3 octets, but only 1 remain"),
        (NESTED.hex(), "not read to its end: more than 64 levels"),
        ("5f" + "40" * 10001 + "ff", "not read to its end: more than 10000 fields"),
    ],
)
def test_what_is_not_read(octets: str, summary: str) -> None:
    assert dissected(Cbor, bytes.fromhex(octets)).summary == summary


@pytest.mark.parametrize("value", [{"id": 7}, [0, 1, "add", [1, 2]], [1.5, 2.5], {"name": "bob"}, {1: {"ab": None}}])
def test_claimed(value: Any) -> None:
    assert claimed(Cbor, cbor2.dumps(value), b"other frame") is Claim.MAYBE


def test_indefinite_lengths_are_claimed() -> None:
    assert claimed(Cbor, bytes.fromhex("bf6346756ef563416d7421ff")) is Claim.MAYBE


def test_octets_with_the_self_described_tag_are_cbor() -> None:
    assert claimed(Cbor, b"\xd9\xd9\xf7\x05") is Claim.YES


@pytest.mark.parametrize(
    "octets",
    [
        b"\x80",
        b"\xa0",
        b"\x9f\xff",
        cbor2.dumps([1, 2, 3]),
        cbor2.dumps([0] * 23),
        cbor2.dumps({1: 2, 3: 4}),
        cbor2.dumps(["all", "of", "it", "text"]),
        cbor2.dumps({"id": 7}) + b"\0",
        cbor2.dumps({"id": 7})[:-1],
        bytes.fromhex("bf6346756ef563416d74ff"),
        bytes.fromhex("bf7f41614161ffff"),
        "ق في".encode(),
        b"\xd9\xd9\xf6\xa1bid\x07",
    ],
)
def test_not_claimed(octets: bytes) -> None:
    assert claimed(Cbor, octets) is Claim.NO
