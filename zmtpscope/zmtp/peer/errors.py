"""Reasons why a connection cannot continue. `str()` names the step that failed, and how."""

from __future__ import annotations

from collections.abc import Iterable

from zmtpscope.findings import FINDINGS
from zmtpscope.zmtp.reader import Finding


class PeerError(Exception):
    """The connection has failed. Earlier events are valid, and `Peer.outgoing` may return a final ERROR to send.

    `text` may contain octets of the other side, escaped if unprintable.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text if text.isprintable() else "".join(map(_printable, text)))


class NotZmtp(PeerError):
    """The other side does not speak ZMTP."""


class Mismatch(PeerError):
    """The two sides have no common version or mechanism."""


class Refused(PeerError):
    """A login or key was refused: ours by the other side, or theirs by us."""


class UnfitSocketType(PeerError):
    """The two socket types may not be connected (wire.md 10.6)."""


class Violation(PeerError):
    """The other side violated the protocol or one of our limits."""


class TooSlow(PeerError):
    """The other side exceeded a time limit, or sent no sign of life."""


class ClosedHalfWay(PeerError):
    """The other side closed inside the greeting, the handshake or a message."""


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
