"""What reports share."""

from __future__ import annotations

from collections.abc import Sequence

from zmtpscope.export.clock import Clock
from zmtpscope.export.safe_text import safe_text
from zmtpscope.meaning.diagnosis import Diagnosis, Explained
from zmtpscope.meaning.moments import Moment

FAILING = ("error", "warn")
"""Severities of what is wrong; the others are worth knowing."""


def flat(found: Sequence[Explained]) -> list[Diagnosis]:
    """All diagnoses, consequences behind their causes."""
    return [each for explained in found for each in (explained.diagnosis, *explained.consequences)]


def packet(moment: Moment) -> str:
    """`packet 7`; nothing where it is not known."""
    return "" if moment.packet is None else f"packet {moment.packet}"


def when(moment: Moment, clock: Clock) -> str:
    """`0.000652 packet 7`, by the clock that was asked for."""
    return f"{clock(moment.ns).strip()} {packet(moment)}".rstrip()


def sentence(diagnosis: Diagnosis) -> str:
    """Cause, evidence and what to do, a line each."""
    evidence = [": ".join(filter(None, (packet(each.moment), each.text))) for each in diagnosis.evidence]
    return "\n".join(map(safe_text, (diagnosis.statement, *evidence, f"-> {diagnosis.hint}")))
