"""Nobody there: connections of TCP that never came about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from zmtpscope.findings.kinds import Severity
from zmtpscope.meaning.diagnosis import Diagnosis, Evidence, Rule
from zmtpscope.meaning.endings import ending_of, is_agreed
from zmtpscope.meaning.knowledge import Endpoint, Knowledge, RunFinding
from zmtpscope.meaning.observed import ObservedConnection
from zmtpscope.meaning.words import address, counted, duration
from zmtpscope.records import SECOND

REFUSED, UNANSWERED = "ZMTP-CONN-14", "ZMTP-CONN-15"
LEAST_LATE = SECOND
"""Who finds its peer within it has lost nothing: clients of libzmq start before their servers all the time."""
LEAST_OUTAGE = 10 * SECOND
"""Who does not come back for so long has not just been started again."""


class Tried(NamedTuple):
    """All attempts at an endpoint with one outcome; `before` are connections of the same clients that ended before."""

    endpoint: Endpoint
    findings: list[RunFinding]
    before: list[ObservedConnection]
    back_ns: int | None
    """When one of the clients was connected at last."""

    @property
    def attempts(self) -> int:
        """How many attempts."""
        return sum(each.times for each in self.findings)


def _tried(knowledge: Knowledge, id_: str) -> Iterator[Tried]:
    by_endpoint: dict[Endpoint, list[RunFinding]] = {}
    for finding in knowledge.findings:
        if finding.id == id_ and finding.endpoint is not None and finding.client is not None:
            by_endpoint.setdefault(finding.endpoint, []).append(finding)
    for endpoint, findings in by_endpoint.items():
        clients, first = {each.client for each in findings}, min(each.moment.ns for each in findings)
        own = [each for each in knowledge.by_endpoint.get(endpoint, ()) if _client(each) in clients]
        ended = [(each, ending_of(each)) for each in own]
        before = [each for each, ending in ended if ending is not None and ending.moment.ns <= first]
        back = [each.start.ns for each in own if each.start.ns > first and is_agreed(each)]
        yield Tried(endpoint, findings, before, min(back, default=None))


def _client(connection: ObservedConnection) -> str:
    return connection.sides[1 - connection.listener].ip


def _in_vain(rule: str, id_: str, what: str, hint: str) -> Callable[[Knowledge], Iterator[Diagnosis]]:
    """What finds endpoints that nobody got to as long as the capture went on."""

    def find(knowledge: Knowledge) -> Iterator[Diagnosis]:
        for tried in _tried(knowledge, id_):
            told = [each for each in tried.findings if each.severity == "warn"]
            if tried.back_ns is None and (told or tried.before):
                text = what.format(where=address(tried.endpoint)) + (" any more" if tried.before else "")
                yield _diagnosis(rule, _severity(knowledge, tried), tried, f"{text}: {_attempts(tried)}", hint)

    return find


def _severity(knowledge: Knowledge, tried: Tried) -> Severity:
    """Who was there before may just have ended, as the capture was about to."""
    if not tried.before:
        return "error"
    first = min(each.moment.ns for each in tried.findings)
    return "warn" if knowledge.last_ns - first >= LEAST_OUTAGE else "note"


def _attempts(tried: Tried) -> str:
    """`10.0.0.2 tried 14 times in 2.7 s to reach 10.0.0.1:5599, and 1 other client`."""
    attempts = [each.text.partition(": ")[2].partition(";")[0] for each in tried.findings]
    return attempts[0] + (f", and {counted(len(attempts) - 1, 'other client')}" if len(attempts) > 1 else "")


def _diagnosis(rule: str, severity: Severity, tried: Tried, text: str, hint: str) -> Diagnosis:
    first = min(tried.findings, key=lambda each: each.moment.ns)
    return Diagnosis(
        rule,
        severity,
        address(tried.endpoint),
        text,
        hint,
        (Evidence(first.moment, "the first attempt", first.ref),),
        tried.attempts,
        conn_ids=frozenset(each.conn_id for each in tried.before),
        explains=frozenset((each.ref.partition("/")[0], each.id) for each in tried.findings),
    )


def _late(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for id_ in (REFUSED, UNANSWERED):
        for tried in _tried(knowledge, id_):
            first = min(each.moment.ns for each in tried.findings)
            late = 0 if tried.back_ns is None else tried.back_ns - first
            if late < LEAST_LATE or tried.before:
                continue
            text = (
                f"{address(tried.endpoint)} was there {duration(late)} after {tried.findings[0].client} began to "
                f"connect ({counted(tried.attempts, 'attempt')})"
            )
            yield _diagnosis(
                "listener-late",
                "note",
                tried,
                text,
                "nothing to do: clients of ZeroMQ try again until somebody listens; start that side first where the "
                "time matters",
            )


TABLE = (
    Rule(
        "connection-refused",
        "error",
        "Nobody listens where a client connects",
        "Each SYN of the clients was answered with RST, and none of their attempts came about while the capture went "
        "on. A capture shows that the host refuses, not why: the program may not run, or be bound to another address. "
        "A warning where they had been connected before; a note for the first 10 s of that.",
        _in_vain(
            "connection-refused",
            REFUSED,
            "Nobody listens at {where}",
            "start what should listen there, or correct address and port where it connects; see that it binds to an "
            "address that others reach, not to 127.0.0.1",
        ),
    ),
    Rule(
        "connection-unanswered",
        "error",
        "Connecting is not answered at all",
        "The client sent SYNs that nobody answered. The host may be down, a firewall may drop them, or their answers "
        "went a way that was not captured.",
        _in_vain(
            "connection-unanswered",
            UNANSWERED,
            "Nothing answers at {where}",
            "the host is down, or something on the way drops packets: look at routes and firewalls for this port",
        ),
    ),
    Rule(
        "listener-late",
        "note",
        "A client was there long before who listens",
        "Attempts of a client were refused or not answered for a second or more, and then it was connected, for the "
        "first time in this capture. What subscribers would have got meanwhile nobody kept.",
        _late,
    ),
)
