"""The table of all findings: id, default severity, source, text, hint.

conformance.md defines ids, severities and exact conditions. Ids are stable: never reuse or renumber one.
"""

from zmtpscope.findings import capturing, commands, framing, mechanisms, patterns, payloads, zre, zws
from zmtpscope.findings.kinds import SEVERITIES, FindingKind

__all__ = ["FINDINGS", "SEVERITIES", "FindingKind", "detail_of"]

PARTS = capturing, framing, commands, patterns, mechanisms, zre, zws, payloads

FINDINGS: dict[str, FindingKind] = {kind.id: kind for part in PARTS for kind in part.KINDS}
"""Findings by id, in the order of conformance.md."""


def detail_of(id_: str, text: str) -> str:
    """Return the details in a finding's text, which follow the sentence of its id, or ""."""
    return text.removeprefix(FINDINGS[id_].text).removeprefix(": ")
