"""Exceptions of `Peer`: why a connection cannot continue, or why the other side closed it.

`str()` names the step that failed.
"""

from __future__ import annotations

from collections.abc import Iterable

from zmtpscope.findings import FINDINGS
from zmtpscope.words import counted
from zmtpscope.zmtp.greeting import SIGNATURE_SIZE
from zmtpscope.zmtp.peer.settings import Settings
from zmtpscope.zmtp.reader import Finding


class PeerError(Exception):
    """The connection has failed.

    Events before the error are valid, and `Peer.outgoing` may return a last ERROR to send. `text` may quote octets of
    the other side, escaped if unprintable.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text if text.isprintable() else "".join(map(_printable, text)))


class NotZmtp(PeerError):
    """The other side does not speak ZMTP."""


class Mismatch(PeerError):
    """The two sides have no common version or mechanism."""


class Refused(PeerError):
    """Credentials were refused: ours by the other side, or the other side's by us."""


class UnfitSocketType(PeerError):
    """The two socket types may not be connected (wire.md 10.6)."""


class Violation(PeerError):
    """The other side violated the protocol or one of our limits."""


class TooSlow(PeerError):
    """The other side exceeded a time limit of the handshake, or has been silent for too long."""


class ClosedHalfWay(PeerError):
    """The other side closed before its greeting, handshake or message was complete."""


def _printable(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def check(findings: Iterable[Finding]) -> None:
    """Raise `Violation` for the first finding of severity error."""
    for finding in findings:
        kind = FINDINGS[finding.id]
        if (finding.severity or kind.severity) == "error":
            where = "" if finding.start is None else f", octet {finding.start} of its stream"
            detail = f": {finding.detail}" if finding.detail else ""
            raise Violation(f"{kind.text}{detail} ({finding.id}{where})")


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
    """Return the error for a close by the other side after `received` octets of its greeting."""
    if not received:
        return ClosedHalfWay("the other side closed without sending data")
    what = f"the other side closed after {counted(received, 'octet')} of its greeting"
    if received < SIGNATURE_SIZE or (version is not None and version < "3.0"):
        return ClosedHalfWay(what)
    mechanism = f", or another mechanism than {settings.security.mechanism}" if settings.version >= "3.0" else ""
    return Mismatch(f"{what}: it probably requires another version of ZMTP than {settings.version}{mechanism}")


def why_handshake_ended(settings: Settings, awaited: str, sent: str | None, *, cut: bool) -> PeerError:
    """Return the error for a close by the other side before its command `awaited`.

    `cut`: it closed inside that command. `sent` is the last command that we sent.
    """
    if cut:
        return ClosedHalfWay(f"the other side closed inside a command, before its {awaited} was complete")
    if sent is None:
        return ClosedHalfWay(f"the other side closed after the greetings, without sending {awaited}")
    kind, meaning = _SILENTLY.get((settings.security.mechanism, sent), (ClosedHalfWay, ""))
    what = f"the other side closed after our {sent}, without sending {awaited}"
    return kind(f"{what}: {meaning.format(socket_type=settings.socket_type)}" if meaning else what)
