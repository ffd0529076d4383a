"""Unpack compressed data in pieces, up to a limit, whatever sizes the stream announces."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

ALWAYS = 1 << 20
"""Number of octets that any data may unpack to."""
MAX_TIMES = 100
"""Maximum ratio of unpacked to packed size above `ALWAYS`."""
FAR_LARGER = 10
"""Ratio to the limit above which data is called a decompression bomb."""
MAX_STREAMS = 1000


class Unpacker(Protocol):
    """A decompressor as in zlib: call `decompress` with pieces until `eof`. `unused_data` follows the stream."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes | None: ...
    def decompress(self, data: bytes, /) -> bytes: ...


class Format(NamedTuple):
    """A compression format: the constructor of its `Unpacker`, and the magic numbers of streams that may follow.

    `piece` is the size of a piece in octets, which unpacks to at most 16 MiB.
    """

    unpacker: Callable[[], Unpacker]
    piece: int = 16 << 10
    magics: tuple[bytes, ...] = ()


class Problem(NamedTuple):
    """Why data could not be unpacked: the id of a finding, its detail, and a word for the summary."""

    id: str
    detail: str
    word: str


class Unpacked(NamedTuple):
    """Unpacked data.

    `octets` are the contents of the compressed streams up to index `stop`, or up to the `problem`. `made` is how many
    octets were unpacked, possibly above the limit.
    """

    octets: bytes
    stop: int
    problem: Problem | None
    made: int


class StaysPacked(Exception):
    """Compressed data is valid, but cannot be unpacked here; the text is the reason."""


def most_octets(packed: int, left: int) -> int:
    """Return the maximum unpacked size of `packed` octets, if the message may still use `left` octets."""
    return max(0, min(left - packed, max(ALWAYS, MAX_TIMES * packed)))


def unpack(form: Format, packed: bytes, limit: int) -> Unpacked:
    """Unpack compressed streams to at most `limit` octets. Raises `StaysPacked`."""
    parts: list[bytes] = []
    size = at = 0
    problem: Problem | None = None
    for _ in range(MAX_STREAMS):
        begin, unpacker = at, form.unpacker()
        while not unpacker.eof and problem is None:
            piece = packed[at : at + form.piece]
            try:
                octets = unpacker.decompress(piece)
            except Exception as error:  # each package has its own exceptions
                octets = _before_damage(form, packed, begin, at)
                problem = Problem("PAYLOAD-03", f"damaged after {size + len(octets)} octets: {error}", "damaged")
            parts.append(octets)
            size += len(octets)
            at += len(piece)
            if size > limit:
                problem = _too_much(len(packed), limit)
            elif not piece:
                problem = Problem("PAYLOAD-03", f"truncated after {size} octets", "cut short")
        if problem is None:
            at -= len(unpacker.unused_data or b"")
        if problem is not None or not packed.startswith(form.magics, at):
            break
    else:
        problem = Problem("PAYLOAD-02", f"more than {MAX_STREAMS} streams", "and more")
    return Unpacked(b"".join(parts)[:limit], at if problem is None else len(packed), problem, size)


def _too_much(packed: int, limit: int) -> Problem:
    times = limit // packed
    id = "PAYLOAD-06" if times >= FAR_LARGER else "PAYLOAD-02"
    return Problem(id, f"{packed} octets become more than {limit}, {times} times as many", "and more")


def _before_damage(form: Format, packed: bytes, begin: int, at: int) -> bytes:
    """Unpack the piece at index `at` octet by octet, up to its damage.

    The stream starts at index `begin`.
    """
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
    """Import an optional package. Raises `StaysPacked` if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise StaysPacked("install zmtpscope[compression] to decompress it") from None
