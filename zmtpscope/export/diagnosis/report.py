"""Format diagnoses as text: cause, remedy and evidence."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from zmtpscope.diagnosis.diagnosis import Diagnosis, Explained
from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.rules.catalogue import RULES
from zmtpscope.export.clock import Clock
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.styles import Paint, plain
from zmtpscope.findings import SEVERITIES
from zmtpscope.words import counted


def flat(found: Sequence[Explained]) -> list[Diagnosis]:
    return [each for explained in found for each in (explained.diagnosis, *explained.consequences)]


def packet(moment: Moment) -> str:
    return "" if moment.packet is None else f"packet {moment.packet}"


def when(moment: Moment, clock: Clock) -> str:
    return f"{clock(moment.ns).strip()} {packet(moment)}".rstrip()


def folded(diagnosis: Diagnosis) -> Iterator[tuple[list[Moment], str]]:
    """Yield each text of the evidence, with the times and packets to which it applies.

    The text is empty if the diagnosis contains it.
    """
    found: dict[str, list[Moment]] = {}
    for each in diagnosis.evidence:
        found.setdefault("" if each.text in diagnosis.text else each.text, []).append(each.moment)
    for text, moments in found.items():
        yield moments, text


def sentence(diagnosis: Diagnosis) -> str:
    """Format cause, remedy and evidence, one per line."""
    evidence = (
        ": ".join(filter(None, (", ".join(filter(None, map(packet, moments))), text)))
        for moments, text in folded(diagnosis)
    )
    return "\n".join(map(safe_text, (diagnosis.statement, f"-> {diagnosis.hint}", *filter(None, evidence))))


INDENT = "      "


def report_lines(
    found: Sequence[Explained], clock: Clock, paint: Paint = plain, *, width: int = 120, many_files: bool = False
) -> Iterator[str]:
    """Yield a paragraph for each cause, the worst first, then the number of diagnoses by severity, then remarks.

    `many_files`: packet numbers are preceded by the file.
    """
    causes = [each for each in found if not RULES[each.diagnosis.rule].is_aside]
    for explained in causes:
        yield from _paragraph(explained.diagnosis, clock, paint, width, many_files)
        for consequence in explained.consequences:
            line = f"because of this: {safe_text(consequence.text)} [{consequence.rule}]"
            yield from textwrap.wrap(line, width, initial_indent=INDENT, subsequent_indent=INDENT + "  ")
        yield ""
    counts = Counter(each.diagnosis.severity for each in causes)
    sums = ", ".join(f"{counts[severity]} {severity}" for severity in SEVERITIES if counts[severity])
    yield f"{counted(len(causes), 'diagnosis', 'diagnoses')}: {sums}" if causes else "no problem found"
    for aside in (each.diagnosis for each in found if RULES[each.diagnosis.rule].is_aside):
        line = f"{safe_text(aside.statement)}: {safe_text(aside.hint)} [{aside.rule}]"
        yield from textwrap.wrap(line, width, break_on_hyphens=False)


def one_line(diagnosis: Diagnosis, clock: Clock, paint: Paint = plain) -> str:
    """Format a diagnosis as one line: the time of its first evidence, its statement and its remedy."""
    first = "".join(clock(each.moment.ns).strip() + " " for each in diagnosis.evidence[:1])
    severity = paint(diagnosis.severity, f"{diagnosis.severity:<5}")
    return f"{first}{severity} {safe_text(diagnosis.statement)} [{diagnosis.rule}] -> {safe_text(diagnosis.hint)}"


def _paragraph(diagnosis: Diagnosis, clock: Clock, paint: Paint, width: int, many_files: bool) -> Iterator[str]:
    word = f"{diagnosis.severity:<5}"
    sentence = f"{safe_text(diagnosis.statement)} [{diagnosis.rule}]"
    first, *rest = textwrap.wrap(sentence, width - len(INDENT), break_on_hyphens=False)
    yield f"{paint(diagnosis.severity, word)} {first}"
    for line in rest:
        yield INDENT + line
    yield from textwrap.wrap(
        f"-> {safe_text(diagnosis.hint)}", width, initial_indent=INDENT, subsequent_indent=INDENT + "   "
    )
    for moments, text in folded(diagnosis):
        line = ", ".join(_place(moment, clock, many_files) for moment in moments) + (
            f": {safe_text(text)}" * bool(text)
        )
        for part in textwrap.wrap(line, width - len(INDENT), subsequent_indent="  ", break_on_hyphens=False):
            yield INDENT + paint("dim", part)


def _place(moment: Moment, clock: Clock, many_files: bool) -> str:
    file = f" of {safe_text(moment.file)}" if many_files and moment.file is not None else ""
    return f"{when(moment, clock)}{file}"
