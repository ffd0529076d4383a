"""What it means that the other side closed before the handshake was complete: most peers do it without a word."""

from __future__ import annotations

from zmtpscope.zmtp.greeting import GREETING_3_SIZE
from zmtpscope.zmtp.peer.errors import ClosedHalfWay, Mismatch, PeerError, Refused, UnfitSocketType
from zmtpscope.zmtp.peer.settings import Settings

_SILENTLY: dict[tuple[str, str], tuple[type[PeerError], str]] = {
    ("NULL", "READY"): (UnfitSocketType, "it probably takes no {socket_type} socket"),
    ("PLAIN", "HELLO"): (
        Refused,
        "libzmq does so where nobody checks logins, others where the login is wrong",
    ),
    ("PLAIN", "INITIATE"): (UnfitSocketType, "it probably takes no {socket_type} socket"),
    ("CURVE", "HELLO"): (Refused, "the server key is probably not that of this server"),
    ("CURVE", "INITIATE"): (UnfitSocketType, "it probably takes no {socket_type} socket, or not our key"),
}
"""By mechanism and what we said last (wire.md 7.2, 8.2, 14; curve.md 9)."""


def why_closed(settings: Settings, received: int, awaited: str | None, said: str | None) -> PeerError:
    """The error for a connection that the other side closed `received` octets into its stream.

    `awaited` is the command that was due and `said` the last one of ours; None before the handshake.
    """
    if awaited is None:
        if not received:
            return ClosedHalfWay("the other side closed without having sent an octet")
        if settings.version >= "3.0" and 10 <= received < GREETING_3_SIZE:
            why = "it probably wants another mechanism or version"
            return Mismatch(f"the other side closed inside its greeting, behind {received} octets: {why}")
        return ClosedHalfWay(f"the other side closed inside its greeting, behind {received} octets")
    mechanism = settings.security.mechanism
    kind, meaning = _SILENTLY.get((mechanism, said or ""), (ClosedHalfWay, ""))
    meaning = meaning.format(socket_type=settings.socket_type)
    place = f"when it got our {said}" if said else "behind the greetings"
    return kind(f"the other side closed {place}, where {awaited} was due" + (f": {meaning}" if meaning else ""))
