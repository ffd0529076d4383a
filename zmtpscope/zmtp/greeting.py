"""Parse and build the greetings of every version (wire.md 3.2, 4.1, 5)."""

from __future__ import annotations

from collections.abc import Callable

from zmtpscope.records import from_text, to_text
from zmtpscope.zmtp.events import Fields
from zmtpscope.zmtp.framing import HABITUAL_FLAGS_1, LARGEST_SIZE, LONG, build_frame, read_header_1
from zmtpscope.zmtp.mechanisms import MECHANISMS
from zmtpscope.zmtp.reader import Cut, Reader
from zmtpscope.zmtp.regime import Form, Framing
from zmtpscope.zmtp.socket_types import CODES, HIGHEST_SPECIFIED_CODE, LARGEST_IDENTITY, name_of_code
from zmtpscope.zmtp.upgrade import read_request, read_response
from zmtpscope.zmtp.zws import read_identity

SIGNATURE_SIZE = 10
"""Octets of a signature: FF, padding of 8 octets, 7F."""

LARGEST_PADDING = 256
"""Largest padding of a signature: the size of the longest identity plus 1."""

MAJOR_AT, MINOR_AT = 10, 11
VERSIONED_SIZE = MINOR_AT + 1
"""Octets up to the minor version, which decide how the other side reacts (wire.md 9.3)."""


def padding_of(octets: bytes) -> int:
    """Return the padding of a signature, octets 1 to 8 as a number. Missing octets count as 0."""
    return int.from_bytes(octets[1:9].ljust(8, b"\0"), "big")


def begins_like_a_signature(octets: bytes) -> bool:
    first, last = octets[:1], octets[SIGNATURE_SIZE - 1 : SIGNATURE_SIZE]
    return first in (b"", b"\xff") and padding_of(octets) <= LARGEST_PADDING and last in (b"", b"\x7f")


def announces_a_version(octets: bytes) -> bool:
    return len(octets) > SIGNATURE_SIZE and begins_like_a_signature(octets) and 1 <= octets[MAJOR_AT] <= 3


def announces_version_3(octets: bytes) -> bool:
    """Whether a greeting, of which at least 12 octets are given, is certainly from a 3.x peer."""
    return octets[0] == 0xFF and octets[SIGNATURE_SIZE - 1] == 0x7F and octets[MAJOR_AT] >= 3


MECHANISM_CHARACTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.+"
GREETING_3_SIZE = 64

LARGEST_AWAITED_IDENTITY = 1 << 16
"""Maximum size in octets of an identity frame of 1.0 or 2.0 that is read; a larger one is skipped."""


def read_greeting_3(reader: Reader, fields: Fields) -> None:
    """Parse a 3.x greeting: signature, version, mechanism, as-server, filler (wire.md 5)."""
    padding = _read_signature(reader)
    if 1 <= padding <= 256:
        reader.finding("ZMTP-GREETING-03", reader.unit + 1, 8)
    _judge_signature_end(reader)
    start = reader.offset
    major = reader.u8("zmtp.version.major")
    if major > 3:
        reader.finding("ZMTP3X-GREETING-01", start, 1)
    elif major == 2:
        reader.finding("ZMTP20-GREETING-05", start, 1)
    minor = reader.u8("zmtp.version.minor")
    fields["version_announced"] = f"{major}.{minor}"
    if minor > 1:
        reader.finding("ZMTP3X-GREETING-02", start + 1, 1)
    mechanism = _read_mechanism(reader)
    fields["mechanism"] = to_text(mechanism)
    as_server = fields["as_server"] = reader.u8("zmtp.as_server")
    if as_server > 1:
        reader.finding("ZMTP3X-GREETING-06", reader.offset - 1, 1)
    elif as_server and mechanism == b"NULL":
        reader.finding("ZMTP3X-GREETING-07", reader.offset - 1, 1)
    if any(reader.octets("zmtp.filler", 31)):
        reader.finding("ZMTP3X-GREETING-09", reader.offset - 31, 31)


def read_greeting_2(reader: Reader, fields: Fields) -> None:
    if _read_signature(reader):
        reader.finding("ZMTP20-GREETING-07", reader.unit + 1, 8)
    _judge_signature_end(reader)
    revision = reader.u8("zmtp.version.major")
    fields["version_announced"] = "2.0" if revision < 3 else f"{revision}"
    if revision == 2:
        reader.finding("ZMTP20-GREETING-05", reader.offset - 1, 1)
    fields["socket_type"] = _read_socket_type(reader)
    start = reader.offset
    flags = reader.u8("zmtp2.identity.flags")
    if flags:
        reader.finding("ZMTP20-GREETING-03", start, 1)
    size = reader.u64("zmtp2.identity.size") if flags & LONG else reader.u8("zmtp2.identity.size")
    if size > LARGEST_SIZE:
        reader.finding("ZMTP3X-FRAME-04", start + 1, 8)
        return
    _read_identity(reader, fields, "zmtp2.identity", size)
    padding = int.from_bytes(reader.data[reader.unit - reader.base + 1 : reader.unit - reader.base + 9], "big")
    if 1 <= padding <= 256 and padding != size + 1:
        reader.finding("ZMTP-GREETING-04", reader.unit + 1, 8)


def read_identity_1(reader: Reader, fields: Fields) -> None:
    fields.setdefault("version_announced", "1.0")
    start = reader.offset
    flags, size = read_header_1(reader)
    if not 0 <= size < LARGEST_SIZE:
        return
    if flags not in (0x00, *HABITUAL_FLAGS_1):
        reader.finding("ZMTP10-GREETING-02", reader.offset - 1, 1)
    header = reader.offset - start
    if header == 10 and size < 254 and flags != 0x7F:
        reader.finding("ZMTP10-FRAME-03", start, 9)
    if size > LARGEST_IDENTITY:
        reader.finding("ZMTP10-GREETING-03", *reader.size_span)
    if 0 < size <= LARGEST_AWAITED_IDENTITY and reader.starts_with(b"\0"):
        reader.finding("ZMTP10-GREETING-01", reader.offset, 1)
    _read_identity(reader, fields, "zmtp1.body", size)


def read_greeting_0(reader: Reader, fields: Fields) -> None:
    """Parse a greeting of revision 0: a signature and a 1.0 identity frame (D7)."""
    _read_signature(reader)
    _judge_signature_end(reader)
    revision = reader.u8("zmtp.version.major")
    fields["version_announced"] = f"{revision}"
    if revision == 0:
        reader.finding("ZMTP20-GREETING-06", reader.offset - 1, 1)
    fields["socket_type"] = _read_socket_type(reader)
    read_identity_1(reader, fields)


def read_signature(reader: Reader, fields: Fields) -> None:
    """Parse a greeting that ends after its signature. 1.0 frames may follow; they are no part of the greeting."""
    _read_signature(reader)
    _judge_signature_end(reader)
    if reader.position == reader.stop:
        raise Cut


READERS: dict[Form, Callable[[Reader, Fields], None]] = {
    Form.FRAMES_1: read_identity_1,
    Form.PSEUDO_SIGNATURE: read_identity_1,
    Form.VERSIONED_1: read_greeting_0,
    Form.GREETING_2: read_greeting_2,
    Form.GREETING_3: read_greeting_3,
    Form.PARTIAL_3: read_greeting_3,
    Form.SIGNATURE: read_signature,
    Form.ZWS_REQUEST: read_request,
    Form.ZWS_RESPONSE: read_response,
    Form.ZWS_IDENTITY: read_identity,
}
"""The parser of each greeting form. It fills `Fields`, and raises `Cut` if the greeting is incomplete."""


def _read_signature(reader: Reader) -> int:
    """Parse a signature, octets 0 to 9; return its padding."""
    reader.u8("zmtp.signature.first")
    octets = reader.octets("zmtp.signature.padding", 8)
    padding = int.from_bytes(octets, "big")
    if padding > LARGEST_PADDING:
        reader.finding("ZMTP-GREETING-02", reader.offset - 8, 8)
    reader.u8("zmtp.signature.last")
    return padding


def _judge_signature_end(reader: Reader) -> None:
    if reader.data[reader.position - 1] != 0x7F:
        reader.finding("ZMTP-GREETING-01", reader.offset - 1, 1)


def _read_mechanism(reader: Reader) -> bytes:
    octets = reader.octets("zmtp.mechanism", 20)
    name, _, behind = octets.partition(b"\0")
    reader.show(to_text(name))
    start = reader.offset - 20
    if not name:
        reader.finding("ZMTP3X-GREETING-10", start, 20)
    known = to_text(name) in MECHANISMS
    if not known and name.strip(MECHANISM_CHARACTERS):
        reader.finding("ZMTP3X-GREETING-03", start, 20)
    elif behind.strip(b"\0"):
        reader.finding("ZMTP3X-GREETING-04", start, 20)
    elif name and not known:
        reader.finding("ZMTP3X-GREETING-11", start, 20)
    return name


def _read_identity(reader: Reader, fields: Fields, name: str, size: int) -> None:
    if size > LARGEST_AWAITED_IDENTITY:
        reader.head = reader.offset
        reader.skip(name, size)
    else:
        fields["identity"] = reader.text(name, size)


def _read_socket_type(reader: Reader) -> str:
    code = reader.u8("zmtp2.socket_type")
    name = name_of_code(code)
    reader.show(name)
    if code >= len(CODES):
        reader.finding("ZMTP20-GREETING-01", reader.offset - 1, 1)
    elif code > HIGHEST_SPECIFIED_CODE:
        reader.finding("ZMTP20-GREETING-02", reader.offset - 1, 1)
    return name


def build_signature(padding: int = 0) -> bytes:
    """Build the signature of all versions above 1.0; `padding` is identity size + 1 for 1.0 peers (wire.md 9.1)."""
    return b"\xff" + padding.to_bytes(8, "big") + b"\x7f"


def build_greeting_3(
    mechanism: str = "NULL", *, version: str = "3.1", as_server: bool = False, padding: int = 0
) -> bytes:
    """Build a 3.x greeting; `mechanism` has at most 20 octets.

    `as_server`: the sender is the server of the handshake. `padding` is identity size + 1 for 1.0 peers (wire.md 9.1).
    """
    major, minor = version.split(".")
    name = from_text(mechanism)
    if len(name) > 20:
        raise ValueError(f"a mechanism name has at most 20 octets, not {len(name)}")
    return (
        build_signature(padding)
        + bytes([int(major), int(minor)])
        + name.ljust(20, b"\0")
        + bytes([as_server] + [0] * 31)
    )


def build_greeting_2(socket_type: str, identity: str = "", *, padding: int = 0, revision: int = 1) -> bytes:
    """Build a 2.0 greeting.

    `identity` has at most 255 octets. `padding` is identity size + 1 for 1.0 peers. `revision` is 1, or 3 for a newer
    peer that faces a 2.0 peer.
    """
    octets = from_text(identity)
    return build_signature(padding) + bytes([revision, CODES.index(socket_type), 0, len(octets)]) + octets


def build_greeting_1(identity: str = "", *, pseudo_signature: bool = False) -> bytes:
    """Build a 1.0 greeting: one frame with the identity.

    `pseudo_signature`: start the frame with the signature of a newer peer, which is also a valid 1.0 header.
    """
    octets = from_text(identity)
    return build_signature(len(octets) + 1) + octets if pseudo_signature else build_frame(Framing.V1, octets)
