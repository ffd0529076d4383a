"""Check the commands of one node to one peer: first command, sequence numbers, groups and status (zre.md 7)."""

from __future__ import annotations

from typing import Any

from zmtpscope.payloads.api import Reader

Fields = dict[str, Any]
Span = tuple[int, int]
"""Stream offset and number of octets."""

MAX_GROUPS = 4096

WRAPS = ((65535, 0), (65534, 0))
"""Wraps of sequence numbers by Zyre, and by Pyre (zre.md 7)."""


class NodeState:
    """The commands that a node has sent on one connection.

    Attributes are None if the capture lacks the command that sets them.
    """

    def __init__(self) -> None:
        self.began = False
        self.sequence: int | None = None
        self.status: int | None = None
        self.groups: set[str] | None = None

    def forget(self) -> None:
        """Forget all state after a possible loss of messages, so that later commands are not compared with earlier
        ones."""
        self.began = True
        self.sequence = self.status = self.groups = None

    def judge(self, reader: Reader, name: str, fields: Fields, command: Span, sequence: Span) -> None:
        """Check a command; `command` and `sequence` are the (offset, length) of its id and of its sequence number."""
        if not self.began and name != "HELLO":
            reader.finding("ZRE-03", *command, detail=f"it is {name}")
        self._sequence(reader, name, fields["sequence"], sequence)
        if name == "HELLO":
            self.status = fields.get("status")
            groups = fields.get("groups")
            self.groups = set(groups) if groups is not None and len(groups) <= MAX_GROUPS else None
        elif name in ("JOIN", "LEAVE"):
            self._membership(reader, name, fields, command)
        self.began = True

    def _sequence(self, reader: Reader, name: str, sequence: int, span: Span) -> None:
        before, self.sequence = self.sequence, sequence
        if name == "HELLO":
            if sequence != 1:
                reader.finding("ZRE-04", *span, detail=f"it has {sequence}")
        elif before is not None:
            if (before, sequence) in WRAPS:
                reader.finding("ZRE-05", *span, detail=f"from {before} to {sequence}")
            elif sequence != before + 1:
                reader.finding("ZRE-07", *span, detail=f"{sequence} follows {before}")

    def _membership(self, reader: Reader, name: str, fields: Fields, command: Span) -> None:
        group, status = fields.get("group"), fields.get("status")
        if group is None or status is None:
            return
        if self.status is not None and status != (self.status + 1) % 256:
            reader.finding("ZRE-10", *command, detail=f"status {status} follows {self.status}")
        self.status = status
        if self.groups is None:
            return
        if (group in self.groups) == (name == "JOIN"):
            is_in = "is already in" if name == "JOIN" else "is not in"
            reader.finding("ZRE-18", *command, detail=f'{name} for "{group}", which it {is_in}')
        if name == "LEAVE":
            self.groups.discard(group)
        elif len(self.groups) < MAX_GROUPS:
            self.groups.add(group)
