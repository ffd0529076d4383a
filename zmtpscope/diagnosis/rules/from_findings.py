"""Rules that only need findings: each makes one diagnosis per client and endpoint."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from textwrap import shorten
from typing import NamedTuple

from zmtpscope.diagnosis.across.endings import is_agreed
from zmtpscope.diagnosis.across.handshakes import Waiting, hung_handshakes
from zmtpscope.diagnosis.across.knowledge import Knowledge, once
from zmtpscope.diagnosis.across.words import client_name, duration, name_of, repeated, server_name
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence
from zmtpscope.diagnosis.observers.observed import Ends, ObservedConnection, ObservedFinding, began
from zmtpscope.findings.kinds import Severity
from zmtpscope.grouping import grouped

LONGEST_DETAIL = 110
"""Characters of a detail to show in a sentence; the evidence contains all of it."""
MISSPELT = "; the name ERROR is misspelt"
"""Some releases of libzmq misspell a command, which is no fault of the client."""


class Met(NamedTuple):
    connection: ObservedConnection
    finding: ObservedFinding


def with_finding(knowledge: Knowledge, *ids: str) -> Iterator[Met]:
    for connection in knowledge.having(*ids):
        finding = connection.finding(*ids)
        if finding is not None:
            yield Met(connection, finding)


class OfFindings(NamedTuple):
    """A rule that diagnoses connections by their findings.

    `ids` are the findings, and `also` further findings with the same cause. `holds` accepts a connection by its
    finding, and `are` all connections of a client together. `what` is the sentence, with placeholders: {client},
    {server}, {detail}, and {refuser} and {refused} for the side of the finding and its peer. If a later handshake
    succeeds, the diagnosis is only a note, unless `is_final`.
    """

    rule: str
    severity: Severity
    ids: tuple[str, ...]
    what: str
    hint: str | None
    also: tuple[str, ...] = ()
    proven: bool = True
    holds: Callable[[ObservedConnection, ObservedFinding], bool] = lambda _, __: True
    are: Callable[[Knowledge, Sequence[Met]], bool] = lambda _, __: True
    is_final: bool = False


Asker = tuple[Ends, str | None]
"""Client and endpoint, and the client's user name."""


def diagnoses_of(kinds: Iterable[OfFindings]) -> Callable[[Knowledge], Iterator[Diagnosis]]:
    """Return the function `find` of a rule, which yields the diagnoses of all `kinds`."""

    def find(knowledge: Knowledge) -> Iterator[Diagnosis]:
        for kind in kinds:
            for asker, met in _by_asker(kind, knowledge).items():
                if kind.are(knowledge, met):
                    yield _diagnosis(kind, knowledge, asker, met)

    return find


def _by_asker(kind: OfFindings, knowledge: Knowledge) -> dict[Asker, list[Met]]:
    met = (_first(kind, connection) for connection in knowledge.having(*kind.ids))
    return grouped((_asker(each.connection), each) for each in met if each is not None)


def _first(kind: OfFindings, connection: ObservedConnection) -> Met | None:
    with_ids = (each for (id_, _), each in connection.findings.items() if id_ in kind.ids)
    held = (each for each in with_ids if kind.holds(connection, each))
    first = min(held, key=attrgetter("moment.ns"), default=None)
    return None if first is None else Met(connection, first)


def _diagnosis(kind: OfFindings, knowledge: Knowledge, asker: Asker, met: list[Met]) -> Diagnosis:
    ends, user = asker
    first = met[0].finding
    times = sorted(each.finding.moment.ns for each in met)
    count, last_ns = sum(each.finding.count for each in met), max(each.finding.last_ns for each in met)
    sentence = _sentence(kind, met) + repeated(times, count, last_ns)
    later = None if kind.is_final else _came_about_later(knowledge, asker, times[-1])
    if later is not None:
        sentence += f"; a handshake succeeded {duration(later.start.ns - times[-1])} later"
    elif not kind.is_final and (sooner := _came_about_sooner(knowledge, asker, times[0])) is not None:
        sentence += f"; a handshake from there succeeded {duration(times[0] - sooner.start.ns)} before"
    return Diagnosis.of(
        kind.rule,
        kind.severity if later is None else "note",
        ends.name if user is None else f"{user} of {ends.name}",
        sentence,
        kind.hint or first.hint or "",
        evidence=(Evidence(each.moment, _evident(kind, each), each.ref) for _, each in met[:MAX_EVIDENCE]),
        about=met,
        explains=(*kind.ids, *kind.also),
        count=count,
        last_ns=last_ns,
        proven=kind.proven,
    )


def _sentence(kind: OfFindings, met: Sequence[Met]) -> str:
    connection, finding = met[0]
    detail = shorten(_detail(finding), LONGEST_DETAIL, placeholder=" …")
    refuser = connection.listener if finding.side is None else finding.side
    return kind.what.format(
        client=client_name(connection),
        server=server_name(connection),
        refuser=name_of(connection, refuser),
        refused=name_of(connection, 1 - refuser),
        detail=detail,
    )


def _detail(finding: ObservedFinding) -> str:
    """Return the part of a finding's text that is not the same in all findings of its id."""
    return (finding.detail or finding.text).partition(MISSPELT)[0]


def _evident(kind: OfFindings, finding: ObservedFinding) -> str:
    """Return the details that a finding adds to the sentence of its rule, or ""."""
    return _detail(finding) if "{detail}" in kind.what else finding.text


def _came_about_later(knowledge: Knowledge, asker: Asker, time: int) -> ObservedConnection | None:
    """Return the client's first connection after `time` (ns) with a successful handshake, or None."""
    own = _came_about(knowledge).get(asker, [])
    place = bisect_right(own, time, key=began)
    return own[place] if place < len(own) else None


def _came_about_sooner(knowledge: Knowledge, asker: Asker, time: int) -> ObservedConnection | None:
    """Return the client's last connection up to `time` (ns) with a successful handshake, or None."""
    own = _came_about(knowledge).get(asker, [])
    place = bisect_right(own, time, key=began)
    return own[place - 1] if place else None


@once
def _came_about(knowledge: Knowledge) -> dict[Asker, list[ObservedConnection]]:
    """Return the connections of each client with a successful handshake, in order of start."""
    return grouped((_asker(each), each) for each in knowledge.connections if is_agreed(each))


def _asker(connection: ObservedConnection) -> Asker:
    return connection.ends, connection.client.username


def closed_at_once(knowledge: Knowledge, met: Sequence[Met]) -> bool:
    """Whether the server closed every connection at once, and never let the client wait for an answer."""
    ends, hung = met[0].connection.ends, hung_handshakes(knowledge)
    return all(Waiting(ends, listens) not in hung for listens in (False, True))
