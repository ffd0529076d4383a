from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from functools import lru_cache


class _Kind(Enum):
    """An enum that hashes by identity: regimes are looked up often, and the hash of `Enum` is slow Python code."""

    __hash__ = object.__hash__


class Framing(_Kind):
    V1 = "1.0"
    """Length that includes the flags octet, flags, body."""
    V2 = "2.0"
    """Frames of flags, size and body, also in 3.x."""
    ZWS = "zws-2.0"
    """WebSocket frames of flags and body."""


class Phase(_Kind):
    GREETING = "greeting"
    HANDSHAKE = "handshake"
    TRAFFIC = "traffic"


class Form(_Kind):
    """How the first octets of one side are to be parsed: which greeting, or none (wire.md 9.2, 9.3)."""

    NOTHING = "none"
    WAIT = "wait"
    ALIEN = "alien"
    FRAMES_1 = "frames-1"
    PSEUDO_SIGNATURE = "pseudo-signature"
    """ZMTP 1.0 from a newer peer, whose signature is the long header of its identity frame."""
    VERSIONED_1 = "greeting-r0"
    """Revision 0: signature, socket type, then 1.0 frames."""
    GREETING_2 = "greeting-2"
    GREETING_3 = "greeting-3x"
    PARTIAL_3 = "greeting-3x-partial"
    """An incomplete 3.x greeting; no version is in force."""
    SIGNATURE = "signature"
    """A peer newer than 1.0 that sent nothing after its signature."""
    ZWS_REQUEST = "zws-request"
    ZWS_RESPONSE = "zws-response"
    ZWS_IDENTITY = "zws-identity"
    """The identity message of ZWS without a mechanism, after the HTTP head."""


SILENT_FORMS = frozenset((Form.NOTHING, Form.WAIT, Form.ALIEN))
"""Forms without octets to parse."""

UPGRADE_FORMS = frozenset((Form.ZWS_REQUEST, Form.ZWS_RESPONSE))


def usual_form(version: str | None) -> Form:
    """Return how to parse the first octets of a side whose version is known in advance."""
    return {"1.0": Form.FRAMES_1, "2.0": Form.GREETING_2}.get(version or "", Form.GREETING_3)


@dataclass(slots=True, eq=False)
class Regime:
    """How to parse the octets of one side from a stream offset on: framing, version, mechanism, phase, roles.

    Immutable; `regime` makes one object for equal values. Derived attributes are computed once, since each frame needs
    them.
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
    """Whether frames are of 1.0."""
    has_commands: bool = field(init=False, repr=False)
    """Whether the flags have a COMMAND bit: 3.x and ZWS, not 2.0."""
    greets: bool = field(init=False, repr=False)
    shakes_hands: bool = field(init=False, repr=False)
    is_inside_message: bool = field(init=False, repr=False)
    """Whether units are the contents of MESSAGE boxes, which contain no further boxes."""
    source: int = field(init=False, repr=False)
    """The octets that offsets refer to: 0 the TCP stream, 1 with boxes decrypted and WebSocket masks removed."""

    def __post_init__(self) -> None:
        self.is_old = self.framing is Framing.V1
        self.has_commands = self.framing is Framing.ZWS or (self.framing is Framing.V2 and self.version != "2.0")
        self.greets = self.phase is Phase.GREETING
        self.shakes_hands = self.phase is Phase.HANDSHAKE
        self.is_inside_message = self.opened and self.phase is Phase.TRAFFIC
        unmasked = self.framing is Framing.ZWS and self.form not in UPGRADE_FORMS
        self.source = int(self.opened or unmasked)

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
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

    - `version`: in force ("1.0", "2.0", "3.0", "3.1", "zws-2.0"), or None
    - `mechanism`: announced by the sender; None if there is none or it was not captured
    - `form`: the kind of greeting, in phase GREETING only
    - `role`: "client" or "server" of the security handshake
    - `socket_type`: the sender's
    - `early`: command names are padded, as in early drafts (wire.md 7.4)
    - `opened`: the stream is decrypted (`zmtpscope.zmtp.opened`)
    """
    return Regime(framing, version, mechanism, phase, form, role, socket_type, early, opened)
