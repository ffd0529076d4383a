"""Why a connection cannot go on. `str()` of each is the sentence for people: at which step, and what happened."""

from __future__ import annotations

from collections.abc import Iterable

from zmtpscope.findings import FINDINGS
from zmtpscope.zmtp.reader import Finding


class PeerError(Exception):
    """The connection is over. What came before stands, and `Peer.outgoing` may have a last word to send.

    `text` may hold what the other side sent: what is not printable in it is escaped.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text if text.isprintable() else "".join(map(_printable, text)))


class NotZmtp(PeerError):
    """The other side speaks something else."""


class Mismatch(PeerError):
    """The two sides have no version, or no mechanism, in common."""


class Refused(PeerError):
    """The login or a key was refused: ours by the other side, or its by us."""


class UnfitSocketType(PeerError):
    """The socket types of the two sides may not be connected (wire.md 10.6)."""


class Violation(PeerError):
    """The other side broke the protocol, or a limit that was set for it."""


class TooSlow(PeerError):
    """The other side did not go on in time, or gave no sign of life."""


class ClosedHalfWay(PeerError):
    """The other side closed inside the greeting, the handshake or a message."""


def _printable(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def check(findings: Iterable[Finding]) -> None:
    """Raise `Violation` for what readers find wrong with the other side: the one place where a finding becomes an
    exception."""
    for finding in findings:
        kind = FINDINGS[finding.id]
        if (finding.severity or kind.severity) == "error":
            where = "" if finding.start is None else f", octet {finding.start} of its stream"
            detail = f": {finding.detail}" if finding.detail else ""
            raise Violation(f"{kind.text}{detail} ({finding.id}{where})")
