"""All findings of zmtpscope: id, default severity, source, text, hint.

Ids and severities are from conformance.md, which also states the exact conditions. Ids are stable: they are
never reused and never renumbered.
"""

from zmtpscope.findings import capturing, commands, framing, mechanisms, patterns, payloads, zre, zws
from zmtpscope.findings.kinds import SEVERITIES, FindingKind

__all__ = ["FINDINGS", "SEVERITIES", "FindingKind"]

PARTS = capturing, framing, commands, patterns, mechanisms, zre, zws, payloads

FINDINGS: dict[str, FindingKind] = {kind.id: kind for part in PARTS for kind in part.KINDS}
"""Every finding by its id, in the order of conformance.md."""
