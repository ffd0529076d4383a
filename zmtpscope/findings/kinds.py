from __future__ import annotations

from typing import Literal, NamedTuple

Severity = Literal["error", "warn", "note", "chat"]
"""error (malformed or forbidden), warn (unusual, probably wrong), note (a remark), chat (a normal event)."""

SEVERITIES: tuple[Severity, ...] = ("error", "warn", "note", "chat")


class FindingKind(NamedTuple):
    """A kind of finding. `text` is a sentence without its full stop, so that details can follow; `hint` is the
    remedy. `section` names a specification (at rfc.zeromq.org, except TCP) and its section. If implementations are
    the only source, it names a page of docs/protocol."""

    id: str
    severity: Severity
    section: str
    text: str
    hint: str | None = None


HABITS = frozenset({"CURVE-10", "CURVE-11", "ZMTP31-PING-05"})


def is_habitual(severity: str, id_: str) -> bool:
    """Whether a finding is a normal event or a habit of libzmq, shown only on request."""
    return severity == "chat" or id_ in HABITS
