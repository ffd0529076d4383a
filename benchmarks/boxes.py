"""One CURVE connection with valid boxes (curve.md), its key, and its encrypted messages alone.

The file of boxes: the key (32 octets), then for each box its size (4 octets, little-endian), nonce (24) and octets.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from hashlib import sha256

from nacl.bindings import crypto_box, crypto_box_beforenm, crypto_scalarmult_base, crypto_secretbox

from benchmarks.talks import CLIENT, SERVER

NAME_AND_NONCE = 16
"""Octets of a MESSAGE before its box."""


class Handshake:
    """The secrets of one connection, all of them made from `seed`, and what they seal.

    Names are those of curve.md: the long-term keys of server and client, their transient keys for this connection, the
    key that seals the cookie, and what the transient keys have in common.
    """

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self.server, self.client, self.server_transient, self.client_transient = (
            self._random(name, 32) for name in (b"s", b"c", b"s'", b"c'")
        )
        self.shared = crypto_box_beforenm(crypto_scalarmult_base(self.server_transient), self.client_transient)
        self._nonce = 2

    def _random(self, name: bytes, size: int) -> bytes:
        return sha256(self._seed + b" " + name).digest()[:size]

    @property
    def key_log(self) -> str:
        """Return the line of the key log that decrypts everything after WELCOME."""
        return f"CURVE_SHARED {crypto_scalarmult_base(self.client_transient).hex()} {self.shared.hex()}\n"

    def commands(self, client_metadata: bytes, server_metadata: bytes) -> Iterator[tuple[int, bytes]]:
        """Return HELLO, WELCOME, INITIATE and READY: the sending side and the body of each."""
        public_server, public_client, public_server_transient, public_client_transient = map(
            crypto_scalarmult_base, (self.server, self.client, self.server_transient, self.client_transient)
        )
        nonce = _short(1)
        box = crypto_box(bytes(64), b"CurveZMQHELLO---" + nonce, public_server, self.client_transient)
        yield CLIENT, b"\x05HELLO\1\0" + bytes(72) + public_client_transient + nonce + box
        cookie_nonce, long_nonce, vouch_nonce = (self._random(name, 16) for name in (b"cookie", b"welcome", b"vouch"))
        sealed = crypto_secretbox(
            public_client_transient + self.server_transient, b"COOKIE--" + cookie_nonce, self._random(b"K", 32)
        )
        cookie = cookie_nonce + sealed
        box = crypto_box(
            public_server_transient + cookie, b"WELCOME-" + long_nonce, public_client_transient, self.server
        )
        yield SERVER, b"\x07WELCOME" + long_nonce + box
        vouch = crypto_box(
            public_client_transient + public_server, b"VOUCH---" + vouch_nonce, public_server_transient, self.client
        )
        nonce = _short(2)
        content = public_client + vouch_nonce + vouch + client_metadata
        yield CLIENT, b"\x08INITIATE" + cookie + nonce + self._seal(content, b"CurveZMQINITIATE" + nonce)
        nonce = _short(1)
        yield SERVER, b"\x05READY" + nonce + self._seal(server_metadata, b"CurveZMQREADY---" + nonce)

    def _seal(self, content: bytes, nonce: bytes) -> bytes:
        return crypto_secretbox(content, nonce, self.shared)

    def seal(self, body: bytes) -> bytes:
        """Return the client's next MESSAGE, which contains one whole message."""
        self._nonce += 1
        nonce = _short(self._nonce)
        return b"\x07MESSAGE" + nonce + self._seal(b"\0" + body, b"CurveZMQMESSAGEC" + nonce)

    def boxes(self, messages: Sequence[bytes]) -> bytes:
        """Return the file of boxes for these MESSAGEs of the client."""
        parts = [self.shared]
        for message in messages:
            box = message[NAME_AND_NONCE:]
            parts += struct.pack("<I", len(box)), b"CurveZMQMESSAGEC", message[8:NAME_AND_NONCE], box
        return b"".join(parts)


def _short(number: int) -> bytes:
    return number.to_bytes(8, "big")


def read_boxes(octets: bytes) -> tuple[bytes, list[tuple[int, int, int]]]:
    """Return the key, and the positions of each nonce, box and end of a box in a file of boxes."""
    places, at = [], 32
    while at < len(octets):
        (size,) = struct.unpack_from("<I", octets, at)
        places.append((at + 4, at + 28, at + 28 + size))
        at += 28 + size
    return octets[:32], places
