"""CURVE (wire.md 8.3, curve.md): the clear-text layout. Boxes stay closed here."""

from __future__ import annotations

from zmtpscope.zmtp.events import Fields
from zmtpscope.zmtp.layout import Layout, read_opaque
from zmtpscope.zmtp.mechanism import Mechanism
from zmtpscope.zmtp.mechanisms.null import build_error, read_error
from zmtpscope.zmtp.reader import Cut, Reader
from zmtpscope.zmtp.regime import Phase, Regime

# Sizes of whole command bodies, name included.
HELLO_SIZE = 200
WELCOME_SIZE = 168
SMALLEST_INITIATE = 257
SMALLEST_READY = 30
SMALLEST_MESSAGE = 33

PADDING_SIZE = 72
LARGEST_NONCE = 2**64 - 1


def read_hello(reader: Reader, regime: Regime, fields: Fields) -> None:
    """HELLO: version, padding, client transient key, short nonce, box."""
    if _body_size(reader) != HELLO_SIZE:
        return _refuse(reader, regime, fields, "CURVE-01")
    start = reader.offset
    major, minor = reader.take("curve.version", 2)
    version = fields["version"] = f"{major}.{minor}"
    reader.show(version)
    if version != "1.0":
        reader.finding("CURVE-02", start, 2)
    if any(reader.take("curve.padding", PADDING_SIZE)):
        reader.finding("CURVE-03", start + 2, PADDING_SIZE)
    fields["client_key"] = reader.take("curve.client_transient", 32)
    fields["nonce"] = reader.u64("curve.nonce.short")
    reader.rest("curve.hello.box")


def read_welcome(reader: Reader, regime: Regime, fields: Fields) -> None:
    """WELCOME: long nonce, box."""
    if _body_size(reader) != WELCOME_SIZE:
        return _refuse(reader, regime, fields, "CURVE-04")
    reader.take("curve.nonce.long", 16)
    reader.rest("curve.welcome.box")


def read_initiate(reader: Reader, regime: Regime, fields: Fields) -> None:
    """INITIATE: cookie, short nonce, box."""
    if _body_size(reader) < SMALLEST_INITIATE:
        return _refuse(reader, regime, fields, "CURVE-05")
    reader.take("curve.cookie.nonce", 16)
    reader.take("curve.cookie.box", 80)
    fields["nonce"] = reader.u64("curve.nonce.short")
    reader.rest("curve.initiate.box")


def read_ready(reader: Reader, regime: Regime, fields: Fields) -> None:
    """READY: short nonce, box."""
    if _body_size(reader) < SMALLEST_READY:
        return _refuse(reader, regime, fields, "CURVE-05")
    fields["nonce"] = reader.u64("curve.nonce.short")
    reader.rest("curve.ready.box")


def read_message(reader: Reader, regime: Regime, fields: Fields) -> None:
    """MESSAGE: short nonce, box. The box need not be there."""
    if _body_size(reader) < SMALLEST_MESSAGE:
        reader.finding("CURVE-06", *reader.size_span)
    try:
        fields["nonce"] = reader.u64("curve.nonce.short")
    except Cut:
        return
    reader.skip("curve.message.box", reader.left)


def _body_size(reader: Reader) -> int:
    return reader.base + reader.stop - reader.body


def _refuse(reader: Reader, regime: Regime, fields: Fields, finding: str) -> None:
    """A body of the wrong size has no layout."""
    reader.finding(finding, *reader.size_span)
    read_opaque(reader, regime, fields)


class Nonces:
    """Watches the short nonces of one side: they count up over all its commands (curve.md 3)."""

    __slots__ = ("_little", "_previous")

    def __init__(self) -> None:
        self._previous: int | None = None
        self._little: bool | None = None

    def forgive(self) -> None:
        """Octets were lost: the next nonce may be any."""
        self._previous = None

    @property
    def next(self) -> int | None:
        """The nonce that a counter in network order has next; None where that order is not certain yet."""
        return None if self._little is not False or self._previous is None else self._previous + 1

    def passed(self, nonce: int) -> None:
        """All nonces from `next` up to `nonce` were met, one by one."""
        self._previous = nonce

    def judge(self, reader: Reader, nonce: int, start: int) -> None:
        """One more nonce, read big-endian, that stands at stream offset `start`."""
        previous, self._previous = self._previous, nonce
        if previous is None:
            return
        if self._little is None and nonce != previous:
            # libzmq 4.0 writes the counter in host order.
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
    """From `client_key` (32 octets), `nonce`, `box` (80 octets), `version`."""
    major, minor = (fields.get("version") or "1.0").split(".")
    octets: bytes = bytes([int(major), int(minor)]) + bytes(PADDING_SIZE) + fields["client_key"]
    return octets + _build_nonce_and_box(fields)


def build_welcome(fields: Fields) -> bytes:
    """From `long_nonce` (16 octets) and `box` (144 octets)."""
    octets: bytes = fields["long_nonce"] + fields["box"]
    return octets


def build_initiate(fields: Fields) -> bytes:
    """From `cookie` (96 octets), `nonce` and `box`."""
    cookie: bytes = fields["cookie"]
    return cookie + _build_nonce_and_box(fields)


def _build_nonce_and_box(fields: Fields) -> bytes:
    """READY, MESSAGE: from `nonce` and `box`."""
    nonce: int = fields["nonce"]
    box: bytes = fields["box"]
    return nonce.to_bytes(8, "big") + box


CURVE = Mechanism(
    "CURVE",
    (
        Layout("HELLO", read_hello, build_hello, sender="client"),
        Layout("WELCOME", read_welcome, build_welcome, sender="server"),
        Layout("INITIATE", read_initiate, build_initiate, sender="client", last=True),
        Layout("READY", read_ready, _build_nonce_and_box, sender="server", last=True),
        Layout("ERROR", read_error, build_error, sender="server"),
        Layout("MESSAGE", read_message, _build_nonce_and_box, Phase.TRAFFIC),
    ),
    steps={"client": ("HELLO", "INITIATE"), "server": ("WELCOME", "READY")},
    seals=True,
    nonce_at={"HELLO": 112, "INITIATE": 105, "READY": 6, "MESSAGE": 8},
    clear_traffic="CURVE-09",
    error_of_client="CURVE-16",
)
