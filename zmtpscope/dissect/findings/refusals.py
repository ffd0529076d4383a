"""Explain an ERROR in the handshake: which credentials were refused, why, and the remedy (27/ZAP Reply; wire.md 7.3,
8)."""

from __future__ import annotations

from typing import NamedTuple

REFUSED = "400"

NOT_JUDGED = {
    "300": (
        "authentication failed temporarily",
        "retry later; if it persists, check the ZAP handler of that side",
    ),
    "500": (
        "authentication failed with an internal error",
        "the fault is on that side, not at the client: see the log of its ZAP handler",
    ),
}
"""Statuses that do not reject the peer itself, each with its meaning and remedy."""

OTHER_HINT = "see the log of the side that sent ERROR"


class Refusing(NamedTuple):
    """A kind of refusal: id of the finding, name of the credentials until more is known, and the remedy."""

    id: str
    subject: str
    hint: str


REFUSING = {
    "NULL": Refusing(
        "NULL-09", "the peer", "NULL has no credentials: the ZAP handler decides by address and ZAP domain"
    ),
    "PLAIN": Refusing(
        "PLAIN-06",
        "the login of the client",
        "check user name and password at the client, and which logins the server's ZAP handler accepts",
    ),
    "CURVE": Refusing(
        "CURVE-26",
        "the key or the address of the client",
        "add the client's public key to the server's ZAP handler, check that the client uses that key pair, and that "
        "the handler allows its address",
    ),
    "GSSAPI": Refusing(
        "GSSAPI-02", "the principal of the peer", "check the principal, and which ones the server's ZAP handler accepts"
    ),
}
"""Explanations by mechanism. An ERROR without one of these mechanisms is not explained."""


def explain(refusing: Refusing, reason: str | None, subject: str | None) -> tuple[str, str]:
    """Return (text, remedy) about a refusal; the text is part of a sentence, with the reason.

    `subject` names the credentials, such as a user name.
    """
    who = subject or refusing.subject
    if reason == REFUSED:
        return f"{reason}, {who} was refused", refusing.hint
    if reason in NOT_JUDGED:
        meaning, hint = NOT_JUDGED[reason]
        return f"{reason}, {meaning}; {who} was not checked", hint
    given = f'the reason is "{reason}"' if reason else "without a reason"
    return given + (f" about {subject}" if subject else ""), OTHER_HINT
