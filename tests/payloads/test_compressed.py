"""Compressed bodies: the contents are read, no result exceeds its limit, and damage is survived."""

from __future__ import annotations

import gzip
import importlib
import io
import random
import struct
import sys
import zlib
from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.payloads.reading import ABOUT, assert_tiled, claimed, dissected, offsets, registry_of, values
from tests.strategies import damaged
from zmtpscope.payloads.api import Claim, Message, Payload, Reader, Settings
from zmtpscope.payloads.compressed import Compressed, Gzip, Lz4, Zlib, Zstd
from zmtpscope.payloads.dissected import Dissected
from zmtpscope.payloads.json import JsonPayload
from zmtpscope.payloads.limits import (
    FIELDS_AT_FIRST,
    FIELDS_PER_OCTET,
    MAX_SOURCES,
    UNPACKED_AT_FIRST,
    UNPACKED_PER_OCTET,
)
from zmtpscope.payloads.side import SidePayloads
from zmtpscope.payloads.text import Text
from zmtpscope.payloads.unpacking import ALWAYS, MAX_STREAMS, MAX_TIMES, StaysPacked, most_octets, optional

lz4_frame = pytest.importorskip("lz4.frame")
zstandard = pytest.importorskip("zstandard")


class Packer(NamedTuple):
    kind: type[Compressed]
    pack: Callable[[bytes], bytes]


PACKERS = [
    Packer(Gzip, gzip.compress),
    Packer(Zlib, zlib.compress),
    Packer(Zstd, lambda octets: bytes(zstandard.ZstdCompressor(write_checksum=True).compress(octets))),
    Packer(Lz4, lambda octets: bytes(lz4_frame.compress(octets))),
]
EACH = pytest.mark.parametrize("packer", PACKERS, ids=lambda packer: packer.kind.name)
CONCATENATED = pytest.mark.parametrize(
    "packer", [each for each in PACKERS if each.kind is not Zlib], ids=lambda packer: packer.kind.name
)
SKIPPED = b"\x53\x2a\x4d\x18" + struct.pack("<I", 5) + b"hello"
OCTETS = st.one_of(st.binary(max_size=300), st.text(max_size=100).map(str.encode), st.integers(0, 5000).map(bytes))


class Wrong(Payload):
    name = prefix = "wrong"
    begins = b"!"

    def claim(self, message: Message, about: object) -> Claim:
        return Claim.YES

    def dissect(self, message: Message, reader: Reader) -> str:
        raise KeyError("mistake")


def look(*frames: bytes, trees: bool = True) -> Dissected | None:
    """Return the result of all dissectors together for a message."""
    registry = registry_of(Gzip, Lz4, Zlib, Zstd, Text, Wrong)
    side = SidePayloads(registry, [], trees=trees, judging=False)
    return side.dissect(Message(frames, 0, None), ABOUT, offsets(frames))


def found(*frames: bytes, trees: bool = True) -> Dissected:
    made = look(*frames, trees=trees)
    assert made is not None
    return made


@EACH
@given(octets=OCTETS)
def test_what_was_packed_is_unpacked(packer: Packer, octets: bytes) -> None:
    packed = packer.pack(octets)
    assert claimed(packer.kind, packed) is Claim.YES
    made = dissected(packer.kind, packed, trees=True)
    assert made.fields == {"size": len(octets), "complete": True, "payload": None}
    assert made.findings == []
    assert [(source.number, source.octets) for source in made.sources] == [(2, octets)]
    source, start, stop = made.sources[0].origin
    assert (source, stop) == (0, len(packed))
    assert 0 < start < stop
    assert_tiled(made, packed)
    assert values(made.nodes[0])[-1] == ("data", f"source 2: {len(octets)} octets")


@EACH
@given(octets=st.data())
def test_anything_is_survived(packer: Packer, octets: st.DataObject) -> None:
    """Damaged streams, random octets: findings, never a failure; P5; and trees change nothing."""
    body = octets.draw(st.one_of(OCTETS.map(packer.pack).flatmap(damaged), st.binary(max_size=200)))
    packer.kind(Settings()).claim(Message((body,), 0, None), ABOUT)
    made = dissected(packer.kind, body, trees=True)
    assert {finding.id for finding in made.findings} <= {"PAYLOAD-02", "PAYLOAD-03"}
    assert_tiled(made, body)
    plain = dissected(packer.kind, body)
    assert (plain.fields, plain.summary, plain.findings) == (made.fields, made.summary, made.findings)
    assert plain.sources == []


@given(octets=st.binary(max_size=300) | st.text(max_size=300).map(str.encode), start=st.sampled_from(["", "x^", "x\1"]))
def test_nothing_else_is_claimed(octets: bytes, start: str) -> None:
    body = start.encode() + octets
    assert [kind.name for kind, _ in PACKERS if claimed(kind, body) is not Claim.NO] == []


@pytest.mark.parametrize("body", [b"", b"\x1f\x8b\x08", b"\x1f\x8b\x08\xff", b"x\x9c", b"\x28\xb5\x2f\xfd", SKIPPED])
def test_a_magic_alone_is_not_claimed(body: bytes) -> None:
    assert [kind.name for kind, _ in PACKERS if claimed(kind, body) is not Claim.NO] == []


def test_a_long_zlib_stream_that_is_not_over_may_be_one() -> None:
    packed = zlib.compress(bytes(range(256)) * 8 + b"".join(struct.pack(">Q", each**5) for each in range(999)))
    assert claimed(Zlib, packed[:-50]) is Claim.MAYBE
    assert claimed(Zlib, packed[:40]) is Claim.NO


def test_text_in_gzip() -> None:
    octets = b"the quick brown fox" * 10
    packed = gzip.compress(octets, mtime=7)
    made = found(packed)
    assert made.protocol == "gzip"
    assert made.summary == f"{len(packed)} -> 190 octets, text {octets.decode()}"[:199] + "…"
    assert made.fields["payload"] == {"protocol": "text", "summary": octets.decode(), "fields": None}
    assert ("mtime", 7) in values(made.nodes[0])
    assert made.sources[0].tree.value == octets


def test_the_header_of_gzip() -> None:
    file = io.BytesIO()
    with gzip.GzipFile("prices.json", "wb", fileobj=file) as writer:
        writer.write(b"{}")
    packed = bytearray(file.getvalue())
    packed[3] |= 4 | 16 | 2
    packed[10:10] = b"\2\0ab"
    at = packed.index(b"\0", 14) + 1
    packed[at:at] = b"note\0"
    packed[at + 5 : at + 5] = struct.pack("<H", zlib.crc32(packed[: at + 5]) & 0xFFFF)
    made = dissected(Gzip, bytes(packed), trees=True)
    assert made.fields["complete"] is True
    assert_tiled(made, bytes(packed))
    named = dict(values(made.nodes[0]))
    assert (named["extra"], named["name"], named["comment"]) == (b"ab", b"prices.json\0", b"note\0")


@CONCATENATED
def test_streams_one_behind_the_other_are_one(packer: Packer) -> None:
    body = packer.pack(b"one ") + packer.pack(b"") + packer.pack(b"two") + b"\0\0"
    made = found(body)
    assert made.fields["size"] == 7
    assert made.fields["payload"]["summary"] == "one two"
    assert made.fields["trailing"] == b"\0\0"
    assert made.findings == []
    assert_tiled(made, body)


@CONCATENATED
def test_too_many_streams(packer: Packer) -> None:
    made = dissected(packer.kind, packer.pack(b"a") * (MAX_STREAMS + 1))
    assert made.fields["size"] == MAX_STREAMS
    assert [finding.id for finding in made.findings] == ["PAYLOAD-02"]


def test_behind_a_zlib_stream_nothing_is_unpacked() -> None:
    packed = zlib.compress(b"one")
    assert dissected(Zlib, packed + packed).fields == {
        "size": 3,
        "complete": True,
        "payload": None,
        "trailing": packed,
    }


@pytest.mark.parametrize("packer", PACKERS[2:], ids=lambda packer: packer.kind.name)
def test_frames_that_are_skipped(packer: Packer) -> None:
    body = SKIPPED + SKIPPED + packer.pack(b"one ") + SKIPPED + packer.pack(b"two")
    assert claimed(packer.kind, body) is Claim.YES
    made = found(body)
    assert made.protocol == packer.kind.name
    assert made.fields["payload"]["summary"] == "one two"
    assert values(made.nodes[0])[:3] == [("magic", SKIPPED[:4]), ("size", 5), ("content", b"hello")]
    assert_tiled(made, body)


@EACH
def test_bombs(packer: Packer) -> None:
    """A stream that becomes far larger is unpacked up to its limit, and its beginning is read."""
    packed = packer.pack(b"a" * (64 << 20))
    limit = most_octets(len(packed), 16 << 20)
    made = found(packed)
    assert limit == max(ALWAYS, min(MAX_TIMES * len(packed), (16 << 20) - len(packed)))
    assert made.fields["size"] == limit
    assert made.fields["complete"] is False
    assert made.fields["payload"]["protocol"] == "text"
    assert [finding.id for finding in made.findings] == ["PAYLOAD-06"]
    assert f"{len(packed)} octets become more than {limit}" in str(made.findings[0].detail)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (Lz4, b"\x04\x22\x4d\x18\x6c\x70" + struct.pack("<Q", 2**60) + b"\x83" + bytes(4)),
        (Zstd, b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 2**60) + b"\1\0\0"),
        (Zstd, b"\x28\xb5\x2f\xfd\x00\xff" + b"\1\0\0"),
    ],
)
def test_announced_sizes_are_not_trusted(kind: type[Payload], body: bytes) -> None:
    """Sizes and windows of many GiB cost nothing."""
    made = dissected(kind, body)
    assert {finding.id for finding in made.findings} <= {"PAYLOAD-02", "PAYLOAD-03"}
    assert made.findings


def test_large_contents_are_no_bomb() -> None:
    packed = gzip.compress(random.Random(1).randbytes(10 << 20), 1)
    made = dissected(Gzip, packed)
    assert made.fields["size"] == (16 << 20) - len(packed)
    assert [finding.id for finding in made.findings] == ["PAYLOAD-02"]


def test_packed_in_packed_ends() -> None:
    body = b"text"
    for _ in range(MAX_SOURCES + 3):
        body = gzip.compress(body)
    made = found(body)
    assert [source.number for source in made.sources] == [2, 3, 4, 5]
    assert [source.origin[0] for source in made.sources] == [0, 2, 3, 4]
    assert [finding.id for finding in made.findings] == ["PAYLOAD-05"]
    inner = made.fields
    for _ in range(MAX_SOURCES):
        inner = inner["payload"]["fields"]
    assert inner["payload"] is None
    assert_tiled(made, body)


@EACH
def test_fields_before_a_cut_or_damage_are_kept(packer: Packer) -> None:
    octets = b"".join(b"line %d of many\n" % each for each in range(20_000))
    packed = packer.pack(octets)
    middle = len(packed) // 2
    for body in packed[:middle], packed[:middle] + b"\xff" * 40 + packed[middle + 40 :]:
        made = found(body)
        assert 0 < made.fields["size"] <= len(octets)
        assert made.fields["complete"] is False
        assert made.fields["payload"]["summary"].startswith("line 0 of many")
        assert [finding.id for finding in made.findings] == ["PAYLOAD-03"]
        assert_tiled(made, body)


def test_small_damage_costs_only_what_follows() -> None:
    packed = bytearray(gzip.compress(b"abcdefgh" * 3))
    packed[-5] ^= 1  # of the size after the checksum
    made = found(bytes(packed))
    assert made.fields["payload"]["summary"] == "abcdefgh" * 3
    assert "damaged after 24 octets" in str(made.findings[0].detail)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (Zlib, b"\x78\xbb" + bytes(20)),
        (Zstd, b"\x28\xb5\x2f\xfd\x21\x07\x05" + bytes(20)),
        (Lz4, b"\x04\x22\x4d\x18\x41\x40\x07\0\0\0" + bytes(20)),
    ],
)
def test_dictionaries(kind: type[Payload], body: bytes) -> None:
    made = dissected(kind, body)
    assert "dictionary" in made.summary
    assert made.findings == []


@pytest.mark.parametrize(("kind", "module"), [(Zstd, "zstandard"), (Lz4, "lz4.frame")])
@pytest.mark.skipif(sys.version_info >= (3, 14), reason="zstd is part of Python")
def test_without_the_package(kind: type[Compressed], module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pack = next(packer.pack for packer in PACKERS if packer.kind is kind)
    packed = pack(b"hello")
    monkeypatch.setitem(sys.modules, module, None)
    made = found(packed)
    assert made.protocol == kind.name
    assert made.summary == f"{len(packed)} octets; install zmtpscope[compression] to decompress it"
    assert made.findings == []
    assert_tiled(made, packed)


def test_a_package_that_is_there() -> None:
    assert optional("zlib") is importlib.import_module("zlib")
    with pytest.raises(StaysPacked):
        optional("no_such_package")


def test_each_frame_is_unpacked() -> None:
    packed = gzip.compress(b"one")
    made = found(packed, b"\0", packed)
    assert [each if isinstance(each, bytes) else each["size"] for each in made.fields] == [3, b"\0", 3]
    assert len(made.sources) == 2
    assert_tiled(made, packed, b"\0", packed)


def test_a_failure_inside_is_reported() -> None:
    made = found(gzip.compress(b"! says who"))
    assert made.fields["payload"] is None
    assert [finding.id for finding in made.findings] == ["PAYLOAD-01"]


def of_one_side(*kinds: type[Payload]) -> Callable[[bytes], Dissected]:
    """Return a function that gives the results of a side's dissectors for consecutive messages."""
    side = SidePayloads(registry_of(*kinds), [], trees=False, judging=False)

    def next_message(body: bytes) -> Dissected:
        made = side.dissect(Message((body,), 0, None), ABOUT, offsets((body,)))
        assert made is not None
        return made

    return next_message


@EACH
def test_what_messages_of_a_side_become_stays_in_proportion_to_them(packer: Packer) -> None:
    packed = packer.pack(bytes(1 << 20))
    next_message = of_one_side(packer.kind)
    made = [next_message(packed) for _ in range(200)]
    sizes = [each.fields["size"] for each in made if "size" in (each.fields or {})]
    times = (1 << 20) / len(packed)
    assert sizes[:15] == [1 << 20] * 15
    if times > UNPACKED_PER_OCTET:
        assert sum(sizes) < UNPACKED_AT_FIRST + UNPACKED_PER_OCTET * 200 * len(packed) + (1 << 20)
        summaries = {each.summary for each in made if "size" not in (each.fields or {})}
        (summary,) = summaries
        assert "not decompressed: the messages of this side expand to more than 100 times their size" in summary
    else:
        assert sizes == [1 << 20] * 200


@pytest.mark.parametrize("kept", [1, 100, 5000])
def test_a_message_is_not_blamed_for_what_others_used_up(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is called a bomb, or too large, that would be unpacked if it were first."""
    packed = zlib.compress(bytes(1 << 20))
    monkeypatch.setattr("zmtpscope.payloads.limits.UNPACKED_AT_FIRST", kept)
    made = of_one_side(Zlib)(packed)
    assert made.findings == []
    assert "not decompressed: the messages of this side" in str(made.summary)


@pytest.mark.slow
def test_usual_messages_are_unpacked_however_many_there_are() -> None:
    text = b"".join(b'{"time": %d, "sensor": "outside", "value": 21.5}\n' % number for number in range(400))
    packed = zlib.compress(text, 9)
    next_message = of_one_side(Zlib, JsonPayload)
    for _ in range(500):
        made = next_message(packed)
        assert made.fields["complete"] is True
        assert made.findings == []


def test_fields_of_what_was_packed_stay_in_proportion_to_the_messages() -> None:
    packed = zlib.compress(b"[" + b"1," * 9_000 + b"1]", 9)
    next_message = of_one_side(Zlib, JsonPayload)
    made = [next_message(packed) for _ in range(100)]
    count = sum(len(each.fields["payload"]["fields"] or ()) for each in made if each.fields["payload"])
    assert FIELDS_AT_FIRST - 9_000 < count < FIELDS_AT_FIRST + FIELDS_PER_OCTET * 100 * len(packed)
    assert made[0].findings == []
    limited = [each for each in made if each.findings]
    assert {finding.id for each in limited for finding in each.findings} == {"PAYLOAD-02"}
    assert limited[0].fields["payload"]["summary"].startswith("not read to its end")
