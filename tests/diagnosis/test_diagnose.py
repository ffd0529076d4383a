"""Each cause is reported once, with its evidence and with its consequences below it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.diagnosis.reading import diagnoses
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.diagnose import diagnose
from zmtpscope.diagnosis.diagnosis import Diagnosis, Explained, Rule
from zmtpscope.diagnosis.rules.catalogue import RULES
from zmtpscope.findings.kinds import Severity


def test_a_login_that_is_refused_is_reported_once_with_its_packet(captures: Path) -> None:
    diagnosis = diagnoses(captures / "security/plain-refused-4.3.5.pcap")[0].diagnosis
    assert (diagnosis.rule, diagnosis.severity) == ("login-refused", "error")
    assert "400, the login of the user" in diagnosis.text
    assert diagnosis.evidence[0].moment.packet is not None


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_rules_have_explanations_in_sentences(rule: Rule) -> None:
    assert RULES[rule.id] is rule
    assert rule.explanation.endswith(".")
    assert rule.refuted_by.endswith(".")
    assert not rule.title.endswith(".")
    assert set(rule.consequences) <= set(RULES)


@pytest.mark.parametrize(("cause", "consequence"), [("error", "error"), ("error", "warn"), ("note", "note")])
def test_a_consequence_is_below_its_cause(cause: Severity, consequence: Severity) -> None:
    assert beneath(cause, consequence) == ["reconnect-storm"]


@pytest.mark.parametrize(("cause", "consequence"), [("note", "error"), ("note", "warn"), ("warn", "error")])
def test_nothing_is_below_a_cause_that_is_less_severe(cause: Severity, consequence: Severity) -> None:
    assert beneath(cause, consequence) == []


@pytest.mark.parametrize("severities", [("error", "error", "note"), ("error", "note", "note")])
def test_a_consequence_of_a_consequence_is_below_the_cause(severities: tuple[Severity, ...]) -> None:
    """A REQ gets no reply because the network drops its packets, and its program does not close because of that."""
    chain = ("not-acknowledged", "request-unanswered", "half-closed")
    (explained,) = _diagnosed(zip(chain, severities, strict=True))
    assert explained.diagnosis.rule == chain[0]
    assert [each.rule for each in explained.consequences] == [*chain[1:]]


def beneath(cause: Severity, consequence: Severity) -> list[str]:
    found = _diagnosed((("violating-frame", cause), ("reconnect-storm", consequence)))
    (explained,) = [each for each in found if each.diagnosis.rule == "violating-frame"]
    return [each.rule for each in explained.consequences]


def _diagnosed(severities: Iterable[tuple[str, Severity]]) -> list[Explained]:
    rules = [
        Rule(rule, severity, "", "", "", lambda _, rule=rule, severity=severity: [_about_one(rule, severity)])
        for rule, severity in severities
    ]
    return diagnose(Knowledge((), (), None, 0), rules)


def _about_one(rule: str, severity: Severity) -> Diagnosis:
    return Diagnosis(rule, severity, "", "", "", (), conn_ids=frozenset({"one"}))
