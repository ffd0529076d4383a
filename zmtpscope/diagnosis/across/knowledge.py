"""All facts of a run, for rules and for derived records across connections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, wraps
from typing import Any, NamedTuple, TypeVar

from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.observed import Endpoint, Ends, ObservedConnection, ObservedFinding, ref_of
from zmtpscope.dissect import Record
from zmtpscope.findings import detail_of
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND

Answer = TypeVar("Answer")

GAP = "ZMTP-CONN-05"
SNAP_LENGTH = "snap length"

MIN_STEADY, STEADY_NS = 3, SECOND // 3
"""This many attempts, at most this long (ns) apart on average, have equal intervals, without a back-off."""
GIVEN_UP_NS, LONG_GIVEN_UP_NS = 3 * SECOND, 30 * SECOND
"""Time (ns) without an attempt after which a client has ended; the second value is for clients that try rarely."""


class RunFinding(NamedTuple):
    """A finding without a ZMTP connection: failed attempts to connect, or packets that the capture lost.

    `times` is the number of attempts, and `last_packet` the last one. `syns`, `answer`, `answered_by`, `duration_ns`
    and `was_connected` are fields of its record (0 or None if unknown).
    """

    id: str
    severity: str
    text: str
    hint: str | None
    moment: Moment
    ref: str
    client: str | None
    endpoint: Endpoint | None
    times: int
    last_packet: int
    duration_ns: int
    syns: int
    answer: str | None
    answered_by: str | None
    was_connected: bool

    @property
    def detail(self) -> str:
        return detail_of(self.id, self.text)

    @property
    def until_ns(self) -> int:
        """Time (ns) of the last attempt."""
        return self.moment.ns + self.duration_ns

    def is_given_up(self, now: int) -> bool:
        """Whether the client stopped trying long before `now` (ns), although it had tried all the time: it ended."""
        is_steady = self.times >= MIN_STEADY and self.duration_ns <= self.times * STEADY_NS
        return now - self.until_ns >= (GIVEN_UP_NS if is_steady else max(LONG_GIVEN_UP_NS, 2 * self.duration_ns))

    @property
    def ends(self) -> Ends | None:
        return None if self.client is None or self.endpoint is None else Ends(self.client, self.endpoint)

    @classmethod
    def of(cls, record: Record) -> RunFinding:
        values = record.values
        texts = values["id"], values["severity"], values["text"], values["hint"]
        endpoint = None if values["dst_ip"] is None else (values["dst_ip"], values["dst_port"])
        return cls(
            *texts,
            Moment.of_record(record),
            ref_of(record),
            values["src_ip"],
            endpoint,
            values["count"] or 1,
            values["last_packet"] or 0,
            values["duration_ns"] or 0,
            values["syns"] or 0,
            values["answer"],
            values["answered_by"],
            bool(values["was_connected"]),
        )


class Knowledge:
    """The observations of all connections of a run, in order of start, and its findings without a connection.

    The run lasts from `first_ns` to `last_ns`. To limit memory, `forgotten` connections are not included, and
    `left_out` observations of included ones are missing.
    """

    def __init__(
        self,
        connections: Sequence[ObservedConnection],
        findings: Sequence[RunFinding],
        first_ns: int | None,
        last_ns: int,
        forgotten: int = 0,
        left_out: int = 0,
    ) -> None:
        self.connections = connections
        self.findings = findings
        self.first_ns = first_ns
        self.last_ns = last_ns
        self.forgotten = forgotten
        self.left_out = left_out
        self._answers: dict[Callable[[Knowledge], Any], Any] = {}

    def answer(self, find: Callable[[Knowledge], Answer]) -> Answer:
        if find not in self._answers:
            self._answers[find] = find(self)
        answer: Answer = self._answers[find]
        return answer

    @cached_property
    def by_endpoint(self) -> dict[Endpoint, list[ObservedConnection]]:
        return grouped((each.endpoint, each) for each in self.connections)

    @cached_property
    def by_ends(self) -> dict[Ends, list[ObservedConnection]]:
        return grouped((each.ends, each) for each in self.connections)

    @cached_property
    def findings_by_ends(self) -> dict[Ends, list[RunFinding]]:
        return grouped((each.ends, each) for each in self.findings if each.ends is not None)

    @cached_property
    def by_client(self) -> dict[tuple[Ends, str | None], list[ObservedConnection]]:
        """Connections by client and endpoint, in order of start. A client is its address, and its identity or None."""
        return grouped(((each.ends, each.client.identity), each) for each in self.connections)

    def having(self, *ids: str) -> list[ObservedConnection]:
        places = {place for id_ in ids for place in self._places_by_finding.get(id_, ())}
        return [self.connections[place] for place in sorted(places)]

    @cached_property
    def gaps(self) -> list[tuple[ObservedConnection, ObservedFinding]]:
        """Connections with octets that are missing in the capture although the receiver acknowledged them."""
        return [
            (connection, finding)
            for connection in self.having(GAP)
            for (id_, _), finding in connection.findings.items()
            if id_ == GAP and finding.severity != "note"
        ]

    @cached_property
    def lost_ns(self) -> int:
        """Time (ns) of the last known loss of packets; 0 if the capture lost none.

        A peer that was silent before that time may have sent packets that the capture lost.
        """
        return max((finding.last_ns for _, finding in self.gaps if SNAP_LENGTH not in finding.text), default=0)

    @cached_property
    def _places_by_finding(self) -> dict[str, list[int]]:
        return grouped((id_, place) for place, each in enumerate(self.connections) for id_, _ in each.findings)


def once(find: Callable[[Knowledge], Answer]) -> Callable[[Knowledge], Answer]:
    """Cache the result of `find` for each Knowledge, because many rules use it."""

    @wraps(find)
    def ask(knowledge: Knowledge) -> Answer:
        return knowledge.answer(find)

    return ask
