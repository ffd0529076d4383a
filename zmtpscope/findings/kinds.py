"""What a finding of one kind is known by."""

from __future__ import annotations

from typing import Literal, NamedTuple

Severity = Literal["error", "warn", "note", "chat"]
"""Malformed or forbidden; unusual, probably wrong; worth knowing; a normal event."""

SEVERITIES: tuple[Severity, ...] = ("error", "warn", "note", "chat")


class FindingKind(NamedTuple):
    """One check. `text` is a sentence without its full stop, so that details can follow; `hint` says what to do.

    `section` names the specification (at rfc.zeromq.org, but for TCP) and the section there, or a page of docs/protocol
    where what implementations do is the only source.
    """

    id: str
    severity: Severity
    section: str
    text: str
    hint: str | None = None
