"""ZRE messages: one command each, with content after WHISPER and SHOUT (zre.md 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zmtpscope.payloads.api import About, Claim, Message, Payload, Reader, Settings
from zmtpscope.payloads.text import is_text
from zmtpscope.payloads.zre import UUID, uuid_of
from zmtpscope.payloads.zre.commands import COMMANDS, SIGNATURE, VERSIONS, Command, PastTheFrame, hello_1
from zmtpscope.payloads.zre.node_state import NodeState
from zmtpscope.words import listed

HEADER, HEADER_1 = 6, 5
"""Octets of a header; version 1 has no version octet."""

SHOWN_CONTENT = 80


class Zre(Payload):
    """Dissects ZRE messages, which a DEALER of one node sends to another node (zre.md 3)."""

    name = "zre"
    prefix = "zre"
    begins = SIGNATURE[:1]
    judges = True

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.node_state = NodeState()
        self.version: int | None = None
        self.node: str | None = None
        self.identity_reported = False

    def claim(self, message: Message, about: About) -> Claim:
        if self.wants_all:
            return Claim.YES
        first = message.bodies[0]
        if not first.startswith(SIGNATURE) or len(first) < HEADER_1 or first[2] not in COMMANDS:
            return Claim.NO
        if uuid_of(about.identity) is not None or version_of(first, about.identity) == 1:
            return Claim.YES if about.socket_type in (None, "DEALER") else Claim.NO
        return Claim.YES if len(first) >= HEADER and first[3] in VERSIONS else Claim.NO

    def dissect(self, message: Message, reader: Reader) -> str:
        start = reader.offset
        if message.after_loss:
            self.node_state.forget()
        octets = message.bodies[0]
        version = 1 if self.version == 1 else version_of(octets, reader.about.identity)
        signature = reader.octets("signature", min(2, reader.left), hidden=True)
        if signature != SIGNATURE:
            reader.finding("ZRE-01", start, len(signature))
            if self.wants_all and not octets.startswith(SIGNATURE[:1]):
                return f"{self.sender_name(reader)} sends data other than ZRE, {sum(map(len, message.bodies))} octets"
        if len(octets) < (HEADER_1 if version == 1 else HEADER):
            reader.finding("ZRE-06", start, len(octets))
            return "a truncated header"
        self._judge_identity(reader)
        id_ = reader.u8("command", hidden=True)
        command = COMMANDS.get(id_)
        reader.give("command", command.name if command else str(id_))
        if version == 1:
            reader.give("version", 1)
            reader.finding("ZRE-16", start, 3)
        else:
            version = reader.u8("version")
        at = reader.offset
        sequence = reader.u16("sequence")
        if version not in (1, *VERSIONS):
            reader.finding("ZRE-02", start + 3, 1)
        if signature != SIGNATURE or version not in (1, *VERSIONS):
            # nodes ignore it, and continue the sequence as if it were missing
            return f"not ZRE: signature {signature.hex()}, version {version}"
        if command is None:
            reader.finding("ZRE-15", start + 2, 1, detail=f"id {id_}")
            return f"{self.sender_name(reader)}: unknown command {id_}, sequence {sequence}"
        return self._command(command, version, message, reader, start, at)

    def _command(
        self, command: Command, version: int, message: Message, reader: Reader, start: int, sequence_at: int
    ) -> str:
        if command.extension:
            reader.finding("ZRE-14", start + 2, 1, detail=command.name)
        try:
            if command.name == "HELLO" and version == 1:
                hello_1(reader)
            else:
                command.read(reader)
        except PastTheFrame as error:
            reader.finding("ZRE-06", error.start, error.length)
            return f"malformed {command.name}"
        if reader.left:
            reader.finding("ZRE-20", reader.offset, reader.left)
            reader.octets("trailing", hidden=True)
        fields = reader.fields
        if command.name == "HELLO":
            self.version, self.node, self.wants_all = version, fields.get("name"), True
        self.node_state.judge(reader, command.name, fields, (start + 2, 1), (sequence_at, 2))
        content = self._content(command, message, reader, start)
        uuid = uuid_of(reader.about.identity)
        reader.give("node", None if uuid is None else uuid.hex().upper())
        if command.name != "HELLO" and self.node:
            reader.give("name", self.node)
        return SENTENCES[command.name](self.sender_name(reader), fields) + content

    def _content(self, command: Command, message: Message, reader: Reader, start: int) -> str:
        """Read the content frames after the command, from index `start` on; return their part of the summary."""
        frames = message.bodies[1:]
        if not command.content:
            if frames:
                reader.finding("ZRE-20", start, len(message.bodies[0]), detail=f"{len(frames)} frames follow")
            return ""
        if len(frames) != 1:
            reader.finding("ZRE-13", start + 2, 1, detail=f"{len(frames)} frames")
        shown = []
        with reader.array("content"):
            while reader.next_frame():
                body = reader.data
                if is_text(body):
                    reader.text("content", len(body))
                    shown.append(body[: 4 * SHOWN_CONTENT].decode("utf-8", "ignore")[:SHOWN_CONTENT] or '""')
                else:
                    reader.octets("content", len(body))
                    shown.append(f"{len(body)} octets")
        return f": {' | '.join(shown[:5])}" if shown else ""

    def _judge_identity(self, reader: Reader) -> None:
        """Report ZRE-08 once if the ZMTP identity differs from the UUID."""
        identity = reader.about.identity
        if identity is not None and not self.identity_reported and uuid_of(identity) is None:
            self.identity_reported = True
            reader.finding("ZRE-08", detail=f"{len(identity)} octets {identity[:20].hex()}".rstrip())

    def sender_name(self, reader: Reader) -> str:
        if self.node:
            return f"node {self.node}"
        uuid = uuid_of(reader.about.identity)
        return "a node" if uuid is None else f"node {short(uuid.hex())}"


def version_of(octets: bytes, identity: bytes | None) -> int:
    """Return the ZRE version of a HELLO.

    It is 1 if there is no version octet before the sequence number, or if the identity is the bare UUID; otherwise the
    version octet.
    """
    version = octets[3] if len(octets) > 3 else 0
    is_hello_1 = octets[2:5] == b"\x01\x00\x01"
    return 1 if is_hello_1 or (version not in VERSIONS and identity is not None and len(identity) == UUID) else version


def short(uuid: str) -> str:
    """Return the name of a node that has announced none: the first six digits of its UUID (zre.md 8)."""
    return uuid[:6].upper()


def _hello(sender_name: str, fields: dict[str, Any]) -> str:
    groups = fields.get("groups") or []
    headers = fields.get("headers") or {}
    words = [f"{sender_name} says HELLO, at {fields.get('endpoint')}"]
    if groups:
        words.append(f"in {'groups' if len(groups) > 1 else 'group'} {listed(groups, 5)}")
    words += [f"{name}={value}" for name, value in list(headers.items())[:5]]
    return ", ".join(words)


SENTENCES: dict[str, Callable[[str, dict[str, Any]], str]] = {
    "HELLO": _hello,
    "WHISPER": lambda sender_name, fields: f"{sender_name} whispers",
    "SHOUT": lambda sender_name, fields: f"{sender_name} shouts to group {fields['group']}",
    "JOIN": lambda sender_name, fields: f"{sender_name} joins group {fields['group']}",
    "LEAVE": lambda sender_name, fields: f"{sender_name} leaves group {fields['group']}",
    "PING": lambda sender_name, fields: f"{sender_name} sends PING ({fields['sequence']})",
    "PING-OK": lambda sender_name, fields: f"{sender_name} answers with PING-OK ({fields['sequence']})",
    "ELECT": lambda sender_name, fields: (
        f"{sender_name} nominates {fields['challenger_id'][:6]} as leader of group {fields['group']}"
    ),
    "LEADER": lambda sender_name, fields: (
        f"{sender_name} announces {fields['leader_id'][:6]} as leader of group {fields['group']}"
    ),
    "GOODBYE": lambda sender_name, fields: f"{sender_name} leaves (GOODBYE)",
}
