"""Beacons, by which ZRE nodes find each other: UDP datagrams to port 5670 (zre.md 2)."""

from __future__ import annotations

from zmtpscope.payloads.api import About, Claim, Message, Payload, Reader
from zmtpscope.payloads.zre import UUID
from zmtpscope.zmtp.z85 import encode

HEADER = b"ZRE"
PORT = 5670
KEY = 32
SIZES = {1: (22,), 3: (22, 54)}
"""Octets by version; the key is optional in version 3 (zre.md 2, Z3)."""
LARGEST = 54
MAILBOXES = range(0xC000, 0x10000)


class Beacon(Payload):
    """Dissects a beacon: the UUID of a node, its mailbox port (0: the node leaves) and public key."""

    name = "zre-beacon"
    prefix = "zre.beacon"
    begins = HEADER[:1]
    judges = True

    def claim(self, message: Message, about: About) -> Claim:
        octets = message.bodies[0]
        if not octets.startswith(HEADER) or len(octets) < 4:
            return Claim.NO
        return Claim.YES if about.dst_port == PORT or len(octets) in (22, LARGEST) else Claim.NO

    def dissect(self, message: Message, reader: Reader) -> str:
        start, size = reader.offset, reader.left
        reader.text("header", len(HEADER), hidden=True)
        version = reader.u8("version")
        sizes = SIZES.get(version)
        if sizes is None:
            reader.finding("ZRE-BEACON-01", start + 3, 1, detail=f"it is {version}")
        if size not in (sizes or (22, LARGEST)):
            reader.finding("ZRE-BEACON-02", start, size, detail=f"{size} octets")
        if reader.left < UUID:
            return "a truncated beacon"
        uuid = reader.octets("uuid", UUID, hidden=True).hex().upper()
        reader.give("uuid", uuid)
        if reader.left >= 2:
            at = reader.offset
            port = reader.u16("port")
            if port == 0:
                reader.finding("ZRE-BEACON-04", at, 2, detail=f"node {uuid[:6]}")
            elif port not in MAILBOXES:
                reader.finding("ZRE-BEACON-03", at, 2, detail=f"port {port}")
        if reader.left >= KEY:
            key = reader.octets("public_key", KEY, hidden=True)
            reader.give("public_key", encode(key) if any(key) else None)
        if reader.left:
            reader.prefix = "zre"
            reader.octets("trailing", hidden=True)
        return sentence(reader.fields)


def sentence(fields: dict[str, object]) -> str:
    sender_name = f"node {str(fields['uuid'])[:6]}"
    if fields.get("port") is None:
        return f"beacon of {sender_name} without a port"
    if not fields["port"]:
        return f"{sender_name} leaves"
    return f"{sender_name} is here, mailbox at port {fields['port']}" + (
        ", with CURVE" if fields.get("public_key") else ""
    )
