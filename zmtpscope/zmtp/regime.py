"""Regimes: the settings that apply when a unit is read, for one side at one stream offset."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from functools import lru_cache


class _Kind(Enum):
    """An enumeration hashed by identity: regimes are looked up often, and `Enum` hashes in Python."""

    __hash__ = object.__hash__


class Framing(_Kind):
    """Format of frames (wire.md 3.1, 4.2, 6)."""

    V1 = "1.0"
    """ZMTP 1.0: length that includes the flags octet, flags, body."""
    V2 = "2.0"
    """ZMTP 2.0 and 3.x: flags, size, body."""
    ZWS = "zws-2.0"
    """ZWS 2.0: WebSocket frames, flags, body."""


class Phase(_Kind):
    """The progress of a side: it greets, shakes hands (3.x only), then sends traffic."""

    GREETING = "greeting"
    HANDSHAKE = "handshake"
    TRAFFIC = "traffic"


class Form(_Kind):
    """Format of the first octets of one side (wire.md 9.2, 9.3)."""

    NOTHING = "none"
    WAIT = "wait"
    ALIEN = "alien"
    FRAMES_1 = "frames-1"
    """1.0: the identity frame."""
    PSEUDO_SIGNATURE = "pseudo-signature"
    """1.0 from a newer peer: its signature is the long-form header of its identity frame."""
    VERSIONED_1 = "greeting-r0"
    """Revision 0: signature, revision, socket type, then 1.0 frames."""
    GREETING_2 = "greeting-2"
    GREETING_3 = "greeting-3x"
    PARTIAL_3 = "greeting-3x-partial"
    """An incomplete 3.x greeting, without a version in force."""
    SIGNATURE = "signature"
    """The signature of a peer newer than 1.0, and nothing else."""
    ZWS_REQUEST = "zws-request"
    """ZWS: the HTTP request for a WebSocket."""
    ZWS_RESPONSE = "zws-response"
    """ZWS: the HTTP response."""
    ZWS_IDENTITY = "zws-identity"
    """ZWS without a mechanism: the identity, after the HTTP head."""


SILENT_FORMS = frozenset((Form.NOTHING, Form.WAIT, Form.ALIEN))
"""Forms of octets that are not read."""

UPGRADE_FORMS = frozenset((Form.ZWS_REQUEST, Form.ZWS_RESPONSE))
"""HTTP heads, which start ZWS (wire.md 12)."""


def usual_form(version: str | None) -> Form:
    """Return the form of a greeting when the version is known before any octet."""
    return {"1.0": Form.FRAMES_1, "2.0": Form.GREETING_2}.get(version or "", Form.GREETING_3)


@dataclass(slots=True, eq=False)
class Regime:
    """Settings for reading the units of one side from a stream offset. Immutable; `regime` creates and interns them.

    Derived attributes are computed once, because each unit needs them.
    """

    framing: Framing
    version: str | None
    mechanism: str | None
    phase: Phase
    form: Form | None = None
    role: str | None = None
    socket_type: str | None = None
    early: bool = False
    opened: bool = False

    is_old: bool = field(init=False, repr=False)
    """Whether frames have the format of 1.0."""
    has_commands: bool = field(init=False, repr=False)
    """Whether a bit of the flags means COMMAND: in 3.x and ZWS, not in 2.0."""
    greets: bool = field(init=False, repr=False)
    shakes_hands: bool = field(init=False, repr=False)
    is_inside_message: bool = field(init=False, repr=False)
    """Whether units are the contents of MESSAGE boxes; these contain no further boxes."""
    source: int = field(init=False, repr=False)
    """The octets that offsets refer to: 0 the TCP stream, 1 the stream with boxes decrypted and WebSocket masks
    removed."""

    def __post_init__(self) -> None:
        self.is_old = self.framing is Framing.V1
        self.has_commands = self.framing is Framing.ZWS or (self.framing is Framing.V2 and self.version != "2.0")
        self.greets = self.phase is Phase.GREETING
        self.shakes_hands = self.phase is Phase.HANDSHAKE
        self.is_inside_message = self.opened and self.phase is Phase.TRAFFIC
        unmasked = self.framing is Framing.ZWS and self.form not in UPGRADE_FORMS
        self.source = int(self.opened or unmasked)

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        """Unpickle as the interned object."""
        return regime, tuple(getattr(self, each.name) for each in fields(self) if each.init)


@lru_cache(maxsize=4096)
def regime(
    framing: Framing,
    version: str | None,
    mechanism: str | None,
    phase: Phase,
    form: Form | None = None,
    role: str | None = None,
    socket_type: str | None = None,
    early: bool = False,
    opened: bool = False,
) -> Regime:
    """Return the regime with these values; equal values return the same object.

    - `version`: the version in force ("1.0", "2.0", "3.0", "3.1", "zws-2.0") or None
    - `mechanism`: as the sender announced it; None if there is none or it was not captured
    - `form`: for phase GREETING
    - `role`: "client" or "server" of the security handshake
    - `socket_type`: the sender's, a name of wire.md 10.6
    - `early`: padded command names (wire.md 7.4)
    - `opened`: the units belong to the decrypted stream (`zmtpscope.zmtp.opened`)
    """
    return Regime(framing, version, mechanism, phase, form, role, socket_type, early, opened)
