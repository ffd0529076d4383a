"""CURVE (wire.md 8.3, curve.md): layouts of commands, nonces, and the visible parts of encrypted boxes.

In a decrypted stream, a box is its authenticator and its decrypted contents, at the offsets of the ciphertext (curve.md
2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from zmtpscope.zmtp import z85
from zmtpscope.zmtp.events import Fields
from zmtpscope.zmtp.layout import Layout, read_opaque
from zmtpscope.zmtp.mechanism import Mechanism
from zmtpscope.zmtp.mechanisms.null import build_error, read_error
from zmtpscope.zmtp.metadata import read_metadata
from zmtpscope.zmtp.reader import Cut, Reader
from zmtpscope.zmtp.regime import Phase, Regime
from zmtpscope.zmtp.socket_types import DRAFT, IDENTIFIED, PEERS

# Sizes of whole command bodies, name included.
HELLO_SIZE = 200
WELCOME_SIZE = 168
SMALLEST_INITIATE = 257
SMALLEST_READY = 30
SMALLEST_MESSAGE = 33

PADDING_SIZE = 72
LARGEST_NONCE = 2**64 - 1

KEY_SIZE = 32
AUTHENTICATOR_SIZE = 16
"""Octets of a box besides its contents."""

NONCE_OF_MESSAGE, BOX_OF_MESSAGE, CONTENT_OF_MESSAGE = slice(8, 16), 16, 32
"""Positions in the body of a MESSAGE; the contents follow the authenticator of the box."""

MORE, COMMAND = 0x01, 0x02
"""Flags inside a MESSAGE box; libzmq marks commands with COMMAND (D3)."""

FLAG_BITS = (
    ("curve.message.flags.more", MORE),
    ("curve.message.flags.command", COMMAND),
    ("curve.message.flags.reserved", 0xFC),
)


class Box(NamedTuple):
    """Where the encrypted box of a command lies: from index `start` to the end of the command body.

    Its 24-octet nonce is `prefix` and the octets of the body at `nonce`.
    """

    prefix: bytes
    nonce: slice
    start: int


BOXES = {
    "HELLO": Box(b"CurveZMQHELLO---", slice(112, 120), 120),
    "WELCOME": Box(b"WELCOME-", slice(8, 24), 24),
    "INITIATE": Box(b"CurveZMQINITIATE", slice(105, 113), 113),
    "READY": Box(b"CurveZMQREADY---", slice(6, 14), 14),
}

MESSAGE_PREFIX = {"client": b"CurveZMQMESSAGEC", "server": b"CurveZMQMESSAGES"}
COOKIE_PREFIX, VOUCH_PREFIX = b"COOKIE--", b"VOUCH---"
"""Nonce prefixes of the two inner boxes; the other 16 octets precede each box (curve.md 2)."""

COOKIE_AT = slice(9, 105)
"""The cookie in the body of INITIATE: its nonce and its box."""

LONG_NONCE_SIZE = 16
"""Octets of nonce before cookie and vouch."""

VOUCH_SIZE = 80
VOUCH_NONCE = slice(KEY_SIZE, KEY_SIZE + LONG_NONCE_SIZE)
VOUCH_BOX = slice(VOUCH_NONCE.stop, VOUCH_NONCE.stop + VOUCH_SIZE)
"""The vouch in the contents of INITIATE's box, after the client's key."""


def read_hello(reader: Reader, regime: Regime, fields: Fields) -> None:
    if _body_size(reader) != HELLO_SIZE:
        return _refuse(reader, regime, fields, "CURVE-01")
    start = reader.offset
    major, minor = reader.octets("curve.version", 2)
    version = fields["version"] = f"{major}.{minor}"
    reader.show(version)
    if version != "1.0":
        reader.finding("CURVE-02", start, 2)
    if any(reader.octets("curve.padding", PADDING_SIZE)):
        reader.finding("CURVE-03", start + 2, PADDING_SIZE)
    fields["client_key"] = reader.octets("curve.client_transient", 32)
    fields["nonce"] = reader.u64("curve.nonce.short")
    _read_box(reader, regime, fields, "curve.hello.box", _read_signature)


def _read_signature(reader: Reader, regime: Regime, fields: Fields) -> None:
    """Parse the decrypted contents of HELLO: 64 zeros, which prove that the client knows the server's key."""
    reader.rest("curve.hello.signature")


def read_welcome(reader: Reader, regime: Regime, fields: Fields) -> None:
    if _body_size(reader) != WELCOME_SIZE:
        return _refuse(reader, regime, fields, "CURVE-04")
    fields["long_nonce"] = reader.octets("curve.nonce.long", 16)
    _read_box(reader, regime, fields, "curve.welcome.box", _read_server_transient)


def _read_server_transient(reader: Reader, regime: Regime, fields: Fields) -> None:
    fields["server_key"] = reader.octets("curve.server_transient", KEY_SIZE)
    _read_cookie(reader)


def _read_cookie(reader: Reader) -> None:
    reader.octets("curve.cookie.nonce", 16)
    reader.octets("curve.cookie.box", 80)


def read_initiate(reader: Reader, regime: Regime, fields: Fields) -> None:
    if _body_size(reader) < SMALLEST_INITIATE:
        return _refuse(reader, regime, fields, "CURVE-05")
    _read_cookie(reader)
    fields["nonce"] = reader.u64("curve.nonce.short")
    if not regime.opened:
        _guess(fields, _body_size(reader) - SMALLEST_INITIATE)
    _read_box(reader, regime, fields, "curve.initiate.box", _read_client)


def _read_client(reader: Reader, regime: Regime, fields: Fields) -> None:
    """Parse the decrypted contents of INITIATE: the client's long-term key, a vouch for its transient key, and
    metadata."""
    key = reader.octets("curve.client_longterm", KEY_SIZE)
    fields["client_longterm_key"] = z85.encode(key)
    reader.octets("curve.vouch.nonce", 16)
    reader.octets("curve.vouch.box", VOUCH_SIZE)
    read_metadata(reader, regime, fields)


def read_ready(reader: Reader, regime: Regime, fields: Fields) -> None:
    if _body_size(reader) < SMALLEST_READY:
        return _refuse(reader, regime, fields, "CURVE-05")
    fields["nonce"] = reader.u64("curve.nonce.short")
    if not regime.opened:
        _guess(fields, _body_size(reader) - SMALLEST_READY)
    _read_box(reader, regime, fields, "curve.ready.box", read_metadata)


def _read_box(
    reader: Reader, regime: Regime, fields: Fields, name: str, read: Callable[[Reader, Regime, Fields], None]
) -> None:
    """Add the box at the end of a command body, as the field `name`.

    If the box is decrypted, `read` parses its contents.
    """
    if not regime.opened:
        reader.rest(name)
        return
    with reader.group(name):
        reader.octets("curve.box.authenticator", AUTHENTICATOR_SIZE)
        read(reader, regime, fields)


def _guess(fields: Fields, size: int) -> None:
    """Guess the socket types from the size of encrypted metadata (curve.md 5).

    The metadata may contain only Socket-Type and Identity. `size` is in octets.
    """
    fields["metadata_size"] = size
    exactly = [name for name in PEERS if _metadata_size(name) == size]
    identified = [name for name in sorted(IDENTIFIED) if _metadata_size(name) < size]
    fitting = [*exactly, *identified]
    fields["socket_type_guess"] = [name for name in fitting if name not in DRAFT] or fitting


def _metadata_size(socket_type: str) -> int:
    """Return the size in octets of metadata with this socket type and, if the type has one, an empty identity."""
    identity = len("Identity") + 5 if socket_type in IDENTIFIED else 0
    return len("Socket-Type") + 5 + len(socket_type) + identity


def read_message(reader: Reader, regime: Regime, fields: Fields) -> None:
    """Parse MESSAGE: short nonce and box, which may be missing."""
    if _body_size(reader) < SMALLEST_MESSAGE:
        reader.finding("CURVE-06", *reader.size_span)
    try:
        fields["nonce"] = reader.u64("curve.nonce.short")
    except Cut:
        return
    if regime.opened:
        reader.octets("curve.box.authenticator", AUTHENTICATOR_SIZE)
    else:
        reader.skip("curve.message.box", reader.left)


def read_flags(reader: Reader) -> int:
    start = reader.offset
    flags = reader.u8("curve.message.flags")
    reader.bits(FLAG_BITS)
    if flags & ~(MORE | COMMAND):
        reader.finding("CURVE-17", start, 1)
    reader.body = reader.offset
    return flags


def _body_size(reader: Reader) -> int:
    return reader.base + reader.stop - reader.body


def _refuse(reader: Reader, regime: Regime, fields: Fields, finding: str) -> None:
    """Report a command body of the wrong size as `finding`, and keep its first octets as plain data."""
    reader.finding(finding, *reader.size_span)
    read_opaque(reader, regime, fields)


class Nonces:
    """Check that the short nonces of one side increment over all its commands (curve.md 3)."""

    __slots__ = ("_little", "_previous")

    def __init__(self) -> None:
        self._previous: int | None = None
        self._little: bool | None = None

    def forgive(self) -> None:
        self._previous = None

    @property
    def next(self) -> int | None:
        """The expected nonce as a big-endian number; None while the byte order is uncertain."""
        return None if self._little is not False or self._previous is None else self._previous + 1

    def passed(self, nonce: int) -> None:
        """Skip the nonces from `next` to `nonce`, which the scanner has found to be consecutive."""
        self._previous = nonce

    def judge(self, reader: Reader, nonce: int, start: int) -> None:
        """Compare `nonce`, a big-endian number at stream offset `start`, with the next expected one."""
        previous, self._previous = self._previous, nonce
        if previous is None:
            return
        if self._little is None and nonce != previous:
            # libzmq 4.0 writes the counter in host order
            self._little = (nonce - previous) % 2**56 == 0
        if self._little:
            previous, nonce = _swapped(previous), _swapped(nonce)
        if nonce <= previous:
            reader.finding("CURVE-07", start, 8)
        elif nonce > previous + 1:
            reader.finding("CURVE-08", start, 8)


def _swapped(nonce: int) -> int:
    return int.from_bytes(nonce.to_bytes(8, "big"), "little")


def build_hello(fields: Fields) -> bytes:
    """Build HELLO from `client_key` (32 octets), `nonce`, `box` (80), `version`."""
    major, minor = (fields.get("version") or "1.0").split(".")
    octets: bytes = bytes([int(major), int(minor)]) + bytes(PADDING_SIZE) + fields["client_key"]
    return octets + _build_nonce_and_box(fields)


def build_welcome(fields: Fields) -> bytes:
    """Build WELCOME from `long_nonce` (16 octets) and `box` (144 octets)."""
    octets: bytes = fields["long_nonce"] + fields["box"]
    return octets


def build_initiate(fields: Fields) -> bytes:
    """Build INITIATE from `cookie` (96 octets), `nonce` and `box`."""
    cookie: bytes = fields["cookie"]
    return cookie + _build_nonce_and_box(fields)


def _build_nonce_and_box(fields: Fields) -> bytes:
    nonce: int = fields["nonce"]
    box: bytes = fields["box"]
    return nonce.to_bytes(8, "big") + box


CURVE = Mechanism(
    "CURVE",
    (
        Layout("HELLO", read_hello, build_hello, sender="client", sealed=True),
        Layout("WELCOME", read_welcome, build_welcome, sender="server", sealed=True),
        Layout("INITIATE", read_initiate, build_initiate, sender="client", last=True, sealed=True),
        Layout("READY", read_ready, _build_nonce_and_box, sender="server", last=True, sealed=True),
        Layout("ERROR", read_error, build_error, sender="server"),
        Layout("MESSAGE", read_message, _build_nonce_and_box, Phase.TRAFFIC, sealed=True),
    ),
    steps={"client": ("HELLO", "INITIATE"), "server": ("WELCOME", "READY")},
    seals=True,
    nonce_at={name: BOXES[name].nonce.start for name in ("HELLO", "INITIATE", "READY")}
    | {"MESSAGE": NONCE_OF_MESSAGE.start},
    clear_traffic="CURVE-09",
    error_of_client="CURVE-16",
)
