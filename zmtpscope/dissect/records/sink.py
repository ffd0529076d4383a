"""What all parts of a run share: its options and files, the batch under way, what is counted over the whole run, and
what all connections hold together."""

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
    """The two sums of "nothing lost", over all sides of all connections that have records (decisions/analyser.md).

    stream = units + gaps + unfinished + undissected;
    captured = units + unfinished + undissected + repeated + conflicting + late.
    Each summand is counted where such octets are met, none is what the others leave.
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
        """Whether both sums come out even."""
        read = self.units + self.unfinished + self.undissected
        return self.stream == read + self.gaps and self.captured == read + self.repeated + self.conflicting + self.late


MOST_WORDS = 200
"""So many different words of peers are counted one by one; every further one counts as `OTHER`."""
LONGEST_WORD = 40
OTHER = "other"


def count_word(counter: Counter[str], word: str, count: int = 1) -> None:
    """Count a word that a peer chose (a command, mechanism or socket type), without keeping all that it may choose."""
    word = word[:LONGEST_WORD]
    counter[word if word in counter or len(counter) < MOST_WORDS else OTHER] += count


MOST_ENDPOINTS = 65_536
"""Endpoints where somebody spoke ZMTP that are reported once each, and others that are counted one by one."""


@dataclass(slots=True)
class Summary:
    """What a whole run saw; the counters are keyed by the words of the records' fields."""

    connections: int = 0
    other_tcp: int = 0
    """TCP connections on which nothing looked like ZMTP, ..."""
    other_endpoints: Counter[Endpoint] = field(default_factory=Counter)
    """... and where they went, of `MOST_ENDPOINTS` endpoints."""
    attempts: Counter[str] = field(default_factory=Counter)
    """TCP connections that never came about, by outcome (`attempts.py`)."""
    tried: list[tuple[str, str]] = field(default_factory=list)
    """Outcome, and a sentence on who tried to reach whom, the most frequent first."""
    datagrams: int = 0
    datagram_kinds: Counter[str] = field(default_factory=Counter)
    """Of the datagrams: beacons and RADIO messages."""
    versions: Counter[str] = field(default_factory=Counter)
    mechanisms: Counter[str] = field(default_factory=Counter)
    socket_types: Counter[str] = field(default_factory=Counter)
    handshakes: Counter[str] = field(default_factory=Counter)
    closes: Counter[str] = field(default_factory=Counter)
    commands: Counter[str] = field(default_factory=Counter)
    messages: int = 0
    sealed: int = 0
    """Messages that are MESSAGEs which stayed closed."""
    frames: int = 0
    body_octets: int = 0
    curve_connections: int = 0
    """Connections with CURVE on which there was something to open, where keys were given."""
    proven_connections: int = 0
    """Those of them whose HELLO was proven to be made for a server key that was given."""
    named_connections: int = 0
    """Those of them that a line of the key files is about."""
    opened_connections: int = 0
    """Those of them whose MESSAGEs opened, or would have."""
    opened_boxes: int = 0
    """MESSAGEs that opened."""
    gaps: int = 0
    stalls: int = 0
    """Stretches in which a side could not send, ..."""
    stalled: int = 0
    """... and how long these were (ns)."""
    outages: int = 0
    """Stretches in which what a side sent was not acknowledged, ..."""
    unacknowledged: int = 0
    """... and how long these were (ns)."""
    findings: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By severity and id."""
    hints: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """What there is to do about them, by severity and id: one of a few sentences for each case."""
    finding_endpoints: dict[tuple[str, str], FindingEndpoints] = field(default_factory=dict)
    """Where they were made, by severity and id; what is of the whole capture was made nowhere."""
    sums: OctetSums = field(default_factory=OctetSums)

    def count_finding(self, kind: tuple[str, str], count: int, hint: str | None) -> None:
        """Count findings of a kind, severity and id."""
        self.findings[kind] += count
        if hint is not None:
            self.hints.setdefault(kind, set()).add(hint)

    def count_other(self, connection: Connection) -> None:
        """Count a TCP connection on which nothing looked like ZMTP."""
        self.other_tcp += 1
        endpoint = ends_of(connection.key)[listening_side(connection.ports, connection.listener)]
        if endpoint in self.other_endpoints or len(self.other_endpoints) < MOST_ENDPOINTS:
            self.other_endpoints[endpoint] += 1


class Sink:
    """Takes records while a block is read; `flush` hands them up as a batch. `files` are those that packet references
    index."""

    def __init__(self, files: list[str | None], options: Options, summary: Summary | None = None) -> None:
        self.files = files
        self.options = options
        self.summary = summary or Summary()
        self.batch = Batch(files)
        self.endpoints: set[Endpoint] = set()
        """Where connections went that speak ZMTP, as far as that was reported."""
        self.decided_by: int | None = None
        """The datagram that is being read or evaluated, as a place among connections: it decides what is written
        now."""
        self.budget = OctetBudget()

    def file(self, packet: int) -> str | None:
        """The name of the file that a packet reference points into."""
        index = packet >> FILE_SHIFT
        return self.files[index] if index < len(self.files) else None

    def connected_to(self, endpoint: Endpoint, arrival: Arrival) -> None:
        """A connection that speaks ZMTP went there, as was known when it was over."""
        if endpoint not in self.endpoints and len(self.endpoints) < MOST_ENDPOINTS:
            self.endpoints.add(endpoint)
            self.report(Spoke(arrival, endpoint))

    def put(self, record: Record) -> None:
        """Add a record to the batch under way."""
        self.batch.records.append(record)

    def report(self, fact: Fact) -> None:
        """Add a fact to the batch under way."""
        self.batch.facts.append(fact)

    def flush(self) -> Batch:
        """The batch under way; a new one begins."""
        batch, self.batch = self.batch, Batch(self.files)
        return batch
