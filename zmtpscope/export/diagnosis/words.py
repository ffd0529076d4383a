"""Texts that several reports share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zmtpscope.diagnosis.diagnosis import Diagnosis, Explained
from zmtpscope.diagnosis.moments import Moment
from zmtpscope.export.clock import Clock
from zmtpscope.export.safe_text import safe_text


def flat(found: Sequence[Explained]) -> list[Diagnosis]:
    """List diagnoses, each followed by its consequences."""
    return [each for explained in found for each in (explained.diagnosis, *explained.consequences)]


def packet(moment: Moment) -> str:
    """Name a packet, such as `packet 7`; "" if unknown."""
    return "" if moment.packet is None else f"packet {moment.packet}"


def when(moment: Moment, clock: Clock) -> str:
    """Write time and packet of a moment: `0.000652 packet 7`."""
    return f"{clock(moment.ns).strip()} {packet(moment)}".rstrip()


def folded(diagnosis: Diagnosis) -> Iterator[tuple[list[Moment], str]]:
    """Yield the texts of the evidence, each with its moments; the text is empty if the diagnosis contains it."""
    found: dict[str, list[Moment]] = {}
    for each in diagnosis.evidence:
        found.setdefault("" if each.text in diagnosis.text else each.text, []).append(each.moment)
    for text, moments in found.items():
        yield moments, text


def sentence(diagnosis: Diagnosis) -> str:
    """Write cause, remedy and evidence, one per line."""
    evidence = (
        ": ".join(filter(None, (", ".join(filter(None, map(packet, moments))), text)))
        for moments, text in folded(diagnosis)
    )
    return "\n".join(map(safe_text, (diagnosis.statement, f"-> {diagnosis.hint}", *filter(None, evidence))))
