"""Classify the first octets of one side: whether they are ZMTP, which version, and how to parse them (wire.md 9.2).

With more octets the class can only increase.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from zmtpscope.zmtp.greeting import GREETING_3_SIZE, LARGEST_PADDING, MECHANISM_CHARACTERS, padding_of
from zmtpscope.zmtp.regime import Form

FLAGS_1 = {0x00: frozenset({0x00, 0x01}), 0x01: frozenset({0x00, 0x01})} | {
    flags: frozenset({0x7E, 0x7F}) for flags in (0x7E, 0x7F)
}
"""Flags octets of real 1.0 peers, by the flags of the first frame: libzmq 2.1.11 sets 7E on every frame."""

FIRM_FRAMES = 4
"""Number of consecutive 1.0 frames that rule out other protocols."""
FIRM_ANONYMOUS = 3
"""The same number for a peer with an empty identity, not counting its identity frame."""
ANONYMOUS = (b"\1\0", b"\1\x7e")

DECIDING_SIZE = 23
"""Octets of a 3.x greeting between its signature and its filler: version, mechanism and as-server."""

USUAL_MECHANISMS = (b"NULL", b"PLAIN", b"CURVE", b"GSSAPI")
MECHANISM_START = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


class Class(IntEnum):
    """The class of the first octets of a side (wire.md 9.2). From SIGNATURE on, a higher class is a newer version."""

    NONE = 0
    WAIT = 1
    """Too few octets to decide."""
    ALIEN = 2
    """Octets that are not ZMTP."""
    CUT = 3
    """The start of a first 1.0 frame."""
    OLD = 4
    """A first 1.0 frame."""
    DOUBTFUL = 5
    """An unlikely first 1.0 frame, or a likely one with invalid octets within the next few frames."""
    FIRM = 6
    """So many consecutive 1.0 frames that no other protocol matches by chance."""
    SIGNATURE = 7
    REVISION_0 = 8
    REVISION_1 = 9
    REVISION_2 = 10
    REVISION_3 = 11
    """A greeting of version 3 or above."""


OLD = frozenset({Class.OLD, Class.DOUBTFUL, Class.FIRM})
VERSIONED = frozenset({Class.REVISION_0, Class.REVISION_1, Class.REVISION_2, Class.REVISION_3})
NEW = VERSIONED | {Class.SIGNATURE}


def classify(octets: bytes) -> Class:
    """Return the class of the first octets of one side (wire.md 9.2).

    Of 1.0 frames, at most the first `FIRM_FRAMES` are read.
    """
    if not octets:
        return Class.NONE
    if octets[0] != 0xFF:
        return _guard(octets)
    if len(octets) < 10:
        return Class.WAIT
    if not octets[9] & 1:
        return _guard(octets)
    if octets[9] != 0x7F and padding_of(octets) > LARGEST_PADDING:
        return Class.ALIEN
    if len(octets) == 10:
        return Class.SIGNATURE
    return (Class.REVISION_0, Class.REVISION_1, Class.REVISION_2, Class.REVISION_3)[min(octets[10], 3)]


def _guard(octets: bytes) -> Class:
    """Classify octets without a signature.

    They may be 1.0 frames, but nearly any octets are a possible start of a 1.0 frame.
    """
    header = _header_1(octets, 0)
    if header is None:
        return Class.WAIT
    length, flags, stop = header
    if length == 0 or length > 2**31 or flags not in FLAGS_1:
        return Class.ALIEN
    if _is_unlikely(octets, length, flags, stop):
        return Class.DOUBTFUL
    if len(octets) < stop:
        return Class.CUT
    usual, firm = FLAGS_1[flags], FIRM_ANONYMOUS if is_anonymous(octets) else FIRM_FRAMES
    if octets[stop : stop + 1] == b"\0":  # 13/ZMTP discards a frame of length 0, but several in a row are not ZMTP
        stop, firm = stop + 1, FIRM_FRAMES
    for _ in range(firm - 1):
        header = _header_1(octets, stop)
        if header is None:
            return Class.OLD
        length, flags, stop = header
        if not 0 < length <= 2**40 or flags not in usual:
            return Class.DOUBTFUL
    return Class.FIRM


def is_anonymous(octets: bytes) -> bool:
    """Whether a 1.0 side starts with an empty identity."""
    return octets.startswith(ANONYMOUS)


def _is_unlikely(octets: bytes, length: int, flags: int, stop: int) -> bool:
    """Whether a 1.0 peer is unlikely to send this first frame header.

    `length` is the frame length, `stop` the index after the frame. An identity never starts with 0, and an empty
    identity frame never has MORE. Length prefixes of other protocols (16 to 64 bits) look like both.
    """
    if length == 1:
        return bool(flags & 1)
    return octets[stop - length + 1 : stop - length + 2] == b"\0"


def first_frame_stop(octets: bytes) -> int:
    first = _header_1(octets, 0)
    assert first is not None
    return first.stop


def own_form(octets: bytes, kind: Class) -> Form:
    if kind in OLD:
        return Form.FRAMES_1
    if kind is Class.REVISION_3 and octets[10] > 3 and names_mechanism(octets) is False:
        return Form.SIGNATURE  # 1.0 frames may follow
    if kind is Class.REVISION_3 or (kind is Class.REVISION_2 and names_mechanism(octets)):
        return Form.GREETING_3 if len(octets) >= GREETING_3_SIZE else Form.PARTIAL_3
    forms = {
        Class.NONE: Form.NOTHING,
        Class.ALIEN: Form.ALIEN,
        Class.SIGNATURE: Form.SIGNATURE,
        Class.REVISION_0: Form.VERSIONED_1,
        Class.REVISION_1: Form.GREETING_2,
        Class.REVISION_2: Form.GREETING_2,
    }
    return forms.get(kind, Form.WAIT)


def is_form_settled(octets: bytes, kind: Class) -> bool:
    """Whether no further octets can change how this side is parsed; `kind` is its class."""
    if kind is Class.REVISION_3:
        return len(octets) >= GREETING_3_SIZE
    if kind is Class.REVISION_2:
        return len(octets) > 12 and (not names_mechanism(octets) or len(octets) >= GREETING_3_SIZE)
    return kind in (Class.ALIEN, Class.FIRM, Class.REVISION_0, Class.REVISION_1)


def names_mechanism(octets: bytes) -> bool | None:
    """Whether octet 12 is the first letter of a mechanism, as in 3.x; None if it is missing."""
    return octets[12] in MECHANISM_START if len(octets) > 12 else None


def form_number(octets: bytes, kind: Class) -> int | None:
    """Return how a side that faces a 2.0 peer continues: as 2.0 (2) or as 3.x (3). None: octet 12 is missing."""
    if kind is Class.REVISION_1:
        return 2
    form_3 = names_mechanism(octets)
    return None if form_3 is None else 3 if form_3 else 2


def announced(octets: bytes, kind: Class) -> str:
    if kind in OLD:
        return "1.0"
    if kind is Class.REVISION_1 or (kind is Class.REVISION_2 and not names_mechanism(octets)):
        return "2.0"
    return f"{octets[10]}.{octets[11]}" if len(octets) > 11 else f"{octets[10]}"


def is_whole_greeting(octets: bytes, form: Form) -> bool:
    """Whether a side has sent its complete greeting, or has sent nothing."""
    if form is Form.GREETING_2:
        return len(octets) > 13 and len(octets) >= 14 + octets[13]
    return form in (Form.NOTHING, Form.GREETING_3)


def continues_as_greeting_3(octets: bytes) -> bool | None:
    """Whether a 3.x greeting follows a signature, and not 1.0 frames; None if both are possible.

    At most `DECIDING_SIZE` octets after the signature are needed.
    """
    if octets[:1] not in b"\3\4":
        return False
    if not any(name.ljust(20, b"\0").startswith(octets[2:22]) for name in USUAL_MECHANISMS):
        return False
    return octets[22] <= 1 if len(octets) >= DECIDING_SIZE else None


def is_greeting_3(octets: bytes) -> bool:
    """Whether the mechanism in a greeting is legal, or empty and followed by zeros only."""
    if len(octets) < 33 or octets[10] < 3:
        return False
    name, _, behind = octets[12:32].partition(b"\0")
    if not name:
        return len(octets) >= GREETING_3_SIZE and not any(octets[12:GREETING_3_SIZE])
    return octets[32] <= 1 and not behind.strip(b"\0") and not name.strip(MECHANISM_CHARACTERS)


def holds_frames_1(octets: bytes, at: int) -> bool:
    """Whether a complete 1.0 frame starts at index `at`, and no invalid header follows it."""
    whole = 0
    while (header := _header_1(octets, at)) is not None:
        if header.length == 0 or header.length > 2**31 or header.flags not in FLAGS_1:
            return False
        at = header.stop
        whole += at <= len(octets)
    return whole > 0


def are_frames_1(octets: bytes) -> bool:
    """Whether all octets are complete 1.0 frames, with any flags.

    Octets of other protocols soon contain a frame length of 0.
    """
    at = 0
    while at < len(octets):
        header = _header_1(octets, at)
        if header is None or header.length == 0:
            return False
        at = header.stop
    return at == len(octets)


OTHER_PROTOCOLS = {
    **dict.fromkeys((b"GE", b"PO", b"HE", b"PU", b"OP", b"DE", b"PA", b"CO", b"HT"), "HTTP"),
    b"\x16\x03": "TLS",
    b"SS": "SSH",
    b"*1": "RESP (Redis)",
}
"""Protocols by the first two octets of a side."""


def other_protocol(octets: bytes) -> str | None:
    """Return the name of the protocol that octets without ZMTP seem to be, such as "HTTP", or None."""
    return OTHER_PROTOCOLS.get(octets[:2])


class _Header(NamedTuple):
    length: int
    flags: int
    stop: int


def _header_1(octets: bytes, at: int) -> _Header | None:
    """Parse the 1.0 frame header at `at`; None if it is incomplete. Length 0 has no flags."""
    if at >= len(octets):
        return None
    long = octets[at] == 0xFF
    if long and len(octets) < at + 9:
        return None
    length = int.from_bytes(octets[at + 1 : at + 9], "big") if long else octets[at]
    flags_at = at + (9 if long else 1)
    if length == 0:
        return _Header(0, 0, flags_at)
    if flags_at >= len(octets):
        return None
    return _Header(length, octets[flags_at], flags_at + length)
