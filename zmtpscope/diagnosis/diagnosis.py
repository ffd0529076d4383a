"""Diagnoses: one cause with its evidence, and a hint."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from zmtpscope.diagnosis.moments import Moment
from zmtpscope.findings.kinds import SEVERITIES, Severity

if TYPE_CHECKING:
    from zmtpscope.diagnosis.across.knowledge import Knowledge

PROVEN: Literal["proven"] = "proven"
LIKELY: Literal["likely"] = "likely"

FAILING = ("error", "warn")
"""Severities of problems; a note is only information."""


class Evidence(NamedTuple):
    """A captured event: `text` describes it in a few words; `ref` names the record."""

    moment: Moment
    text: str
    ref: str | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One cause. `text` is a sentence without full stop. Text of peers in it is escaped as in records (`to_text`).

    `explains` are the findings it accounts for, as (conn_id, finding id), which are not reported again. `conn_ids` are
    the connections it concerns: consequences on these are grouped below it.
    """

    rule: str
    severity: Severity
    subject: str
    text: str
    hint: str
    evidence: tuple[Evidence, ...]
    count: int = 1
    last_ns: int | None = None
    certainty: Literal["proven", "likely"] = PROVEN
    conn_ids: frozenset[str] = frozenset()
    explains: frozenset[tuple[str, str]] = frozenset()

    def is_worse_than(self, other: Diagnosis) -> bool:
        """Whether its severity is higher."""
        return SEVERITIES.index(self.severity) < SEVERITIES.index(other.severity)

    @property
    def statement(self) -> str:
        """`text`, marked if it is not proven."""
        return f"likely: {self.text}" if self.certainty == LIKELY else self.text


class Rule(NamedTuple):
    """One rule. `title` names the problem.

    `explanation` is the text of `check --explain`: the conditions of the rule, its inference, and the limits of a
    capture. `refuted_by` names the evidence that excludes the problem, in one sentence: `find` looks for that first.
    `find` returns the diagnoses of a run. Diagnoses of the rules in `consequences` are printed below this rule's
    diagnoses if both concern the same connection. An aside is reported only if there is no problem, in one closing
    line.
    """

    id: str
    severity: Severity
    title: str
    explanation: str
    refuted_by: str
    find: Callable[[Knowledge], Iterable[Diagnosis]]
    consequences: tuple[str, ...] = ()
    is_aside: bool = False


class Explained(NamedTuple):
    """A diagnosis and its consequences."""

    diagnosis: Diagnosis
    consequences: tuple[Diagnosis, ...] = ()
