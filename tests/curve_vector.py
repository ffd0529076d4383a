"""The test vector of curve.md 8: one CURVE handshake with keys that everybody knows, and the first messages."""

from __future__ import annotations

import json
import pathlib
from typing import NamedTuple


class Pair(NamedTuple):
    public: bytes
    secret: bytes


def _pair(public: str, first: int) -> Pair:
    """A pair whose secret is 32 consecutive octet values."""
    return Pair(bytes.fromhex(public), bytes(range(first, first + 32)))


SERVER = _pair("07a37cbc142093c8b755dc1b10e86cb426374ad16aa853ed0bdfc0b2b86d1c7c", 0x01)
CLIENT = _pair("5869aff450549732cbaaed5e5df9b30a6da31cb0e5742bad5ad4a1a768f1a67b", 0x21)
SERVER_TRANSIENT = _pair("64b101b1d0be5a8704bd078f9895001fc03e8e9f9522f188dd128d9846d48466", 0x41)
CLIENT_TRANSIENT = _pair("244fe3b963e899dd295baffce248d3530f3a9a7479ba063002680ebfe7adad49", 0x61)
COOKIE_KEY = bytes(range(0x81, 0xA1))
SHARED = bytes.fromhex("fad97f4c552999bded1d5887896dc849ad1ba9485b616188a9df62dce12b4603")

CLIENT_METADATA = b"\x0bSocket-Type\0\0\0\x06DEALER\x08Identity\0\0\0\0"
SERVER_METADATA = b"\x0bSocket-Type\0\0\0\x06ROUTER"

_VECTORS = json.loads((pathlib.Path(__file__).parent / "vectors.json").read_text())["vectors"]
HEX = {vector["id"]: vector["hex"] for vector in _VECTORS if vector["id"].startswith("V-CURVE-")}


def _body(name: str, header: int) -> bytes:
    """Return the command body of a vector, after its frame header of `header` octets."""
    return bytes.fromhex(HEX[name])[header:]


HELLO = _body("V-CURVE-01", 2)
WELCOME = _body("V-CURVE-02", 2)
INITIATE = _body("V-CURVE-03", 9)
READY = _body("V-CURVE-04", 2)
CLIENT_MESSAGE = _body("V-CURVE-05", 2)
SERVER_MESSAGE = _body("V-CURVE-07", 2)
COOKIE = INITIATE[9:105]
