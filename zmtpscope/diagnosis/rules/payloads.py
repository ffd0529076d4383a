"""Findings about the content of messages: unsafe pickles, and missing sequence numbers."""

from __future__ import annotations

from zmtpscope.diagnosis.diagnosis import Rule
from zmtpscope.diagnosis.observers.observed import ObservedConnection, ObservedFinding
from zmtpscope.diagnosis.rules.from_findings import OfFindings, diagnoses_of
from zmtpscope.dissect.identity import is_loopback


def _imports(_: ObservedConnection, finding: ObservedFinding) -> bool:
    """Whether loading the pickle imports something, and so runs code."""
    return finding.severity != "note"


def _imports_from_network(connection: ObservedConnection, finding: ObservedFinding) -> bool:
    return _imports(connection, finding) and not _imports_from_own_host(connection, finding)


def _imports_from_own_host(connection: ObservedConnection, finding: ObservedFinding) -> bool:
    """Whether both programs use the loopback interface, which only programs of this host can reach."""
    is_local = all(is_loopback(side.ip) for side in connection.sides)
    return is_local and finding.severity == "warn"


PICKLE = OfFindings(
    "pickle-payload",
    "warn",
    ("PICKLE-01",),
    "A pickle travels between {client} and {server}: {detail}",
    "loading a pickle runs code chosen by its sender: send JSON, MessagePack or protobuf, or at least accept only "
    "trusted peers (CURVE)",
    holds=_imports_from_network,
    is_final=True,
)
LOCAL_PICKLE = PICKLE._replace(severity="note", holds=_imports_from_own_host)

SEQUENCE = OfFindings(
    "sequence-gap",
    "warn",
    ("SEQUENCE-01",),
    "The sequence numbers of messages between {server} and {client} have gaps: {detail}",
    "a PUB drops messages beyond ZMQ_SNDHWM and before a subscription: request missing messages again if the "
    "application can (a snapshot, a replay), or raise the limits",
    is_final=True,
)

TABLE = (
    Rule(
        PICKLE.rule,
        PICKLE.severity,
        "Pickles are sent over the network",
        "A message contains a Python pickle that imports something when it is loaded (PICKLE-01). Every peer that can "
        "send to this socket can run code in the receiving program. Pickles of plain values are not reported, and "
        "encrypted messages can be checked only with their keys.\n"
        "* Severity note between programs on the loopback interface of one host, unless the imported function can run "
        "a command.",
        "The pickle imports nothing.",
        diagnoses_of((PICKLE, LOCAL_PICKLE)),
    ),
    Rule(
        SEQUENCE.rule,
        SEQUENCE.severity,
        "Sequence numbers in messages have gaps",
        "Messages contain a counter (SEQUENCE-01), and some numbers are missing although the capture has all octets "
        "there. So the sender skipped or dropped these messages, at least for this receiver.",
        "Octets of the connection are missing from the capture there.",
        diagnoses_of((SEQUENCE,)),
    ),
)
