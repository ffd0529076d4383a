"""What a diagnosis is: one cause, what it stands on, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from zmtpscope.findings.kinds import Severity
from zmtpscope.meaning.moments import Moment

if TYPE_CHECKING:
    from zmtpscope.meaning.across.knowledge import Knowledge

PROVEN: Literal["proven"] = "proven"
LIKELY: Literal["likely"] = "likely"


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

    @property
    def statement(self) -> str:
        """`text`, which says itself where it is not proven."""
        return f"likely: {self.text}" if self.certainty == LIKELY else self.text


class Rule(NamedTuple):
    """One rule. `title` is what it is about, `explanation` what `check --explain` says: when it holds, what it stands
    on, and what a capture cannot show. `consequences` are rules whose diagnoses stand beneath one of this rule where
    they are about the same connection. `find` makes its diagnoses of all that is known."""

    id: str
    severity: Severity
    title: str
    explanation: str
    find: Callable[[Knowledge], Iterable[Diagnosis]]
    consequences: tuple[str, ...] = ()


class Explained(NamedTuple):
    """A diagnosis, and those that are consequences of it."""

    diagnosis: Diagnosis
    consequences: tuple[Diagnosis, ...] = ()
