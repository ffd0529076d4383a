"""WebSocket frames (RFC 6455, section 5)."""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.zmtp.reader import Cut, Reader

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
CONTROL = 8
"""The lowest opcode of control frames, which may separate the fragments of a message."""

LARGEST_CONTROL = 125
"""Maximum payload octets of a control frame."""

FINAL, RESERVED, OPCODE = 0x80, 0x70, 0x0F
MASKED, LENGTH = 0x80, 0x7F
FIRST_BITS = (("websocket.final", FINAL), ("websocket.reserved", RESERVED), ("websocket.opcode", OPCODE))
SECOND_BITS = (("websocket.masked", MASKED), ("websocket.length.short", LENGTH))

EXTENDED = {126: 2, 127: 8}
"""Octets of the extended length, by the short length that announces it."""

KEY_SIZE = 4
LARGEST_HEADER = 2 + 8 + KEY_SIZE

HEAD_END = b"\r\n\r\n"
"""End of the HTTP head, after which frames start."""


class FrameHeader(NamedTuple):
    """A WebSocket frame header.

    `size` is that of the payload in octets, `reserved` the three reserved bits as a number. `shortest`: the size is
    encoded in its shortest form.
    """

    final: bool
    reserved: int
    opcode: int
    masked: bool
    size: int
    shortest: bool

    @property
    def is_control(self) -> bool:
        """Whether the frame is a close, a ping or a pong, or has an opcode reserved for further control frames."""
        return self.opcode >= CONTROL


def read_frame_header(reader: Reader) -> FrameHeader:
    """Read a frame header with its masking key. Raises `Cut` if it is incomplete."""
    start = reader.offset
    first = reader.u8("websocket.flags")
    reader.bits(FIRST_BITS)
    second = reader.u8("websocket.length")
    reader.bits(SECOND_BITS)
    size, shortest = second & LENGTH, True
    if size == 126:
        size = reader.u16("websocket.length.extended")
        shortest = size >= 126
    elif size == 127:
        size = reader.u64("websocket.length.extended")
        shortest = size > 0xFFFF
    if second & MASKED:
        reader.octets("websocket.key", KEY_SIZE)
    reader.size_span = (start + 1, reader.offset - start - 1)
    return FrameHeader(
        bool(first & FINAL), (first & RESERVED) >> 4, first & OPCODE, bool(second & MASKED), size, shortest
    )


def repeated(key: bytes, size: int) -> bytes:
    return (key * (size // KEY_SIZE + 1))[:size]


def combined(octets: bytes, masks: bytes) -> bytes:
    return (int.from_bytes(octets, "big") ^ int.from_bytes(masks, "big")).to_bytes(len(octets), "big")


class Unmasking:
    """Removes the masks from the WebSocket frames of one side.

    Headers and masking keys remain, so every octet keeps its stream offset. Pass the octets to `feed` in order, and the
    number of lost octets to `skip`.
    """

    __slots__ = ("_in_head", "_key", "_left", "_start")

    def __init__(self) -> None:
        self._in_head = True
        self._start = b""
        """An incomplete header, or the last octets of the HTTP head so far."""
        self._left = 0
        """Octets left of the current payload."""
        self._key = b""
        """The masking key, rotated to the next octet; empty if the payload is not masked."""

    def feed(self, octets: bytes) -> bytes:
        """Return the next octets of the side without their masks."""
        at = self._pass_head(octets) if self._in_head else 0
        length = len(octets)
        masks: list[bytes] = []
        done = 0
        while at < length:
            if not self._left:
                at = self._pass_header(octets, at)
                continue
            stop = min(at + self._left, length)
            if self._key:
                masks += (bytes(at - done), repeated(self._key, stop - at))
                done = stop
            self.skip(stop - at)
            at = stop
        if not masks:
            return octets
        masks.append(bytes(length - done))
        return combined(octets, b"".join(masks))

    def skip(self, count: int) -> None:
        self._left -= count
        if self._left:
            turn = count % KEY_SIZE
            self._key = self._key[turn:] + self._key[:turn]

    def _pass_head(self, octets: bytes) -> int:
        """Return how many of the octets belong to the HTTP head."""
        seen = self._start + octets
        end = seen.find(HEAD_END)
        if end < 0:
            self._start = seen[1 - len(HEAD_END) :]
            return len(octets)
        stop = end + len(HEAD_END) - len(self._start)
        self._in_head, self._start = False, b""
        return stop

    def _pass_header(self, octets: bytes, at: int) -> int:
        """Read the frame header at index `at`; return the index after it, or after its available part."""
        if self._start or len(octets) - at < LARGEST_HEADER:
            return at + self._read_header(octets[at : at + LARGEST_HEADER])
        second = octets[at + 1]
        at, size = at + 2, second & LENGTH
        if size > LARGEST_CONTROL:
            stop = at + EXTENDED[size]
            at, size = stop, int.from_bytes(octets[at:stop], "big")
        self._left, self._key = size, b""
        if second & MASKED:
            self._key = octets[at : at + KEY_SIZE]
            at += KEY_SIZE
        return at

    def _read_header(self, octets: bytes) -> int:
        """Return how many of the octets belong to the current frame header."""
        seen = self._start + octets
        reader = Reader(seen, 0, len(seen), 0)
        try:
            header = read_frame_header(reader)
        except Cut:
            self._start = seen
            return len(octets)
        used, self._start = reader.position - len(self._start), b""
        self._left = header.size
        self._key = seen[reader.position - KEY_SIZE : reader.position] if header.masked else b""
        return used
