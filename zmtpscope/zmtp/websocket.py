"""WebSocket frames (RFC 6455, section 5): their headers read and built, and the masks taken off a stream of them."""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.zmtp.reader import Cut, Reader

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
CONTROL = 8
"""From this opcode on frames are control frames, which may stand between the fragments of a message."""

LARGEST_CONTROL = 125
"""Octets in the payload of a control frame."""

FINAL, RESERVED, OPCODE = 0x80, 0x70, 0x0F
MASKED, LENGTH = 0x80, 0x7F
FIRST_BITS = (("websocket.final", FINAL), ("websocket.reserved", RESERVED), ("websocket.opcode", OPCODE))
SECOND_BITS = (("websocket.masked", MASKED), ("websocket.length.short", LENGTH))

EXTENDED = {126: 2, 127: 8}
"""What the seven bits of a short length stand for: a length behind them, of so many octets."""

KEY_SIZE = 4
LARGEST_HEADER = 2 + 8 + KEY_SIZE

HEAD_END = b"\r\n\r\n"
"""What ends the HTTP head that stands in front of the frames of each side."""


class FrameHeader(NamedTuple):
    """The header of a frame; `size` is that of its payload in octets, `reserved` the three reserved bits as a number,
    `shortest` whether the size is in its shortest form."""

    final: bool
    reserved: int
    opcode: int
    masked: bool
    size: int
    shortest: bool

    @property
    def is_control(self) -> bool:
        """Whether this is a close, a ping, a pong, or an opcode that is reserved for more of the like."""
        return self.opcode >= CONTROL


def read_frame_header(reader: Reader) -> FrameHeader:
    """The header of a frame, the key of its mask included. Raises `Cut` where it is not whole."""
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


def build_websocket_frame(payload: bytes, opcode: int = BINARY, *, key: bytes = b"", final: bool = True) -> bytes:
    """One frame; with a `key` of four octets its payload is masked."""
    size = len(payload)
    short = size if size < 126 else 126 if size <= 0xFFFF else 127
    length = bytes([MASKED * bool(key) | short]) + size.to_bytes(EXTENDED.get(short, 1), "big")[short < 126 :]
    return bytes([FINAL * final | opcode]) + length + key + (masked(payload, key) if key else payload)


def masked(octets: bytes, key: bytes) -> bytes:
    """The octets with the mask put on, or taken off: it is the same."""
    return combined(octets, repeated(key, len(octets)))


def repeated(key: bytes, size: int) -> bytes:
    """The key again and again, `size` octets of it."""
    return (key * (size // KEY_SIZE + 1))[:size]


def combined(octets: bytes, masks: bytes) -> bytes:
    """Each octet with the bits inverted that are set in the one of `masks` at its place."""
    return (int.from_bytes(octets, "big") ^ int.from_bytes(masks, "big")).to_bytes(len(octets), "big")


class Unmasking:
    """Takes the masks off the stream of one side, in place: headers and keys stay, so every octet keeps its offset.

    The stream begins with an HTTP head, up to the first empty line. Give the octets in order to `feed`, and to `skip`
    how many were lost inside a payload; nothing is kept but an unfinished header.
    """

    __slots__ = ("_in_head", "_key", "_left", "_start")

    def __init__(self) -> None:
        self._in_head = True
        self._start = b""
        """The first octets of a header that is not whole, or the last ones of the head so far."""
        self._left = 0
        """Octets of the payload under way that are still to come."""
        self._key = b""
        """Its key as from the next octet on; empty where it is not masked."""

    def feed(self, octets: bytes) -> bytes:
        """The next octets of the stream, the masks taken off."""
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
        """The next `count` octets, which belong to the payload under way, go by unseen."""
        self._left -= count
        if self._left:
            turn = count % KEY_SIZE
            self._key = self._key[turn:] + self._key[:turn]

    def _pass_head(self, octets: bytes) -> int:
        """How many of the octets belong to the HTTP head."""
        seen = self._start + octets
        end = seen.find(HEAD_END)
        if end < 0:
            self._start = seen[1 - len(HEAD_END) :]
            return len(octets)
        stop = end + len(HEAD_END) - len(self._start)
        self._in_head, self._start = False, b""
        return stop

    def _pass_header(self, octets: bytes, at: int) -> int:
        """Where the header ends, as far as it is there, that goes on or begins at `octets[at]`."""
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
        """How many of the octets belong to the header that goes on with them."""
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
