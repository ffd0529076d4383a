"""What a diagnosis is: one cause, what it stands on, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from zmtpscope.findings.kinds import SEVERITIES, Severity
from zmtpscope.meaning.moments import Moment

if TYPE_CHECKING:
    from zmtpscope.meaning.across.knowledge import Knowledge

PROVEN: Literal["proven"] = "proven"
LIKELY: Literal["likely"] = "likely"

FAILING = ("error", "warn")
"""Severities of trouble; a note is only worth knowing."""


class Evidence(NamedTuple):
    """Something that was captured: `text` says what, in a few words; `ref` names the record."""

    moment: Moment
    text: str
    ref: str | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One cause. `text` is a sentence without its full stop. Text of peers in it is as records have it (`to_text`).

    `explains` are the findings that it accounts for, as (conn_id, finding id): nobody else needs to say them.
    `conn_ids` are the connections that it is about: what goes wrong on these because of it stands beneath it.
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
        """Whether its severity is a higher one."""
        return SEVERITIES.index(self.severity) < SEVERITIES.index(other.severity)

    @property
    def statement(self) -> str:
        """`text`, which says itself where it is not proven."""
        return f"likely: {self.text}" if self.certainty == LIKELY else self.text


class Rule(NamedTuple):
    """One rule. `title` names the trouble. `explanation` is the text of `check --explain`: when the rule holds, what it
    concludes that from, and what a capture cannot show. `refuted_by` names the evidence that excludes the trouble, in
    one sentence: `find` looks for that first. `find` returns the diagnoses of a run. Diagnoses of the rules in
    `consequences` are printed beneath those of this rule if both are about the same connection. An aside is reported
    only if there is no trouble, in one closing line."""

    id: str
    severity: Severity
    title: str
    explanation: str
    refuted_by: str
    find: Callable[[Knowledge], Iterable[Diagnosis]]
    consequences: tuple[str, ...] = ()
    is_aside: bool = False


class Explained(NamedTuple):
    """A diagnosis, and those that are consequences of it."""

    diagnosis: Diagnosis
    consequences: tuple[Diagnosis, ...] = ()
