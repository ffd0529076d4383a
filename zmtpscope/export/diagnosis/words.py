"""What reports share."""

from __future__ import annotations

from collections.abc import Sequence

from zmtpscope.export.safe_text import safe_text
from zmtpscope.meaning.diagnosis import LIKELY, Diagnosis, Explained

FAILING = ("error", "warn")
"""Severities of what is wrong; the others are worth knowing."""


def flat(found: Sequence[Explained]) -> list[Diagnosis]:
    """All diagnoses, consequences behind their causes."""
    return [each for explained in found for each in (explained.diagnosis, *explained.consequences)]


def sentence(diagnosis: Diagnosis) -> str:
    """Cause, evidence and what to do, a line each."""
    likely = "likely: " if diagnosis.certainty == LIKELY else ""
    evidence = [f"packet {each.moment.packet}: {each.text}" for each in diagnosis.evidence]
    return "\n".join(map(safe_text, (f"{likely}{diagnosis.text}", *evidence, f"-> {diagnosis.hint}")))
