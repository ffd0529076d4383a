"""RADIO to DISH over UDP (wire.md 11): a datagram has group length, group and body, without greeting and version."""

from __future__ import annotations

from zmtpscope.payloads.api import About, Claim, Message, Payload, Reader

LARGEST = 8192
"""Octets of a datagram of libzmq."""


class Radio(Payload):
    """Dissects a RADIO message, one datagram.

    It has no magic number, so the dissector is selected by other evidence.
    """

    name = "radio"
    prefix = "radio"
    judges = True

    def claim(self, message: Message, about: About) -> Claim:
        octets = message.bodies[0]
        return Claim.MAYBE if octets and len(octets) > octets[0] and len(octets) <= LARGEST else Claim.NO

    def dissect(self, message: Message, reader: Reader) -> str:
        start = reader.offset
        length = reader.u8("group_length", hidden=True)
        if length > reader.left:
            reader.finding("RADIO-UDP-01", start, 1, detail=f"{length} octets of {reader.left}")
            reader.text("group")
            return "malformed: the group is longer than the datagram"
        group = reader.text("group", length)
        body = reader.octets("body", hidden=True)
        return f"group {group or '(empty)'}, {len(body)} octets"
