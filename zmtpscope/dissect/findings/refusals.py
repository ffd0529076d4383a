"""What an ERROR in the handshake means: who was not let in, why, and where to look (27/ZAP Reply; wire.md 7.3, 8).

The reason of libzmq is the status of ZAP: 400 is the only one by which credentials are refused; with 300 and 500 nobody
has judged them.
"""

from __future__ import annotations

from typing import NamedTuple

REFUSED = "400"
"""The status by which the credentials themselves were refused."""

NOT_JUDGED = {
    "300": (
        "authentication is not possible for now",
        "try again later; if it stays so, look at the ZAP handler of that side",
    ),
    "500": (
        "authentication met an internal error",
        "the fault is on that side, not in who asked: look at the log of its ZAP handler",
    ),
}
"""What the other statuses mean, and what to do."""

OTHER_HINT = "the log of the side that sent ERROR says more"


class Refusing(NamedTuple):
    """How a mechanism refuses a peer: the finding, what the peer is known by as long as it has not
    said more, and what to do when that was refused."""

    id: str
    subject: str
    hint: str


REFUSING = {
    "NULL": Refusing("NULL-09", "the peer", "NULL has no credentials: its ZAP handler goes by address and ZAP domain"),
    "PLAIN": Refusing(
        "PLAIN-06",
        "the login of the client",
        "check user name and password at the client, and what the server's ZAP handler lets in",
    ),
    "CURVE": Refusing(
        "CURVE-26",
        "the key of the client",
        "give the client's public key to the server's ZAP handler, and check that the client uses that key pair",
    ),
    "GSSAPI": Refusing(
        "GSSAPI-02", "the principal of the peer", "check the principal, and what the server's ZAP handler lets in"
    ),
}
"""By mechanism. An ERROR under one that is not known, or was not captured, is written as a command and not
explained."""


def explain(refusing: Refusing, reason: str | None, subject: str | None) -> tuple[str, str]:
    """What was refused and why, for a sentence, and what to do. `subject` is what the peer is known by."""
    who = subject or refusing.subject
    if reason == REFUSED:
        return f"{reason}, {who} was refused", refusing.hint
    if reason in NOT_JUDGED:
        meaning, hint = NOT_JUDGED[reason]
        return f"{reason}, {meaning}; {who} was not judged", hint
    said = f'it says "{reason}"' if reason else "it gives no reason"
    return said + (f" about {subject}" if subject else ""), OTHER_HINT
