"""Record types, and `text`: the encoding of octets as text. `record_fields.py` defines the fields."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from zmtpscope import record_fields as fields
from zmtpscope.record_fields import COMMON, STREAM, Field

MASK = "***"
"""Text in place of a secret of any size."""

SECOND = 1_000_000_000
MILLISECOND = SECOND // 1000

SCHEMA = 1
"""Value of `schema` in every record."""

_ESCAPE = re.compile(rb"\\x([0-9A-Fa-f]{2})|\\\\")


def to_text(octets: bytes) -> str:
    r"""Decode UTF-8; other octets become `\xNN`, and each backslash is doubled. `from_text` restores the octets."""
    return octets.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


def from_text(text: str) -> bytes:
    """Return the octets that `to_text` encoded.

    Also decodes a command line argument that is invalid UTF-8 (PEP 383).
    """
    octets = text.encode("utf-8", "surrogateescape")
    return _ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode()) if match[1] else b"\\", octets)


class RecordType(NamedTuple):
    """A type of records. `fields` has the order of every output."""

    name: str
    meaning: str
    fields: tuple[Field, ...]


RECORDS: dict[str, RecordType] = {
    type_.name: type_
    for type_ in (
        RecordType("connection", "A TCP connection that speaks ZMTP, written when it ends", COMMON + fields.CONNECTION),
        RecordType("greeting", "The first octets of a side: version and mechanism", COMMON + STREAM + fields.GREETING),
        RecordType("command", "READY, ERROR, SUBSCRIBE, PING and others", COMMON + STREAM + fields.COMMAND),
        RecordType("message", "A whole message of one or more frames", COMMON + STREAM + fields.MESSAGE),
        RecordType("frame", "One frame of a message, with --frames", COMMON + STREAM + fields.FRAME),
        RecordType("datagram", "A UDP datagram: a ZRE beacon, or a RADIO message", COMMON + STREAM + fields.DATAGRAM),
        RecordType(
            "zre_pair",
            "Two ZRE nodes and their connections, written when both have sent HELLO",
            COMMON + fields.ZRE_PAIR,
        ),
        RecordType("gap", "Octets that the capture lost", COMMON + STREAM + fields.GAP),
        RecordType(
            "stall",
            "A time during which a side could not send because the receive window of the other side was closed",
            COMMON + STREAM + fields.STALL,
        ),
        RecordType(
            "retransmission",
            "A time during which a side sent the same octets or keepalive probes repeatedly, and the other side did "
            "not acknowledge them",
            COMMON + STREAM + fields.RETRANSMISSION,
        ),
        RecordType(
            "leftover",
            "Captured octets that belong to no greeting, command or message",
            COMMON + STREAM + fields.LEFTOVER,
        ),
        RecordType("finding", "A problem or remark about the traffic", COMMON + STREAM + fields.FINDING),
        RecordType("request", "A request and its outcome, with --derived", COMMON + STREAM + fields.REQUEST),
        RecordType(
            "subscription",
            "A subscription of a side and its duration, with --derived",
            COMMON + STREAM + fields.SUBSCRIPTION,
        ),
        RecordType("heartbeat", "A PING and its PONG, with --derived", COMMON + STREAM + fields.HEARTBEAT),
        RecordType("peer", "A peer over all its connections, with --derived", COMMON + fields.PEER),
        RecordType("topic", "The messages of one publisher under a topic, with --derived", COMMON + fields.TOPIC),
        RecordType(
            "delivery",
            "The messages of a topic that one subscriber received, and missed, with --derived",
            COMMON + fields.DELIVERY,
        ),
        RecordType("diagnosis", "A problem, its cause and the fix, with --derived", COMMON + fields.DIAGNOSIS),
    )
}

PLURALS = {name: f"{name}s" for name in RECORDS} | {"delivery": "deliveries", "diagnosis": "diagnoses"}
"""Table names by record type."""
SINGULARS = {plural: name for name, plural in PLURALS.items()}
"""Record types by table name."""

DERIVED = frozenset({"request", "subscription", "heartbeat", "peer", "topic", "delivery", "diagnosis"})
"""Records that are computed from other records, and written on request only."""

ACROSS = frozenset({"peer", "topic", "delivery", "diagnosis"})
"""Records about several connections, written at the end of the capture."""


_OWN: dict[str, dict[str, Any]] = {
    name: dict.fromkeys([field.name for field in type_.fields[len(COMMON) :]]) for name, type_ in RECORDS.items()
}


def empty_own(type: str) -> dict[str, Any]:
    return _OWN[type].copy()


def empty(type: str) -> dict[str, Any]:
    return {**dict.fromkeys([field.name for field in COMMON]), **_OWN[type]}
