"""One case of a campaign: capture files made from a conversation and changes, and options for reading them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.fuzz.changes import (
    COMPRESSIONS,
    FILE_CHANGES,
    HARMLESS,
    PACKET_CHANGES,
    SEGMENT_CHANGES,
    SPLICES,
    Packets,
    Segments,
    written,
)
from tests.fuzz.talks import MAX_PACKETS, Talk, of_our_own, part_of
from tests.fuzz.wire import framed
from zmtpscope.dissect import DecodeAs

CHAPTER = 2000
"""Number of cases that share generated conversations."""

READINGS: tuple[dict[str, Any], ...] = (
    *[{}] * 8,
    {"bodies": "none"},
    {"bodies": "head", "head": 3},
    {"body_limit": 20},
    {"payloads": None},
    {"decode_as": (DecodeAs("tcp.port", 5555, "3.1"),)},
    {"decode_as": (DecodeAs("tcp.port", 5555, "3.0", "CURVE"),)},
    {"decode_as": (DecodeAs("tcp.port", 5555, "1.0"),)},
    {"decode_as": (DecodeAs("tcp.port", 5555, "2.0", payload=("json", None)),)},
)
"""Options that a user may choose, as arguments of `Options`."""


@dataclass(frozen=True)
class Case:
    """A case. `files` are captures as octets, `keys` a key file, `reading` arguments of `Options`, `made` the changes.

    `talk` is the origin. Random choices of checks depend on `salt`.
    """

    files: tuple[bytes, ...]
    keys: str = ""
    reading: dict[str, Any] = field(default_factory=dict)
    made: tuple[str, ...] = ()
    talk: Talk | None = None
    salt: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether this is an unchanged, complete capture of correct peers."""
        return self.talk is not None and self.talk.honest and len(self.made) == 1

    @property
    def is_harmless(self) -> bool:
        """Whether all octets of both sides are present."""
        return HARMLESS.issuperset(self.made[1:])

    @property
    def octets(self) -> int:
        return sum(map(len, self.files))


def case_of(seed: int, number: int, real: Sequence[Talk]) -> Case:
    """Return the case with this number: the same for the same seed, number and real captures."""
    random = Random(f"{seed} {number}")
    talks = real if real and random.random() < 0.5 else of_our_own(seed * 1_000_003 + number // CHAPTER)
    talk = chosen(talks, random)
    reading = random.choice(READINGS)
    salt = random.getrandbits(32)
    if random.random() < 0.1:
        return Case((written(list(talk.packets), random),), talk.keys, reading, (talk.name,), talk, salt)
    made = [talk.name]
    packets = list(talk.packets)
    if talk.segments and random.random() < 0.8:
        packets = list(map(framed, _segments_changed(talk, talks, random, made)))
    if random.random() < 0.3:
        for name in random.sample(sorted(PACKET_CHANGES), random.choice((1, 1, 2))):
            packets = PACKET_CHANGES[name](packets, random)
            made.append(name)
    return Case(_files(packets, random, made), talk.keys, reading, tuple(made), talk, salt)


def chosen(talks: Sequence[Talk], random: Random) -> Talk:
    """Choose a conversation or a part of one, mostly from its start."""
    talk = random.choice(talks)
    longer = len(talk.packets) - MAX_PACKETS
    return part_of(talk, random.randrange(longer) if random.random() < 0.3 else 0) if longer > 0 else talk


def _segments_changed(talk: Talk, talks: Sequence[Talk], random: Random, made: list[str]) -> Segments:
    segments = list(talk.segments)
    if random.random() < 0.15:
        name = random.choice(sorted(SPLICES))
        other = chosen(talks, random)
        segments = SPLICES[name](segments, list(other.segments), random)
        made += [f"{name} {other.name}"]
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 5))):
        name = random.choice(sorted(SEGMENT_CHANGES))
        if segments:
            segments = SEGMENT_CHANGES[name](segments, random)
            made.append(name)
    if "retimed" not in made and random.random() < 0.8:  # otherwise times are moved with the packets
        times = sorted(segment.time for segment in segments)
        segments = [segment._replace(time=time) for segment, time in zip(segments, times, strict=True)]
    return segments


def _files(packets: Packets, random: Random, made: list[str]) -> tuple[bytes, ...]:
    parts = [packets]
    if random.random() < 0.05:
        middle = random.randrange(len(packets) + 1)
        parts = [packets[:middle], packets[middle:]]
        made.append("two files")
    files = []
    for part in parts:
        octets = written(part, random)
        if random.random() < 0.15:
            octets = _changed(octets, random, made)
        if random.random() < 0.08:
            name = random.choice(sorted(COMPRESSIONS))
            octets = COMPRESSIONS[name](octets, random)
            made.append(name)
            if random.random() < 0.5:
                octets = _changed(octets, random, made)
        files.append(octets)
    return tuple(files)


def _changed(octets: bytes, random: Random, made: list[str]) -> bytes:
    name = random.choice(sorted(FILE_CHANGES))
    made.append(name)
    return FILE_CHANGES[name](octets, random)
