"""Findings that compare connections with each other: those of one listening endpoint, and those of one client with it.

Every connection reports what may matter to others as facts, nothing where it is as usual; they are weighed when a block
has been read, in the order of the packets that settled them. What is remembered is bounded: whatever is about open
connections by their number, the rest by the limits below, where the one that was met longest ago gives way.
Conditions and severities are those of conformance.md.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any, NamedTuple, TypeVar

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.batch import place_of
from zmtpscope.dissect.tell import Teller
from zmtpscope.zmtp.reader import Finding

MOST_ENDPOINTS = 4096
"""Listening endpoints, and pairs of a client address and a listening endpoint, of which something is remembered."""

MOST_HANDSHAKES = 16_384
"""CURVE handshakes whose keys and nonces are remembered, those of connections that have ended included."""

RECONNECTS = 6
"""So many reconnects, more than five, ..."""
MINUTE = 60_000_000_000
"""... within so many nanoseconds are too many, ..."""
GROWTH = 2
"""... unless the last three waits are together more than so many times the first three. libzmq waits between one and
two times its interval."""

Endpoint = tuple[str, int]
Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(slots=True, eq=False)
class Party:
    """A connection that has reported something. `listener` is None where it is not known which side was connected to.

    `initial` is the sequence number of the client's SYN, -1 where there was none: the same TCP connection that was
    captured in two places under two addresses (NAT) has it in both.
    """

    teller: Teller
    start: Arrival
    listener: int | None
    initial: int
    served: tuple[Endpoint, str, str] | None = None
    handshake: Handshake | None = None

    @property
    def endpoint(self) -> Endpoint:
        """Address and port that were connected to."""
        return self.teller.whole.dst_ip, self.teller.whole.dst_port

    @property
    def pair(self) -> tuple[str, Endpoint]:
        """Client address and endpoint."""
        return self.teller.whole.src_ip, self.endpoint


class Located(NamedTuple):
    """A greeting or command of `side` at offsets `start..stop` of `source`."""

    side: int
    source: int
    start: int
    stop: int
    record: str


class Fact(NamedTuple):
    """Something that a connection reports, settled by the segment `arrival`; `kind` is a key of `WEIGH`.

    `unit` is what tells it (of what is over, the first greeting); what `value` is depends on the kind.
    """

    arrival: Arrival
    party: Party
    kind: str
    unit: Located
    value: Any

    @property
    def reference(self) -> str:
        """The identity of the record that tells it."""
        unit = self.unit
        return self.party.teller.reference(unit.side, unit.source, unit.start, unit.record)


class Ending(NamedTuple):
    """How a connection ended."""

    failed: bool
    """It closed otherwise than by the wish of the side that opened it."""
    unsecured: str | None
    """What was said with a client that is too old for security, though the listening side is not."""
    closed: Arrival
    """The first FIN or RST: from then on the client may want another."""


@dataclass(slots=True, eq=False)
class Handshake:
    """A CURVE handshake: short-term key of the client, where HELLO stands, long nonce of WELCOME once that has come."""

    key: bytes
    reference: str
    hello: Located
    nonce: bytes | None = None
    over: bool = False
    earlier: Handshake | None = None
    """Another connection's handshake with the same key, as long as it is not judged."""
    later: Handshake | None = None


class Life(NamedTuple):
    """First segment of a connection, first FIN or RST, and its greeting."""

    start: Arrival
    end: Arrival
    reference: str


@dataclass(slots=True)
class Reconnects:
    """The connections of a client with an endpoint that failed, each begun after the end of the one before."""

    times: deque[Life] = field(default_factory=lambda: deque(maxlen=RECONNECTS + 1))
    judged: bool = False


class Served:
    """Open connections that ask one socket for the same, by the client's initial sequence number: those that share it
    are one connection, captured in several places, unless the number is unknown. With each the command that told."""

    def __init__(self) -> None:
        self.parties: OrderedDict[int, OrderedDict[Party, str]] = OrderedDict()
        """The numbers last met, and of each the connections last met, at the end."""

    def other_than(self, party: Party) -> str | None:
        """What the newest connection told that is certainly another than this one; None where there is none."""
        for initial, parties in islice(reversed(self.parties.items()), 2):
            if initial < 0 or initial != party.initial:
                return parties[next(reversed(parties))]
        return None

    def add(self, party: Party, reference: str) -> None:
        """A connection that is open now."""
        self.parties.setdefault(party.initial, OrderedDict())[party] = reference
        self.parties.move_to_end(party.initial)

    def remove(self, party: Party) -> None:
        """It has ended."""
        same = self.parties[party.initial]
        del same[party]
        if not same:
            del self.parties[party.initial]


class Endpoints:
    """What is known across the connections of a run."""

    def __init__(self) -> None:
        self.secured: OrderedDict[Endpoint, str] = OrderedDict()
        """Where a mechanism other than NULL was announced: the greeting that did."""
        self.unsecured: OrderedDict[Endpoint, tuple[str, str]] = OrderedDict()
        """Where messages went without: the greeting of the old client, and what happened."""
        self.serving: dict[tuple[Endpoint, str, str], Served] = {}
        """Open connections by endpoint, its socket type and the identity of the client."""
        self.handshakes: OrderedDict[bytes, Handshake] = OrderedDict()
        """The last one with each key."""
        self.welcomes: OrderedDict[tuple[Endpoint, bytes], tuple[Handshake, str]] = OrderedDict()
        self.refused: OrderedDict[tuple[str, Endpoint], tuple[int, Any, str]] = OrderedDict()
        """The last ERROR that a client got: its ordinal, what was refused, its record."""
        self.reconnects: OrderedDict[tuple[str, Endpoint], Reconnects] = OrderedDict()

    def weigh(self, facts: list[Fact]) -> None:
        """Judge what the connections reported of a block, in the order of capture."""
        facts.sort(key=_order)
        for fact in facts:
            WEIGH[fact.kind](self, fact)

    @staticmethod
    def _note(id_: str, fact: Fact, reference: str, detail: str | None = None) -> None:
        unit = fact.unit
        finding = Finding(id_, unit.start, unit.stop - unit.start, None, detail)
        ordinal = fact.arrival.ordinal
        fact.party.teller.finding(unit.side, finding, fact.arrival, ordinal, (reference,), source=unit.source)

    # -- security that is not there ----------------------------------------------------------------------------------

    def _announced(self, fact: Fact) -> None:
        """The listening side announces a mechanism other than NULL."""
        endpoint = fact.party.endpoint
        if endpoint not in self.secured:
            unsecured = self.unsecured.pop(endpoint, None)
            if unsecured is not None:
                self._note("ZMTP-DOWNGRADE-01", fact, *unsecured)
        _remember(self.secured, endpoint, fact.reference, MOST_ENDPOINTS)

    def _unsecured(self, fact: Fact, what: str) -> None:
        """Messages went to or from a client that knows no security."""
        endpoint = fact.party.endpoint
        if endpoint in self.secured:
            self._note("ZMTP-DOWNGRADE-01", fact, self.secured[endpoint], what)
        elif endpoint not in self.unsecured:
            _remember(self.unsecured, endpoint, (fact.reference, what), MOST_ENDPOINTS)

    # -- one socket, several peers -----------------------------------------------------------------------------------

    def _served(self, fact: Fact) -> None:
        """A ROUTER is connected to by a peer with an identity (`value`), or a PAIR by anyone."""
        party = fact.party
        socket_type, identity = fact.value
        if party.served is not None:
            return
        party.served = party.endpoint, socket_type, identity
        others = self.serving.setdefault(party.served, Served())
        reference = others.other_than(party)
        if reference is not None:
            self._note("EXPAIR-01" if socket_type == "PAIR" else "ZMTP3X-META-15", fact, reference)
        others.add(party, fact.reference)

    # -- CURVE -------------------------------------------------------------------------------------------------------

    def _hello(self, fact: Fact) -> None:
        """A HELLO with the short-term key `value`."""
        party, key = fact.party, fact.value
        if party.handshake is not None:
            return
        party.handshake = Handshake(key, fact.reference, fact.unit)
        other = self.handshakes.get(key)
        if other is not None:
            party.handshake.earlier, other.later = other, party.handshake
        _remember(self.handshakes, key, party.handshake, MOST_HANDSHAKES)

    def _welcome(self, fact: Fact) -> None:
        """A WELCOME with the long nonce `value`."""
        handshake = fact.party.handshake
        if handshake is None or handshake.nonce is not None:
            return
        handshake.nonce = fact.value
        if fact.party.listener == fact.unit.side:
            place = fact.party.endpoint, fact.value
            other = self.welcomes.get(place)
            if other is not None and other[0].key != handshake.key:  # else one connection, captured in two places
                self._note("CURVE-19", fact, other[1])
            _remember(self.welcomes, place, (handshake, fact.reference), MOST_HANDSHAKES)
        self._judge_key(handshake, fact)

    def _judge_key(self, handshake: Handshake, fact: Fact) -> None:
        """Whether a key that was met before was used again, now that `fact` tells more of one of the two connections.

        Where both have got the same WELCOME the handshake is one, and was captured in front of a relay and behind it.
        """
        for one, other in ((handshake.earlier, handshake), (handshake, handshake.later)):
            if one is None or other is None or not (_is_settled(one) and _is_settled(other)):
                continue
            one.later = other.earlier = None
            if one.nonce is None or one.nonce != other.nonce:
                ours, theirs = (one, other) if one is handshake else (other, one)
                self._note("CURVE-15", fact._replace(unit=ours.hello), theirs.reference)

    # -- clients that come again -------------------------------------------------------------------------------------

    def _refused(self, fact: Fact) -> None:
        """The listening side sends ERROR; `value` is what was refused: mechanism and user name."""
        pair = fact.party.pair
        if pair in self.refused:
            ordinal, what, reference = self.refused[pair]
            if fact.party.start.ordinal > ordinal and what == fact.value:
                self._note("ZMTP-CONN-09", fact, reference)
        _remember(self.refused, pair, (fact.arrival.ordinal, fact.value, fact.reference), MOST_ENDPOINTS)

    def _failed(self, fact: Fact) -> None:
        """A connection ended that the client will want again."""
        pair, start = fact.party.pair, fact.party.start
        known = self.reconnects.get(pair) or Reconnects()
        _remember(self.reconnects, pair, known, MOST_ENDPOINTS)
        times = known.times
        if known.judged:
            return
        if times and start.ordinal < times[-1].end.ordinal:
            times.clear()  # two clients, or one that did not wait
        times.append(Life(start, fact.value.closed, fact.reference))
        if len(times) <= RECONNECTS or start.time - times[1].start.time > MINUTE:
            return
        known.judged = True
        waits = [after.start.time - before.end.time for before, after in pairwise(times)]
        if sum(waits[-3:]) <= GROWTH * sum(waits[:3]):
            took = (start.time - times[1].start.time) / 1e9
            detail = f"{len(waits)} times in {took:.1f} s, {sum(waits) / len(waits) / 1e6:.0f} ms after each end"
            self._note("ZMTP-CONN-10", fact, times[0].reference, detail)
        times.clear()

    # -- the end -----------------------------------------------------------------------------------------------------

    def _ended(self, fact: Fact) -> None:
        """A connection ended, or the capture; `value` is an `Ending`."""
        party, ending = fact.party, fact.value
        if party.served is not None:
            others = self.serving[party.served]
            others.remove(party)
            if not others.parties:
                del self.serving[party.served]
        if party.handshake is not None:
            party.handshake.over = True
            self._judge_key(party.handshake, fact)
        if party.listener is not None:
            if ending.unsecured is not None:
                self._unsecured(fact, ending.unsecured)
            if ending.failed:
                self._failed(fact)


WEIGH: dict[str, Callable[[Endpoints, Fact], None]] = {
    "announced": Endpoints._announced,
    "served": Endpoints._served,
    "hello": Endpoints._hello,
    "welcome": Endpoints._welcome,
    "refused": Endpoints._refused,
    "ended": Endpoints._ended,
}
"""What becomes of each kind of fact."""


def _order(fact: Fact) -> tuple[int, int]:
    """Those of one connection come in their order already."""
    return fact.arrival.ordinal, place_of(fact.party.teller.whole)


def _is_settled(handshake: Handshake) -> bool:
    """Whether its WELCOME is known, or will not come any more."""
    return handshake.nonce is not None or handshake.over


def _remember(known: OrderedDict[Key, Value], key: Key, value: Value, most: int) -> None:
    """Put `value` there as the newest; the oldest gives way."""
    known[key] = value
    known.move_to_end(key)
    if len(known) > most:
        known.popitem(last=False)
