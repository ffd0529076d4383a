from __future__ import annotations

from typing import Literal, NamedTuple

Severity = Literal["error", "warn", "note", "chat"]
"""error (malformed or forbidden), warn (unusual, probably wrong), note (a remark), chat (a normal event)."""

SEVERITIES: tuple[Severity, ...] = ("error", "warn", "note", "chat")


class FindingKind(NamedTuple):
    """The declaration of a finding id. `text` is a sentence without its full stop, so that details can follow; `hint`
    is the remedy.

    `section` names a specification (at rfc.zeromq.org, except TCP) and its section. If only implementations show the
    rule, it names a page of docs/protocol.
    """

    id: str
    severity: Severity
    section: str
    text: str
    hint: str | None = None


HABITS = frozenset({"CURVE-10", "CURVE-11", "ZMTP31-PING-05"})


def is_habitual(severity: str, id_: str) -> bool:
    """Whether a finding is shown only on request: it is a normal event (chat), or a habit of libzmq."""
    return severity == "chat" or id_ in HABITS
