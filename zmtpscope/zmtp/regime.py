"""Regimes: what has to be known about one side, at one offset of its stream, to read a unit there."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import Enum
from functools import lru_cache


class _Kind(Enum):
    """An enumeration that is hashed by identity: regimes are looked up often, and `Enum` hashes in Python."""

    __hash__ = object.__hash__


class Framing(_Kind):
    """How frames are delimited (wire.md 3.1, 4.2, 6)."""

    V1 = "1.0"
    """Length that counts the flags octet, flags, body: ZMTP 1.0."""
    V2 = "2.0"
    """Flags, size, body: ZMTP 2.0 and 3.x."""
    ZWS = "zws-2.0"
    """WebSocket frames, flags, body: ZWS 2.0."""


class Phase(_Kind):
    """Where a side stands: it greets, shakes hands (3.x only), then sends traffic."""

    GREETING = "greeting"
    HANDSHAKE = "handshake"
    TRAFFIC = "traffic"


class Form(_Kind):
    """The shape of the first octets of one side (wire.md 9.2, 9.3)."""

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
    """A 3.x greeting that is not whole and belongs to no version in force."""
    SIGNATURE = "signature"
    """Ten octets of a peer newer than 1.0, nothing more."""
    ZWS_REQUEST = "zws-request"
    """ZWS: the HTTP head of the side that asks for a WebSocket."""
    ZWS_RESPONSE = "zws-response"
    """ZWS: that of the other side."""
    ZWS_IDENTITY = "zws-identity"
    """ZWS without a mechanism: the identity, which follows the head."""


SILENT_FORMS = frozenset((Form.NOTHING, Form.WAIT, Form.ALIEN))
"""Of these octets nothing is read."""

UPGRADE_FORMS = frozenset((Form.ZWS_REQUEST, Form.ZWS_RESPONSE))
"""HTTP, by which ZWS begins (wire.md 12)."""


def usual_form(version: str | None) -> Form:
    """How a side greets when the version is known before it has sent anything."""
    return {"1.0": Form.FRAMES_1, "2.0": Form.GREETING_2}.get(version or "", Form.GREETING_3)


@dataclass(slots=True, eq=False)
class Regime:
    """How to read the units of one side from some offset on. Make it with `regime`, which interns; nobody changes one.

    What follows from the values, and is asked for each unit, is worked out once.
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
    """Frames are those of 1.0."""
    has_commands: bool = field(init=False, repr=False)
    """A bit of the flags means COMMAND: in 3.x and ZWS, not in 2.0."""
    greets: bool = field(init=False, repr=False)
    shakes_hands: bool = field(init=False, repr=False)
    is_inside_message: bool = field(init=False, repr=False)
    """Units stand in the boxes of MESSAGEs, where no box stands in a box."""
    source: int = field(init=False, repr=False)
    """Which octets offsets count in: 0 the TCP stream, 1 the same with boxes opened and the masks of WebSocket off."""

    def __post_init__(self) -> None:
        self.is_old = self.framing is Framing.V1
        self.has_commands = self.framing is Framing.ZWS or (self.framing is Framing.V2 and self.version != "2.0")
        self.greets = self.phase is Phase.GREETING
        self.shakes_hands = self.phase is Phase.HANDSHAKE
        self.is_inside_message = self.opened and self.phase is Phase.TRAFFIC
        unmasked = self.framing is Framing.ZWS and self.form not in UPGRADE_FORMS
        self.source = int(self.opened or unmasked)

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        """Pickled and loaded it is the interned one again."""
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
    """The regime with these values, the same object for the same values.

    `version` is the version in force ("1.0", "2.0", "3.0", "3.1", "zws-2.0") or None; `mechanism` the sender's as
    announced, None where it was never seen or there is none; `form` is for phase GREETING; `role` "client" or "server"
    of the security handshake; `socket_type` the sender's, one of the names in wire.md 10.6; `early` means padded
    command names (wire.md 7.4); `opened` that the units stand in the stream with its boxes opened
    (`zmtpscope.zmtp.opened`).
    """
    return Regime(framing, version, mechanism, phase, form, role, socket_type, early, opened)
