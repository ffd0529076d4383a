from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from zmtpscope.diagnosis.across.knowledge import Knowledge, RunFinding
from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.observed import ObservedConnection, ObservedFinding
from zmtpscope.findings.kinds import SEVERITIES, Severity

PROVEN: Literal["proven"] = "proven"
LIKELY: Literal["likely"] = "likely"

FAILING = ("error", "warn")
"""Severities of problems; a note is only information."""

MAX_EVIDENCE = 3


class Evidence(NamedTuple):
    """A captured event that supports a diagnosis: time, text, and `ref`, the id of the record that shows it."""

    moment: Moment
    text: str
    ref: str | None = None

    @classmethod
    def of(cls, finding: ObservedFinding | RunFinding) -> Evidence:
        return cls(finding.moment, finding.text, finding.ref or None)

    @classmethod
    def opening(cls, connection: ObservedConnection) -> Evidence:
        return cls(connection.start, "the connection begins", connection.ref)


class MissedMessages(NamedTuple):
    """Messages that a subscriber missed, as another subscriber received them: on connection `conn`, sent by `side`.

    They belong to `topic` (None: any), and were sent from `since_ns` until before `until_ns`.
    """

    conn: int | None
    side: int
    topic: bytes | None
    since_ns: int
    until_ns: int


class OnConnection(Protocol):
    @property
    def connection(self) -> ObservedConnection:
        """Return the connection."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The cause of a problem. `text` is a sentence without full stop, in which text of peers is escaped (`to_text`).

    `subject` names the peer or endpoint at fault. `explains` are findings with the same cause, as (conn_id, finding
    id), which are not reported again. `conn_ids` are the connections concerned; consequences on these are grouped below
    the diagnosis. `missed` are messages that did not reach a subscriber.
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
    missed: MissedMessages | None = None

    @classmethod
    def of(
        cls,
        rule: str,
        severity: Severity,
        subject: str,
        text: str,
        hint: str,
        *,
        evidence: Iterable[Evidence],
        about: Iterable[ObservedConnection | OnConnection] = (),
        beside: Iterable[str] = (),
        explains: Iterable[str] = (),
        explained: Iterable[tuple[str, str]] = (),
        count: int | None = None,
        last_ns: int | None = None,
        proven: bool = True,
        missed: MissedMessages | None = None,
    ) -> Diagnosis:
        """Return a diagnosis about the connections in `about`.

        It accounts for findings with the ids `explains` on these connections, on the further connections `beside`
        (conn_ids), and for single findings `explained`, as (conn_id, finding id). `count` is by default the number of
        connections in `about`. `proven=False`: the diagnosis is only likely.
        """
        own = [each.conn_id if isinstance(each, ObservedConnection) else each.connection.conn_id for each in about]
        conn_ids, ids = frozenset(own), tuple(explains)
        return cls(
            rule,
            severity,
            subject,
            text,
            hint,
            tuple(evidence),
            len(own) if count is None else count,
            last_ns,
            PROVEN if proven else LIKELY,
            conn_ids.union(beside),
            frozenset((conn_id, id_) for conn_id in conn_ids for id_ in ids).union(explained),
            missed,
        )

    @property
    def began_ns(self) -> int:
        return min((each.moment.ns for each in self.evidence), default=0)

    def is_worse_than(self, other: Diagnosis) -> bool:
        return SEVERITIES.index(self.severity) < SEVERITIES.index(other.severity)

    @property
    def statement(self) -> str:
        """The sentence `text`, after `likely:` unless the diagnosis is proven."""
        return f"likely: {self.text}" if self.certainty == LIKELY else self.text


class Rule(NamedTuple):
    """A rule of `check`. `title` names the problem.

    `explanation` is the text of `check --explain`: conditions, inference, and the limits of a capture. `refuted_by`
    names the evidence that excludes the problem, as one sentence or a list; `find` looks for it first. A line of both
    that begins with `* ` is an item of a list. Diagnoses of the rules in `consequences` are printed below the diagnosis
    of this rule, if they share a connection. A diagnosis of an aside is reported in one closing line, and only if there
    is no problem.
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
    diagnosis: Diagnosis
    consequences: tuple[Diagnosis, ...] = ()
