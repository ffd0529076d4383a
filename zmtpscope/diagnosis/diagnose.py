"""Apply all rules, report unexplained findings, and group consequences below their causes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.diagnosis import FAILING, LIKELY, Diagnosis, Explained, Rule
from zmtpscope.diagnosis.rules.catalogue import RULES
from zmtpscope.diagnosis.rules.unexplained import unexplained
from zmtpscope.findings import SEVERITIES
from zmtpscope.grouping import grouped


def diagnose(knowledge: Knowledge, rules: Iterable[Rule] = RULES.values()) -> list[Explained]:
    """Return the causes of problems, worst first, each with its consequences."""
    *_, found = diagnosing(knowledge, rules)
    assert found is not None
    return found


def diagnosing(knowledge: Knowledge, rules: Iterable[Rule] = RULES.values()) -> Iterator[list[Explained] | None]:
    """Apply the rules one by one. Yield None after each, so that callers can do other work, and at the end the
    diagnoses.

    The knowledge must not change meanwhile.
    """
    rules = list(rules)
    found: list[Diagnosis] = []
    for rule in rules:
        found += rule.find(knowledge)
        yield None
    found += unexplained(knowledge, found, rules)
    doubtful = {each.conn_id for each in knowledge.connections if each.is_doubtful}
    found = [_softened(each, doubtful) for each in found]
    if any(each.severity in FAILING for each in found):
        found = [each for each in found if not RULES[each.rule].is_aside]
    yield _explained(sorted(found, key=_worst_first))


def _softened(diagnosis: Diagnosis, doubtful: set[str]) -> Diagnosis:
    """Return a diagnosis as a note if one of its connections is in `doubtful`: connections that may not be ZMTP."""
    if diagnosis.severity not in FAILING or not diagnosis.conn_ids or not diagnosis.conn_ids <= doubtful:
        return diagnosis
    return replace(diagnosis, severity="note", certainty=LIKELY)


PLACES = {rule: place for place, rule in enumerate(RULES)}


def _worst_first(diagnosis: Diagnosis) -> tuple[int, int, int]:
    """Return a sort key: severity, then order of rules, then time."""
    return SEVERITIES.index(diagnosis.severity), PLACES[diagnosis.rule], diagnosis.began_ns


def _explained(found: Sequence[Diagnosis]) -> list[Explained]:
    """Group consequences below their causes, if both concern the same connection.

    A diagnosis that is worse than its cause stays separate: an error below a note would be missed.
    """
    about = grouped(((each.rule, conn_id), place) for place, each in enumerate(found) for conn_id in each.conn_ids)
    cause_of: dict[int, int] = {}
    for place, diagnosis in enumerate(found):
        rules, conn_ids = RULES[diagnosis.rule].consequences, diagnosis.conn_ids
        consequences = {other for rule in rules for conn_id in conn_ids for other in about.get((rule, conn_id), ())}
        is_worse = {other for other in consequences if found[other].is_worse_than(diagnosis)}
        for other in consequences - is_worse - cause_of.keys() - {_first_cause(place, cause_of)}:
            cause_of[other] = place
    beneath = grouped((_first_cause(place, cause_of), each) for place, each in enumerate(found) if place in cause_of)
    return [
        Explained(diagnosis, tuple(beneath.get(place, ())))
        for place, diagnosis in enumerate(found)
        if place not in cause_of
    ]


def _first_cause(place: int, cause_of: dict[int, int]) -> int:
    """Return the index of the first cause of the diagnosis at index `place`: follow `cause_of` from effect to cause."""
    while place in cause_of:
        place = cause_of[place]
    return place
