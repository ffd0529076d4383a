"""MessagePack: we read the same as the library `msgpack`, and report other octets as malformed."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests import strategies
from tests.payloads.headed import Pairs, as_fields, assert_sound
from tests.payloads.reading import NOTHING, START, claimed, dissected, result_of
from tests.zmtp.sides import MANY
from zmtpscope.payloads.api import Claim
from zmtpscope.payloads.headed import Headed
from zmtpscope.payloads.messagepack import MessagePack
from zmtpscope.payloads.side import result_at_once

FIRST_SECOND, LAST_SECOND = -62135596800, 253402300799
"""First and last second of the years 1 to 9999."""

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.sampled_from([0, 127, 128, 255, 256, 2**16 - 1, 2**16, 2**32, -1, -32, -33, -128, -129, -(2**15), -(2**31) - 1]),
    st.floats(),
    st.text(max_size=40),
    st.binary(max_size=40),
    st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=20)),
    st.builds(
        msgpack.Timestamp,
        st.integers(-(2**63), 2**63 - 1) | st.integers(FIRST_SECOND, LAST_SECOND),
        st.integers(0, 10**9 - 1),
    ),
)
KEYS = st.text(max_size=5) | st.integers(-200, 2**64 - 1) | st.binary(max_size=5) | st.none() | st.floats()
VALUES = st.recursive(
    SCALARS, lambda each: st.lists(each, max_size=5) | st.dictionaries(KEYS, each, max_size=5), max_leaves=20
)


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    octets = msgpack.packb(draw(VALUES))
    return draw(st.just(octets) | strategies.damaged(octets) | st.binary(max_size=30))


def by_library(octets: bytes) -> Any:
    """Return the fields that `msgpack` reads, or None. Skips examples with times that only the library rejects."""
    try:
        value = msgpack.unpackb(
            octets,
            unicode_errors="surrogateescape",
            strict_map_key=False,
            use_list=False,  # so that they may be keys
            object_pairs_hook=Pairs,
        )
    except Exception as problem:
        assume("imestamp" not in str(problem) and "nanoseconds" not in str(problem))  # it rejects invalid times
        return None
    return [as_fields(value, special)]


def special(value: Any) -> Any:
    """Extensions and times as we show them."""
    if isinstance(value, msgpack.ExtType):
        return Pairs((("type", value.code), ("data", value.data)))
    if isinstance(value, msgpack.Timestamp):
        if not FIRST_SECOND <= value.seconds <= LAST_SECOND:
            return Pairs((("type", -1), ("data", value.to_bytes())))
        fraction = f".{value.nanoseconds:09}" if value.nanoseconds else ""
        return f"{np.datetime64(value.seconds, 's')}{fraction}Z"
    return value


@MANY
@given(frames())
@example(msgpack.packb([1.5, {"a": [None, {}], 7: b"\xff"}]))
@example(b"\x81\x92\x01\x81\x02\x03\x05")
@example(b"\x82\xa1a\x01\xa1a\x02")
@example(b"\x92\xca\x3d\xcc\xcc\xcd\xa1\xff")
@example(b"\x91\xc7\x00\x05")
@example(b"\x91\xd7\xff" + bytes(8))
def test_fields_match_the_library(octets: bytes) -> None:
    made = assert_sound(MessagePack, octets)
    truth = by_library(octets)
    if made.findings:
        assert truth is None
    else:
        assert repr(truth) == repr([{} if made.fields is None and octets != b"\xc0" else made.fields])


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        ("d6ff 00000000", "1970-01-01T00:00:00Z"),
        ("d6ff ffffffff", "2106-02-07T06:28:15Z"),
        ("d7ff ee6b27fc 00000000", "1970-01-01T00:00:00.999999999Z"),
        ("d7ff ee6b27ff ffffffff", "2514-05-30T01:53:03.999999999Z"),
        ("c70cff 00000001 fffffff1886e0900", "0001-01-01T00:00:00.000000001Z"),
        ("c70cff 00000000 0000003afff4417f", "9999-12-31T23:59:59Z"),
    ],
)
def test_timestamps(octets: str, text: str) -> None:
    assert dissected(MessagePack, b"\x91" + bytes.fromhex(octets)).fields == [text]


@pytest.mark.parametrize(
    "octets",
    [
        "d7ff ee6b2800 00000000",  # 10^9 nanoseconds
        "c70cff 00000000 0000003afff44180",  # in the year 10000
        "c70cff 00000000 7fffffffffffffff",
        "c703ff 000000",
    ],
)
def test_an_invalid_time_is_an_extension(octets: str) -> None:
    [value] = dissected(MessagePack, b"\x91" + bytes.fromhex(octets)).fields
    assert value["type"] == -1
    assert bytes.fromhex(octets).endswith(value["data"])


def test_tree_names_heads_keys_and_values() -> None:
    made = dissected(MessagePack, msgpack.packb({"temperature": 21.5, "tags": ["a"]}), trees=True)
    [tree] = made.nodes[0]
    assert [(leaf.name, leaf.start - START, leaf.length, leaf.value) for leaf in tree.leaves()] == [
        ("messagepack.pairs", 0, 1, 2),
        ("messagepack.key", 1, 12, "temperature"),
        ("messagepack.temperature", 13, 9, "21.5"),
        ("messagepack.key", 22, 5, "tags"),
        ("messagepack.items", 27, 1, 1),
        ("messagepack.0", 28, 2, "a"),
    ]


@pytest.mark.parametrize(
    ("octets", "summary"),
    [
        (b"\xc1", "malformed at octet 0 of frame 0: no value begins with 0xc1"),
        (b"\x92\x01", "malformed at octet 1 of frame 0: items: 2, octets left: 1"),
        (b"\x92\x01\xcd\x02", "malformed at octet 2 of frame 0: the frame ends inside a head"),
        (b"\x91\xa5ab", "malformed at octet 4 of frame 0: 0 needs 6 octets, but only 3 remain"),
        (b"\x91\x01\x02", "malformed at octet 2 of frame 0: octets after the value: 1"),
        (b"\xdf\xff\xff\xff\xff", "malformed at octet 5 of frame 0: pairs: 4294967295, octets left: 0"),
        (b"\x91" * 66, "not read to its end: more than 64 levels"),
        (b"\xdc\x30\x00" + bytes(0x3000), "not read to its end: more than 10000 fields"),
    ],
)
def test_what_is_not_read(octets: bytes, summary: str) -> None:
    assert dissected(MessagePack, octets).summary == summary


def test_first_frame_that_begins_as_one() -> None:
    """If the user named the dissector and no frame holds enough to be claimed, the first that begins as one is read."""
    made = dissected(MessagePack, b"id", b"", b"call", b"\x91\x05", b"\x91\x06", content=1)
    assert made.fields == ["", "call", [5], b"\x91\x06"]
    assert dissected(MessagePack, b"call", b"\x91\x05", b"\x91\xa2ab").fields == ["call", b"\x91\x05", ["ab"]]


@pytest.mark.parametrize(
    "value", [{"id": 7}, {"ok": True}, [0, 1, "add", [1, 2]], [1.5, 2.5], {"x": 1.5}, ["a", "b"], {1: {"ab": None}}]
)
def test_claimed(value: Any) -> None:
    assert claimed(MessagePack, msgpack.packb(value), b"other frame") is Claim.MAYBE


@pytest.mark.parametrize(
    "octets",
    [
        b"\x80",
        b"\x90",
        msgpack.packb([1, 2, 3]),
        msgpack.packb([0] * 15),
        msgpack.packb({1: 2, 3: 4}),
        msgpack.packb([[], [None], {}]),
        msgpack.packb({"id": 7}) + b"\0",
        msgpack.packb({"id": 7})[:-1],
    ],
)
def test_not_claimed(octets: bytes) -> None:
    """Small numbers are one octet each: any few octets are some."""
    assert claimed(MessagePack, octets) is Claim.NO


# -- at once -----------------------------------------------------------------------------------------------------------

PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=5)
USUAL = st.dictionaries(st.text(max_size=3), st.recursive(PLAIN, lambda each: st.lists(each, max_size=3)), max_size=3)


@given(frames() | USUAL.map(msgpack.packb))
@example(msgpack.packb([1, 2, 3]))
@example(msgpack.packb({"k": float("nan"), "key": "text"}))
@example(msgpack.packb({"key": {7: 1e-9}}))
@example(msgpack.packb({"key": b"octets"}))
@example(msgpack.packb({"key": [1e16, 1e-5, 0.0, -0.0, 9e15, 1e-4]}))
@example(msgpack.packb({"key": "\x07\x00"}))
@example(msgpack.packb({"a": "\x07\x00\x01"}))
@example(msgpack.packb({"key": "x" * 300}))
@example(b"\x82\xa3key\x01\xa3key\x02")
@example(b"\xdd\x7f\xff\xff\xff" * 300)
@example(b"\x81\xa3key" + b"\x91" * 70 + b"\x01")
@example(b"\x81" * 1500 + b"\xa3key\x01")
@example(b"\x81\x91\x01\x02")
@example(b"\xdc\x09\xc4" + b"\x01" * 2499 + b"\xa3key")
def test_the_quick_result_equals_the_full_one(octets: bytes) -> None:
    made = result_at_once(MessagePack(NOTHING), octets)
    if made is None:
        return
    read = dissected(MessagePack, octets)
    assert Headed.claims_at_once(MessagePack(NOTHING), octets)
    assert result_of(made) == result_of(read)


@given(st.dictionaries(st.text(max_size=3), st.integers(-(2**63), 2**64 - 1) | st.text(max_size=5), max_size=3))
def test_usual_maps_are_read_at_once(value: dict[str, Any]) -> None:
    value["key"] = [None, True, 1.5]
    made = result_at_once(MessagePack(NOTHING), msgpack.packb(value))
    assert made is not None
    assert made.fields == value
