"""State that all parts of a run share: options, files, current batch, totals, and memory limits."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from zmtpscope.capture.segments import FILE_SHIFT
from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.budget import OctetBudget
from zmtpscope.dissect.identity import ends_of, listening_side
from zmtpscope.dissect.options import Options
from zmtpscope.dissect.records.batch import Batch, Record
from zmtpscope.dissect.records.facts import Endpoint, Fact, Spoke
from zmtpscope.dissect.records.finding_endpoints import FindingEndpoints
from zmtpscope.dissect.tcp.connection import Connection


@dataclass(slots=True)
class OctetSums:
    """Two sums that prove "nothing lost", over all connections with records (decisions/analyser.md).

    stream = units + gaps + unfinished + undissected; captured = units + unfinished + undissected + repeated +
    conflicting + late.
    """

    stream: int = 0
    units: int = 0
    gaps: int = 0
    unfinished: int = 0
    undissected: int = 0
    captured: int = 0
    repeated: int = 0
    conflicting: int = 0
    late: int = 0

    def hold(self) -> bool:
        read = self.units + self.unfinished + self.undissected
        return self.stream == read + self.gaps and self.captured == read + self.repeated + self.conflicting + self.late


MAX_WORDS = 200
"""Different words counted one by one. Further ones are `OTHER`."""
LONGEST_WORD = 40
OTHER = "other"


def count_word(counter: Counter[str], word: str, count: int = 1) -> None:
    """Add `count` to the number of times that peers have chosen a word: a command, mechanism or socket type.

    Memory is bounded: further words are counted together.
    """
    word = word[:LONGEST_WORD]
    counter[word if word in counter or len(counter) < MAX_WORDS else OTHER] += count


MAX_ENDPOINTS = 65_536
"""ZMTP endpoints that are reported once each, and other endpoints that are counted one by one."""


@dataclass(slots=True)
class Summary:
    """Totals of a run. Keys of counters are values of record fields."""

    connections: int = 0
    other_tcp: int = 0
    """Connections without any sign of ZMTP."""
    other_endpoints: Counter[Endpoint] = field(default_factory=Counter)
    """Connections at other endpoints, at most `MAX_ENDPOINTS`."""
    attempts: Counter[str] = field(default_factory=Counter)
    """TCP connections that were never established, by outcome (`findings/attempts.py`)."""
    tried: list[tuple[str, str]] = field(default_factory=list)
    """Failed attempts to connect: (outcome, sentence with client and endpoint), the most frequent first."""
    datagrams: int = 0
    datagram_kinds: Counter[str] = field(default_factory=Counter)
    versions: Counter[str] = field(default_factory=Counter)
    mechanisms: Counter[str] = field(default_factory=Counter)
    socket_types: Counter[str] = field(default_factory=Counter)
    handshakes: Counter[str] = field(default_factory=Counter)
    closes: Counter[str] = field(default_factory=Counter)
    commands: Counter[str] = field(default_factory=Counter)
    messages: int = 0
    sealed: int = 0
    frames: int = 0
    body_octets: int = 0
    curve_connections: int = 0
    """CURVE connections with boxes to open, if keys were given."""
    proven_connections: int = 0
    """Connections with a HELLO that, as its box proves, was made for a given server key."""
    named_connections: int = 0
    opened_connections: int = 0
    """Connections with a proven key for MESSAGEs."""
    opened_boxes: int = 0
    gaps: int = 0
    stalls: int = 0
    """Times during which a side could not send."""
    stalled: int = 0
    outages: int = 0
    """Times during which a side's data was not acknowledged."""
    unacknowledged: int = 0
    findings: Counter[tuple[str, str]] = field(default_factory=Counter)
    hints: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """Hints by severity and id: one of a few sentences for each case."""
    finding_endpoints: dict[tuple[str, str], FindingEndpoints] = field(default_factory=dict)
    """Endpoints by severity and id, except for findings about the whole capture."""
    sums: OctetSums = field(default_factory=OctetSums)

    def count_finding(self, kind: tuple[str, str], count: int, hint: str | None) -> None:
        self.findings[kind] += count
        if hint is not None:
            self.hints.setdefault(kind, set()).add(hint)

    def count_other(self, connection: Connection) -> None:
        """Count a connection without any sign of ZMTP."""
        self.other_tcp += 1
        endpoint = ends_of(connection.key)[listening_side(connection.ports, connection.listener)]
        if endpoint in self.other_endpoints or len(self.other_endpoints) < MAX_ENDPOINTS:
            self.other_endpoints[endpoint] += 1


class Sink:
    """Collects the records of a block of packets; `flush` returns them as a batch. Packet references index `files`."""

    def __init__(self, files: list[str | None], options: Options, summary: Summary | None = None) -> None:
        self.files = files
        self.options = options
        self.summary = summary or Summary()
        self.batch = Batch(files)
        self.endpoints: set[Endpoint] = set()
        self.decided_by: int | None = None
        """Place in record order of the datagram that decides the current records; None for segments."""
        self.budget = OctetBudget()

    def file(self, packet: int) -> str | None:
        index = packet >> FILE_SHIFT
        return self.files[index] if index < len(self.files) else None

    def connected_to(self, endpoint: Endpoint, arrival: Arrival) -> None:
        """Report the first closed ZMTP connection to an endpoint, for findings about other connections to it."""
        if endpoint not in self.endpoints and len(self.endpoints) < MAX_ENDPOINTS:
            self.endpoints.add(endpoint)
            self.report(Spoke(arrival, endpoint))

    def put(self, record: Record) -> None:
        self.batch.records.append(record)

    def report(self, fact: Fact) -> None:
        self.batch.facts.append(fact)

    def flush(self) -> Batch:
        batch, self.batch = self.batch, Batch(self.files)
        return batch
