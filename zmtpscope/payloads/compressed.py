"""Compressed bodies: gzip (RFC 1952), zlib (RFC 1950), zstd (RFC 8878) and LZ4 frames.

The unpacked octets are dissected in turn, and have a source number of their own (see `Source`).
"""

from __future__ import annotations

import sys
import zlib
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import ClassVar

from zmtpscope.payloads.api import Claim, Json, Malformed, Reader
from zmtpscope.payloads.dissectors import SKIPPABLE
from zmtpscope.payloads.framewise import Framewise
from zmtpscope.payloads.limits import UNPACKED_PER_OCTET, Limit
from zmtpscope.payloads.unpacking import Format, StaysPacked, Unpacker, most_octets, optional, unpack

LARGEST_WINDOW = 16 << 20
"""Maximum octets of a zstd window: the memory that a decoder allocates."""

SKIPPABLE_HEADER = 8
USED_UP = f"not decompressed: the messages of this side expand to more than {UNPACKED_PER_OCTET} times their size"
MAX_SKIPPED = 4
"""Skippable frames that `claim` skips."""


class Compressed(Framewise[bool]):
    """Base of the dissectors of compressed frames. Octets after the compressed stream are not changed."""

    judges = True

    def form(self) -> Format:
        """Return how the frame is compressed. Raises `StaysPacked` if it cannot be unpacked here."""
        raise NotImplementedError

    def header(self, reader: Reader) -> None:
        """Read the header of the first compressed stream into the field tree.

        Raises `StaysPacked` if it cannot be unpacked here, or `Malformed` if it is no header.
        """
        raise NotImplementedError

    @abstractmethod
    def claim_of(self, octets: bytes) -> Claim:
        """Return the claim on a frame: whether it has this format."""

    def recognise(self, octets: bytes) -> tuple[Claim, bool | None]:
        claim = self.claim_of(octets)
        return claim, True if claim else None

    def read_frame(self, reader: Reader, known: bool | None, values: list[Json]) -> str:
        packed = reader.left
        allowance = reader.budget.allowance
        limit = most_octets(packed, reader.budget.octets)
        try:
            self.header(reader)
            if allowance.octets <= 0:
                raise StaysPacked(USED_UP)
            octets, stop, problem, made = unpack(self.form(), reader.data, min(limit, allowance.octets))
            allowance.octets -= made
            if allowance.octets < 0 and made <= limit:  # the side exceeds its budget; the message is within its limit
                raise StaysPacked(USED_UP)
        except StaysPacked as reason:
            return f"{packed} octets; {reason}"
        if problem is not None:
            reader.finding(problem.id, reader.offset, reader.left, detail=f"{self.name}: {problem.detail}")
        fields: dict[str, Json] = {"size": len(octets), "complete": problem is None}
        values.append(fields)
        opened = reader.unpacked("data", stop - reader.position, octets)
        fields["payload"] = None if opened.protocol is None else opened._asdict()
        if reader.left:
            fields["trailing"] = reader.octets("trailing", hidden=True)
        word = f" ({problem.word})" if problem is not None else ""
        inside = f", {opened.protocol} {opened.summary}" if opened.protocol is not None else ""
        return f"{packed} -> {len(octets)} octets{word}{inside}"


class Gzip(Compressed):
    name = prefix = "gzip"
    magic = b"\x1f\x8b\x08"
    begins = (magic,)

    def claim_of(self, octets: bytes) -> Claim:
        flags = octets[len(self.magic) : len(self.magic) + 1]
        return Claim.YES if octets.startswith(self.magic) and flags and not flags[0] & 0xE0 else Claim.NO

    def form(self) -> Format:
        return Format(lambda: zlib.decompressobj(wbits=31), magics=(self.magic,))

    def header(self, reader: Reader) -> None:
        if reader.octets("magic", len(self.magic), hidden=True) != self.magic:
            raise Malformed("it has no gzip header")
        flags = reader.u8("flags", hidden=True)
        reader.u32("mtime", little=True, hidden=True)
        reader.u8("extra_flags", hidden=True)
        reader.u8("system", hidden=True)
        if flags & 4:
            reader.octets("extra", reader.u16("extra_size", little=True, hidden=True), hidden=True)
        for name, flag in ("name", 8), ("comment", 16):
            if flags & flag:
                end = reader.data.find(b"\0", reader.position)
                length = reader.stop if end < 0 else end + 1 - reader.position
                reader.octets(name, length, hidden=True)
        if flags & 2:
            reader.u16("header_checksum", little=True, hidden=True)


class Zlib(Compressed):
    """A zlib stream (RFC 1950) with the usual window of 32 KiB."""

    name = prefix = "zlib"
    HEADERS = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
    """Headers of streams without a dictionary, one per compression level."""
    begins = HEADERS
    LOOKED_AT = 1024
    """Packed octets that `claim` unpacks at most."""
    MAX_EXAMINED = 4 << 10
    """Unpacked octets after which `claim` stops."""
    ENOUGH = 64
    """Minimum octets of a claimed body: a few octets of text, such as `x^2`, may unpack without error."""

    def claim_of(self, octets: bytes) -> Claim:
        if not octets.startswith(self.HEADERS):
            return Claim.NO
        unpacker = zlib.decompressobj()
        try:
            unpacked = unpacker.decompress(octets[: self.LOOKED_AT], self.MAX_EXAMINED)
        except zlib.error:
            return Claim.NO
        if unpacker.eof or len(unpacked) == self.MAX_EXAMINED:
            return Claim.YES
        return Claim.MAYBE if len(octets) >= self.ENOUGH else Claim.NO

    def form(self) -> Format:
        return Format(zlib.decompressobj)

    def header(self, reader: Reader) -> None:
        header = reader.u16("header", hidden=True)
        if header % 31 or header >> 8 & 15 != 8:
            raise Malformed("it has no zlib header")
        if header & 0x20:
            raise StaysPacked("it was compressed with an unknown dictionary")


class Framed(Compressed):
    """Base for zstd and LZ4: frames, with optional skippable frames between them.

    `fixed`: mask and value of the constant bits after the magic number.
    """

    magic: ClassVar[bytes]
    fixed: ClassVar[tuple[int, int]]

    def claim_of(self, octets: bytes) -> Claim:
        at = 0
        for _ in range(MAX_SKIPPED):
            if not octets.startswith(SKIPPABLE, at):
                break
            at += SKIPPABLE_HEADER + int.from_bytes(octets[at + 4 : at + SKIPPABLE_HEADER], "little")
        if not octets.startswith(self.magic, at) or len(octets) == at + len(self.magic):
            return Claim.NO
        mask, value = self.fixed
        return Claim.YES if octets[at + len(self.magic)] & mask == value else Claim.NO

    def header(self, reader: Reader) -> None:
        while reader.data.startswith(SKIPPABLE, reader.position):
            with reader.group("skipped"):
                reader.octets("magic", len(self.magic), hidden=True)
                reader.octets("content", reader.u32("size", little=True, hidden=True), hidden=True)
        if reader.octets("magic", len(self.magic), hidden=True) != self.magic:
            raise Malformed(f"it has no {self.name} header")
        self.frame_header(reader, reader.u8("flags", hidden=True))

    def frame_header(self, reader: Reader, flags: int) -> None:
        raise NotImplementedError


class Zstd(Framed):
    name = prefix = "zstd"
    magic = b"\x28\xb5\x2f\xfd"
    begins = (magic, *SKIPPABLE)
    fixed = 0x08, 0

    def form(self) -> Format:
        return Format(zstd_unpacker(), piece=512, magics=(self.magic, *SKIPPABLE))  # 4 octets may become 128 KiB

    def frame_header(self, reader: Reader, flags: int) -> None:
        window = 0
        if not (single := bool(flags & 0x20)):
            descriptor = reader.u8("window", hidden=True)
            window = (8 + (descriptor & 7)) << (7 + (descriptor >> 3))
        dictionary = reader.number("dictionary", (0, 1, 2, 4)[flags & 3], little=True, hidden=True)
        length = (int(single), 2, 4, 8)[flags >> 6]
        octets = reader.data[reader.position : reader.position + length]
        size = int.from_bytes(octets, "little") + (256 if length == 2 else 0)
        reader.value("content_size", length, size, hidden=True)
        if dictionary:
            raise StaysPacked(f"it was compressed with the unknown dictionary {dictionary}")
        if max(window, size if single else 0) > LARGEST_WINDOW:
            raise Limit("PAYLOAD-02", f"decompression needs a window of more than {LARGEST_WINDOW >> 20} MiB")


class Lz4(Framed):
    """One or more LZ4 frames (lz4_Frame_format.md, version 1.6)."""

    name = prefix = "lz4"
    magic = b"\x04\x22\x4d\x18"
    begins = (magic, *SKIPPABLE)
    fixed = 0xC2, 0x40

    def form(self) -> Format:
        return Format(optional("lz4.frame").LZ4FrameDecompressor, magics=(self.magic, *SKIPPABLE))

    def frame_header(self, reader: Reader, flags: int) -> None:
        reader.u8("block_size", hidden=True)
        if flags & 0x08:
            reader.u64("content_size", little=True, hidden=True)
        if flags & 0x01:
            dictionary = reader.u32("dictionary", little=True, hidden=True)
            raise StaysPacked(f"it was compressed with the unknown dictionary {dictionary}")
        reader.u8("header_checksum", hidden=True)


def zstd_unpacker() -> Callable[[], Unpacker]:
    """Return the constructor of a zstd decompressor: Python's own (3.14) or that of `zstandard`.

    Raises `StaysPacked` without either.
    """
    unpacker: Callable[[], Unpacker]
    if sys.version_info >= (3, 14):
        from compression.zstd import DecompressionParameter, ZstdDecompressor

        window = {DecompressionParameter.window_log_max: LARGEST_WINDOW.bit_length() - 1}
        unpacker = partial(ZstdDecompressor, options=window)
    else:
        unpacker = optional("zstandard").ZstdDecompressor(max_window_size=LARGEST_WINDOW).decompressobj
    return unpacker
