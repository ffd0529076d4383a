"""Explain why the other side closed during the handshake: most peers send no ERROR."""

from __future__ import annotations

from zmtpscope.words import counted
from zmtpscope.zmtp.peer.errors import ClosedHalfWay, Mismatch, PeerError, Refused, UnfitSocketType
from zmtpscope.zmtp.peer.settings import Settings
from zmtpscope.zmtp.signature import SIGNATURE_SIZE

_SILENTLY: dict[tuple[str, str], tuple[type[PeerError], str]] = {
    ("NULL", "READY"): (UnfitSocketType, "it probably does not accept a {socket_type} socket"),
    ("PLAIN", "HELLO"): (
        Refused,
        "libzmq closes if no ZAP handler checks logins, other peers if the login is wrong",
    ),
    ("PLAIN", "INITIATE"): (UnfitSocketType, "it probably does not accept a {socket_type} socket"),
    ("CURVE", "HELLO"): (Refused, "the server key probably belongs to another server"),
    ("CURVE", "INITIATE"): (UnfitSocketType, "it probably does not accept a {socket_type} socket, or our key"),
}
"""Reasons by mechanism and our last command (wire.md 7.2, 8.2, 14; curve.md 9)."""


def why_greeting_ended(settings: Settings, version: str | None, received: int) -> PeerError:
    """Return the error for a close after `received` octets of the greeting."""
    if not received:
        return ClosedHalfWay("the other side closed without sending data")
    what = f"the other side closed after {counted(received, 'octet')} of its greeting"
    if received < SIGNATURE_SIZE or (version is not None and version < "3.0"):
        return ClosedHalfWay(what)
    mechanism = f", or another mechanism than {settings.security.mechanism}" if settings.version >= "3.0" else ""
    return Mismatch(f"{what}: it probably requires another version of ZMTP than {settings.version}{mechanism}")


def why_handshake_ended(settings: Settings, awaited: str, said: str | None, *, cut: bool) -> PeerError:
    """Return the error for a close before the command `awaited`, or inside it if `cut`; `said` is our last command."""
    if cut:
        return ClosedHalfWay(f"the other side closed inside a command, before its {awaited} was complete")
    if said is None:
        return ClosedHalfWay(f"the other side closed after the greetings, without sending {awaited}")
    kind, meaning = _SILENTLY.get((settings.security.mechanism, said), (ClosedHalfWay, ""))
    what = f"the other side closed after our {said}, without sending {awaited}"
    return kind(f"{what}: {meaning.format(socket_type=settings.socket_type)}" if meaning else what)
