"""What no other rule accounts for: errors and warnings of the protocol, told once for each endpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from zmtpscope.findings import FINDINGS
from zmtpscope.meaning.across.knowledge import Endpoint, Knowledge
from zmtpscope.meaning.across.words import address, how_often, name_of
from zmtpscope.meaning.diagnosis import FAILING, Diagnosis, Evidence, Rule
from zmtpscope.meaning.observers.observed import ObservedConnection, ObservedFinding

MOST_EVIDENCE = 3
VIOLATION = "protocol-violation"


def unexplained(knowledge: Knowledge, found: Iterable[Diagnosis], rules: Sequence[Rule]) -> Iterator[Diagnosis]:
    """One diagnosis for each kind of finding at each endpoint that none of `found` explains."""
    if all(rule.id != VIOLATION for rule in rules):
        return
    explained = {each for diagnosis in found for each in diagnosis.explains}
    met: dict[tuple[str, str, Endpoint], list[tuple[ObservedConnection, ObservedFinding]]] = {}
    for connection in knowledge.connections:
        for finding in connection.findings.values():
            if finding.severity in FAILING and (connection.conn_id, finding.id) not in explained:
                met.setdefault((finding.severity, finding.id, connection.endpoint), []).append((connection, finding))
    for (severity, id_, endpoint), each in met.items():
        connection, first = each[0]
        count = sum(finding.count for _, finding in each)
        times = sorted(finding.moment.ns for _, finding in each)
        who = ""
        if first.side is not None:
            who = f", from {name_of(connection, first.side)} to {name_of(connection, 1 - first.side)}"
        yield Diagnosis(
            VIOLATION,
            "error" if severity == "error" else "warn",
            f"{id_} at {address(endpoint)}",
            f"{first.text}{who}{f', {how_often(times, count)}' if count > 1 else ''} ({id_})",
            first.hint or f"see {FINDINGS[id_].section}",
            tuple(Evidence(finding.moment, finding.text, finding.ref) for _, finding in each[:MOST_EVIDENCE]),
            count,
            max(finding.last_ns for _, finding in each),
            conn_ids=frozenset(of.conn_id for of, _ in each),
        )


TABLE = (
    Rule(
        VIOLATION,
        "warn",
        "A peer does not keep to the protocol",
        "Findings of severity error and warn that no other rule explains, as `read` shows them, once for each kind and "
        "endpoint.",
        "Another diagnosis explains the finding.",
        lambda knowledge: iter(()),
    ),
)
