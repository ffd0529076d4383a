"""Diagnoses of captures and of scripted connections."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.diagnosis.reading import diagnoses
from tests.diagnosis.talking import Talk, knowledge_of
from zmtpscope.diagnosis.diagnose import diagnose
from zmtpscope.diagnosis.diagnosis import Diagnosis, Explained
from zmtpscope.payloads.registry import Registry

ALWAYS = ("clear-text",)
"""Rules that report something about nearly all captures."""


def diagnoses_in(path: Path) -> dict[str, Diagnosis]:
    return _by_rule(diagnoses(path))


def diagnoses_of(*talks: Talk) -> dict[str, Diagnosis]:
    """The causes in scripted connections, by rule."""
    return _by_rule(diagnose(knowledge_of(*talks)))


def causes_of(*talks: Talk, rule: str | None = None) -> list[Diagnosis]:
    """The causes in scripted connections with their payloads: of one rule, or all."""
    found = (each.diagnosis for each in diagnose(knowledge_of(*talks, payloads=Registry())))
    return [each for each in found if (each.rule == rule if rule else each.rule not in ALWAYS)]


def consequences_of(rule: str, *talks: Talk) -> set[str]:
    knowledge = knowledge_of(*talks, payloads=Registry())
    (explained,) = [each for each in diagnose(knowledge) if each.diagnosis.rule == rule]
    return {each.rule for each in explained.consequences}


def _by_rule(found: Iterable[Explained]) -> dict[str, Diagnosis]:
    by_rule: dict[str, Diagnosis] = {}
    for explained in found:
        diagnosis = explained.diagnosis
        if diagnosis.rule not in ALWAYS:
            assert diagnosis.rule not in by_rule, "one cause is told once"
            by_rule[diagnosis.rule] = diagnosis
    return by_rule
