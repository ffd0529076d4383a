"""Refused clients: rejected credentials, and keys that do not fit the server."""

from __future__ import annotations

from collections.abc import Iterator

from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.diagnosis import Diagnosis, Rule
from zmtpscope.diagnosis.observers.observed import ObservedConnection, ObservedFinding
from zmtpscope.diagnosis.rules.from_findings import OfFindings, closed_at_once, diagnoses_of
from zmtpscope.diagnosis.rules.handshakes import unanswered_logins

NOT_JUDGED = ("300", "500")
"""ZAP statuses of credentials that were not evaluated (27/ZAP, Reply)."""

ERRORS = ("PLAIN-06", "CURVE-26", "NULL-09", "GSSAPI-02")
FOLLOWS = ("PLAIN-08", "ZMTP-CONN-08", "NULL-03")
MISSPELT_HELLO = "PLAIN-07"


def _status(connection: ObservedConnection, finding: ObservedFinding) -> str | None:
    error = None if finding.side is None else connection.sides[finding.side].error
    return None if error is None else error[1]


def _is_refused(connection: ObservedConnection, finding: ObservedFinding) -> bool:
    return _status(connection, finding) not in NOT_JUDGED


def _is_not_judged(connection: ObservedConnection, finding: ObservedFinding) -> bool:
    return not _is_refused(connection, finding)


def _understands_hello(connection: ObservedConnection, finding: ObservedFinding) -> bool:
    return connection.finding(MISSPELT_HELLO) is None


def _would_send_error(connection: ObservedConnection, finding: ObservedFinding) -> bool:
    """Whether the server would send ERROR if its ZAP handler refused the client: releases that announce ZMTP 3.1 do."""
    return connection.sides[finding.side or 0].version == "3.1"


def _may_be_silent_refusal(connection: ObservedConnection, finding: ObservedFinding) -> bool:
    return not _would_send_error(connection, finding)


LOGIN_REFUSED = (
    OfFindings(
        "login-refused", "error", ERRORS, "{refuser} refuses {refused}: {detail}", None, FOLLOWS, holds=_is_refused
    ),
    OfFindings(
        "login-refused",
        "error",
        ("CURVE-24",),
        "{refuser} refuses {refused}: it closes without an answer to INITIATE, as old releases do if their ZAP "
        "handler rejects the key",
        "add the client's public key to the server's ZAP handler; if it is there, compare the socket types",
        ("ZMTP-CONN-08",),
        proven=False,
        holds=_may_be_silent_refusal,
        are=closed_at_once,
    ),
    OfFindings(
        "login-refused",
        "error",
        ("CURVE-24",),
        "{refuser} closes on the INITIATE of {refused} without an ERROR: the public and secret key of the client do "
        "not match, or the socket types are incompatible",
        "check that ZMQ_CURVE_PUBLICKEY and ZMQ_CURVE_SECRETKEY of the client match, then the socket types; the ZAP "
        "handler would have sent ERROR, unless a ZAP domain is enforced and no handler runs",
        ("ZMTP-CONN-08",),
        proven=False,
        holds=_would_send_error,
        are=closed_at_once,
    ),
)
AUTHENTICATION_FAILING = OfFindings(
    "authentication-failing",
    "error",
    ERRORS,
    "Authentication fails at {refuser}, so {refused} is rejected: {detail}",
    None,
    FOLLOWS,
    holds=_is_not_judged,
)


def _authentication_failing(knowledge: Knowledge) -> Iterator[Diagnosis]:
    yield from diagnoses_of((AUTHENTICATION_FAILING,))(knowledge)
    yield from unanswered_logins(knowledge)


NO_ZAP_HANDLER = OfFindings(
    "no-zap-handler",
    "error",
    ("PLAIN-08",),
    "{refuser} closes on the login of {refused} without an ERROR, as libzmq does without a ZAP handler in its process",
    "start a ZAP handler in the process of the server before it binds (zmq.auth of pyzmq, zauth of CZMQ)",
    proven=False,
    holds=_understands_hello,
    are=closed_at_once,
)
WRONG_SERVER_KEY = (
    OfFindings(
        "wrong-server-key",
        "error",
        ("CURVE-22",),
        "{refused} has the wrong key of {refuser}: none of the given server keys decrypts its HELLO",
        "set ZMQ_CURVE_SERVERKEY of the client to the public key of this server",
    ),
    OfFindings(
        "wrong-server-key",
        "error",
        ("CURVE-21",),
        "{refused} has the wrong key of {refuser}, which closes on its HELLO without an ERROR",
        "set ZMQ_CURVE_SERVERKEY of the client to the public key of this server; check --keys with the keys of the "
        "server proves it",
        proven=False,
    ),
)

TABLE = (
    Rule(
        "login-refused",
        "error",
        "Credentials are refused",
        "The server answered the handshake with an ERROR. Status 400 comes from its ZAP handler, which rejects a "
        "client by its credentials or its address. Only the server knows which credentials it accepts.\n"
        "* Not proven if the server closed without ERROR: releases before 4.1 do so. A server that announces ZMTP 3.1 "
        "always sends ERROR, so a close without it has another reason: it cannot decrypt the INITIATE, or the socket "
        "types do not match.\n"
        "* Severity note if the same client is accepted later.",
        "The same client is accepted later: then it is a note.",
        diagnoses_of(LOGIN_REFUSED),
        ("reconnect-storm",),
    ),
    Rule(
        "authentication-failing",
        "error",
        "Authentication service failed or did not answer",
        "The ZAP handler of the server reported an internal error (status 500) or a temporary one (300), or did not "
        "answer, so that the handshake stopped until one side gave up. libzmq sends the client nothing for status "
        "300, so the capture cannot distinguish it from a handler that hangs. A note if the same client is accepted "
        "later.",
        "The same client is accepted later: then it is a note.",
        _authentication_failing,
        ("reconnect-storm",),
    ),
    Rule(
        "no-zap-handler",
        "error",
        "No ZAP handler runs",
        "A PLAIN server closes each connection immediately after HELLO, without ERROR. libzmq does this if its "
        "process has no ZAP handler. Releases before 4.2 also do it if the handler refuses the client, and a capture "
        "cannot distinguish the two.",
        "The server sends an ERROR, or leaves the client waiting.",
        diagnoses_of((NO_ZAP_HANDLER,)),
        ("reconnect-storm",),
    ),
    Rule(
        "wrong-server-key",
        "error",
        "Client uses the wrong server key",
        "A CURVE server closes without ERROR after a HELLO that its secret key cannot decrypt: the client encrypted "
        "it for another public key. Proven if the keys of --keys do not decrypt the HELLO, likely if no keys were "
        "given.",
        "* A key of --keys decrypts the HELLO.\n* The server sends an ERROR, or leaves the client waiting.",
        diagnoses_of(WRONG_SERVER_KEY),
        ("reconnect-storm",),
    ),
)
