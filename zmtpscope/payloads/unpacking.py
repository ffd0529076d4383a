"""Unpacks what a peer has compressed: piece by piece and no further than a limit, whatever the stream announces."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

ALWAYS = 1 << 20
"""Octets that anything may become."""
MOST_TIMES = 100
"""What becomes more octets than `ALWAYS` may become so many times as many."""
FAR_LARGER = 10
"""What becomes so many times as many octets, and more than is unpacked, is taken for a bomb."""
MOST_STREAMS = 1000
"""Streams one behind the other that are unpacked."""


class Unpacker(Protocol):
    """Unpacks one stream, as in zlib: fed with pieces until `eof`; what followed it is in `unused_data` then."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes | None: ...
    def decompress(self, data: bytes, /) -> bytes: ...


class Format(NamedTuple):
    """How a stream is unpacked: what makes an `Unpacker`; octets of a piece, which never become more than 16 MiB; and
    what streams begin with that may follow the first."""

    unpacker: Callable[[], Unpacker]
    piece: int = 16 << 10
    magics: tuple[bytes, ...] = ()


class Problem(NamedTuple):
    """Why not all was unpacked: the finding that says so, its detail, and a word for the summary."""

    id: str
    detail: str
    word: str


class Unpacked(NamedTuple):
    """`octets` is what the streams hold that end at `stop`; where there is a problem, what could be had of it. `made`
    octets came of it: pieces may become more than the limit."""

    octets: bytes
    stop: int
    problem: Problem | None
    made: int


class StaysPacked(Exception):
    """It cannot be unpacked here, although nothing is wrong with it; the text says why."""


def most_octets(packed: int, left: int) -> int:
    """What `packed` octets may become, where `left` octets may still be read of their message."""
    return max(0, min(left - packed, max(ALWAYS, MOST_TIMES * packed)))


def unpack(form: Format, packed: bytes, limit: int) -> Unpacked:
    """What the streams at the front of `packed` hold, at most `limit` octets. Raises `StaysPacked`."""
    parts: list[bytes] = []
    size = at = 0
    problem: Problem | None = None
    for _ in range(MOST_STREAMS):
        begin, unpacker = at, form.unpacker()
        while not unpacker.eof and problem is None:
            piece = packed[at : at + form.piece]
            try:
                octets = unpacker.decompress(piece)
            except Exception as error:  # each package has classes of its own
                octets = _before_damage(form, packed, begin, at)
                problem = Problem("PAYLOAD-03", f"damaged behind {size + len(octets)} octets: {error}", "damaged")
            parts.append(octets)
            size += len(octets)
            at += len(piece)
            if size > limit:
                problem = _too_much(len(packed), limit)
            elif not piece:
                problem = Problem("PAYLOAD-03", f"cut short behind {size} octets", "cut short")
        if problem is None:
            at -= len(unpacker.unused_data or b"")
        if problem is not None or not packed.startswith(form.magics, at):
            break
    else:
        problem = Problem("PAYLOAD-02", f"more than {MOST_STREAMS} streams", "and more")
    return Unpacked(b"".join(parts)[:limit], at if problem is None else len(packed), problem, size)


def _too_much(packed: int, limit: int) -> Problem:
    times = limit // packed
    id = "PAYLOAD-06" if times >= FAR_LARGER else "PAYLOAD-02"
    return Problem(id, f"{packed} octets become more than {limit}, {times} times as many", "and more")


def _before_damage(form: Format, packed: bytes, begin: int, at: int) -> bytes:
    """What the piece at `at` gives in front of its damage, of a stream that begins at `begin`: octet by octet."""
    unpacker = form.unpacker()
    for start in range(begin, at, form.piece):
        unpacker.decompress(packed[start : start + form.piece])
    octets = bytearray()
    try:
        for start in range(at, min(at + form.piece, len(packed))):
            octets += unpacker.decompress(packed[start : start + 1])
    except Exception:  # the damage
        return bytes(octets)
    return bytes(octets)


def optional(name: str) -> Any:
    """The module `name` of an optional package. Raises `StaysPacked` where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise StaysPacked("install zmtpscope[compression] to see what is inside") from None
