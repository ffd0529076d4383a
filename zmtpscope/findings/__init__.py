"""Everything that zmtpscope can find wrong or worth saying: id, usual severity, source, sentence, what to do.

Ids and severities are those of conformance.md, section 1, which also states the exact conditions. Ids are stable: never
used again for something else, never renumbered.
"""

from zmtpscope.findings import capturing, commands, framing, mechanisms, patterns, payloads, zre, zws
from zmtpscope.findings.kinds import SEVERITIES, FindingKind

__all__ = ["FINDINGS", "SEVERITIES", "FindingKind"]

PARTS = capturing, framing, commands, patterns, mechanisms, zre, zws, payloads

FINDINGS: dict[str, FindingKind] = {kind.id: kind for part in PARTS for kind in part.KINDS}
"""Every check by its id, in the order of conformance.md."""
