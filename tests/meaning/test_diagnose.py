"""Causes are told once, with what they stand on; what follows from them stands beneath."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.meaning.reading import diagnoses
from zmtpscope.meaning.diagnosis import Rule
from zmtpscope.meaning.rules.catalogue import RULES


def test_a_login_that_is_refused_is_told_once_with_its_packet(captures: Path) -> None:
    diagnosis = diagnoses(captures / "security/plain-refused-4.3.5.pcap")[0].diagnosis
    assert (diagnosis.rule, diagnosis.severity) == ("login-refused", "error")
    assert "400, the login of the user" in diagnosis.text
    assert diagnosis.evidence[0].moment.packet is not None


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_rules_say_what_they_stand_on_in_sentences(rule: Rule) -> None:
    assert RULES[rule.id] is rule
    assert rule.explanation.endswith(".")
    assert rule.refuted_by.endswith(".")
    assert not rule.title.endswith(".")
    assert set(rule.consequences) <= set(RULES)
