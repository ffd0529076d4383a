"""Findings that compare the connections to one endpoint, or the connections of one client to an endpoint.

Memory is bounded by the number of open connections, and by the limits below, where the entry unused for longest is
forgotten. conformance.md defines conditions and severities.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any, NamedTuple, TypeVar

from zmtpscope.dissect.arrivals import Stamp, stamp
from zmtpscope.dissect.records.facts import ConnectionFact, Endpoint, Located, Origin
from zmtpscope.dissect.records.notes import Note
from zmtpscope.zmtp.reader import Finding

MAX_ENDPOINTS = 4096
"""Listening endpoints, and pairs of client address and endpoint, to remember."""

MAX_HANDSHAKES = 16_384
"""CURVE handshakes, also of ended connections, whose keys and nonces are remembered."""

RECONNECTS = 6
"""Number of reconnects within `MINUTE` that are too many, unless the waits grow."""
MINUTE = 60_000_000_000
GROWTH = 2
"""Waits grow if the last three together exceed this multiple of the first three. libzmq waits between one and two times
its interval."""

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(slots=True, eq=False)
class Peer:
    """An open connection, with the facts that are compared with other connections."""

    served: tuple[Endpoint, str, str] | None = None
    """Endpoint, its socket type, and the client's identity."""
    handshake: Handshake | None = None


@dataclass(slots=True, eq=False)
class Handshake:
    """A CURVE handshake, the one with this `number` of those with the same `key`, the client's short-term key.

    `hello` is where its HELLO is, `nonce` the long nonce of its WELCOME, if received. `over`: the connection has ended.
    """

    key: bytes
    number: int
    reference: str
    hello: Located
    nonce: bytes | None = None
    over: bool = False

    @property
    def is_final(self) -> bool:
        """Whether its WELCOME is known, or cannot arrive any more."""
        return self.nonce is not None or self.over


@dataclass(slots=True, eq=False)
class SameKey:
    """CURVE handshakes with the same client key, by number.

    Each is compared with the previous one when the WELCOMEs of both are known; until then both are kept.
    """

    newest: int = -1
    handshakes: dict[int, Handshake] = field(default_factory=dict)

    def add(self, key: bytes, reference: str, hello: Located) -> Handshake:
        self.newest += 1
        made = self.handshakes[self.newest] = Handshake(key, self.newest, reference, hello)
        return made

    def final_beside(self, handshake: Handshake) -> list[Handshake]:
        """Return the handshakes before and after this one with which it can be compared now.

        Handshakes that need no further comparison are forgotten.
        """
        known, number = self.handshakes, handshake.number
        if known.get(number) is not handshake:
            return []  # the key was forgotten meanwhile
        beside = [known.get(number - 1), known.get(number + 1)]
        for each in (number - 1, number, number + 1):
            if each != self.newest and all(known[n].is_final for n in (each - 1, each, each + 1) if n in known):
                known.pop(each, None)
        return [each for each in beside if each is not None and each.is_final]


class Lifetime(NamedTuple):
    """The first packet and the first FIN or RST of a connection, and the identity of its greeting."""

    start: Stamp
    end: Stamp
    reference: str


@dataclass(slots=True, eq=False)
class Reconnects:
    """Failed connections of one client to one endpoint, each opened after the previous one ended."""

    lifetimes: deque[Lifetime] = field(default_factory=lambda: deque(maxlen=RECONNECTS + 1))
    evaluated: bool = False


class Served:
    """Open connections on which clients claim to be the same peer, by the client's initial sequence number.

    Connections with the same known number are one connection, captured in several places. The value is the identity of
    the command with the claim.
    """

    def __init__(self) -> None:
        self.connections: OrderedDict[int, OrderedDict[str, str]] = OrderedDict()
        """The last numbers, and of each the last connections by conn_id, newest last."""

    def other_than(self, origin: Origin) -> str | None:
        """Return the identity of the command on the newest connection that is certainly another one, or None."""
        for initial, connections in islice(reversed(self.connections.items()), 2):
            if initial < 0 or initial != origin.initial:
                return connections[next(reversed(connections))]
        return None

    def add(self, origin: Origin, reference: str) -> None:
        self.connections.setdefault(origin.initial, OrderedDict())[origin.stream.conn_id] = reference
        self.connections.move_to_end(origin.initial)

    def remove(self, origin: Origin) -> None:
        same = self.connections[origin.initial]
        del same[origin.stream.conn_id]
        if not same:
            del self.connections[origin.initial]


class Endpoints:
    def __init__(self) -> None:
        self.peers: dict[str, Peer] = {}
        """Open connections that have reported a fact, by conn_id."""
        self.secured: OrderedDict[Endpoint, str] = OrderedDict()
        self.unsecured: OrderedDict[Endpoint, tuple[str, str]] = OrderedDict()
        """Greetings of old clients that exchanged messages without security, with a description."""
        self.serving: dict[tuple[Endpoint, str, str], Served] = {}
        """Open connections by endpoint, its socket type and the client's identity."""
        self.handshakes: OrderedDict[bytes, SameKey] = OrderedDict()
        self.welcomes: OrderedDict[tuple[Endpoint, bytes], tuple[bytes, str]] = OrderedDict()
        """The client's key and the reference of the WELCOME, by endpoint and nonce."""
        self.refused: OrderedDict[tuple[str, Endpoint], tuple[Stamp, Any, str]] = OrderedDict()
        """Last ERROR to a client, refused credentials, reference."""
        self.reconnects: OrderedDict[tuple[str, Endpoint], Reconnects] = OrderedDict()
        self.notes: list[Note] = []

    def evaluate(self, fact: ConnectionFact) -> list[Note]:
        """Return findings that result from the next fact. Facts arrive in capture order."""
        EVALUATE[fact.kind](self, fact)
        notes, self.notes = self.notes, []
        return notes

    def _peer(self, fact: ConnectionFact) -> Peer:
        return self.peers.setdefault(fact.origin.stream.conn_id, Peer())

    def _note(self, id_: str, fact: ConnectionFact, reference: str, detail: str | None = None) -> None:
        unit = fact.unit
        finding = Finding(id_, unit.start, unit.stop - unit.start, None, detail)
        at, decided = stamp(fact.arrival), fact.arrival.ordinal
        self.notes.append(
            Note(unit.side, finding, at, decided, (reference,), source=unit.source, stream=fact.origin.stream)
        )

    # -- security that is not there ----------------------------------------------------------------------------------

    def _announced(self, fact: ConnectionFact) -> None:
        endpoint = fact.origin.endpoint
        if endpoint not in self.secured:
            unsecured = self.unsecured.pop(endpoint, None)
            if unsecured is not None:
                self._note("ZMTP-DOWNGRADE-01", fact, *unsecured)
        _remember(self.secured, endpoint, fact.reference, MAX_ENDPOINTS)

    def _unsecured(self, fact: ConnectionFact, what: str) -> None:
        """Process the fact that messages were exchanged with a client that has no security; `what` describes them."""
        endpoint = fact.origin.endpoint
        if endpoint in self.secured:
            self._note("ZMTP-DOWNGRADE-01", fact, self.secured[endpoint], what)
        elif endpoint not in self.unsecured:
            _remember(self.unsecured, endpoint, (fact.reference, what), MAX_ENDPOINTS)

    # -- one socket, several peers -----------------------------------------------------------------------------------

    def _served(self, fact: ConnectionFact) -> None:
        """Process the fact that a client with an identity (`value`) is connected to a ROUTER, or any client to a
        PAIR."""
        peer, origin = self._peer(fact), fact.origin
        socket_type, identity = fact.value
        if peer.served is not None:
            return
        peer.served = origin.endpoint, socket_type, identity
        others = self.serving.setdefault(peer.served, Served())
        reference = others.other_than(origin)
        if reference is not None:
            self._note("EXPAIR-01" if socket_type == "PAIR" else "ZMTP3X-META-15", fact, reference)
        others.add(origin, fact.reference)

    # -- CURVE -------------------------------------------------------------------------------------------------------

    def _hello(self, fact: ConnectionFact) -> None:
        """Process the fact that a client sent a HELLO with the short-term key `value`."""
        peer, key = self._peer(fact), fact.value
        if peer.handshake is not None:
            return
        same = self.handshakes.get(key) or SameKey()
        peer.handshake = same.add(key, fact.reference, fact.unit)
        _remember(self.handshakes, key, same, MAX_HANDSHAKES)

    def _welcome(self, fact: ConnectionFact) -> None:
        """Report a WELCOME whose long nonce (`value`) was already used on another connection to the endpoint."""
        handshake = self._peer(fact).handshake
        if handshake is None or handshake.nonce is not None:
            return
        handshake.nonce = fact.value
        if fact.origin.listener == fact.unit.side:
            place = fact.origin.endpoint, fact.value
            other = self.welcomes.get(place)
            if other is not None and other[0] != handshake.key:  # otherwise one connection, captured in two places
                self._note("CURVE-19", fact, other[1])
            _remember(self.welcomes, place, (handshake.key, fact.reference), MAX_HANDSHAKES)
        self._compare_keys(handshake, fact)

    def _compare_keys(self, handshake: Handshake, fact: ConnectionFact) -> None:
        """Report a short-term key that was used twice, if `fact` completes the comparison of two handshakes.

        If both received the same WELCOME they are one handshake, captured before and after a relay.
        """
        same = self.handshakes.get(handshake.key)
        for other in () if same is None else same.final_beside(handshake):
            if handshake.nonce is None or handshake.nonce != other.nonce:
                self._note("CURVE-15", fact._replace(unit=handshake.hello), other.reference)

    # -- clients that come again -------------------------------------------------------------------------------------

    def _refused(self, fact: ConnectionFact) -> None:
        """Process the fact that a server sent an ERROR; `value` is the refused mechanism and user name."""
        pair = fact.origin.pair
        if pair in self.refused:
            sent, what, reference = self.refused[pair]
            if fact.origin.start > sent and what == fact.value:
                self._note("ZMTP-CONN-09", fact, reference)
        _remember(self.refused, pair, (stamp(fact.arrival), fact.value, fact.reference), MAX_ENDPOINTS)

    def _failed(self, fact: ConnectionFact) -> None:
        """Process the fact that a connection has failed, so that the client will reconnect."""
        pair, start = fact.origin.pair, fact.origin.start
        known = self.reconnects.get(pair) or Reconnects()
        _remember(self.reconnects, pair, known, MAX_ENDPOINTS)
        lifetimes = known.lifetimes
        if known.evaluated:
            return
        if lifetimes and start < lifetimes[-1].end:
            lifetimes.clear()  # there are two clients, or one that did not wait
        lifetimes.append(Lifetime(start, fact.value.first, fact.reference))
        if len(lifetimes) <= RECONNECTS or start.time - lifetimes[1].start.time > MINUTE:
            return
        known.evaluated = True
        waits = [after.start.time - before.end.time for before, after in pairwise(lifetimes)]
        if sum(waits[-3:]) <= GROWTH * sum(waits[:3]):
            took = (start.time - lifetimes[1].start.time) / 1e9
            detail = f"{len(waits)} times in {took:.1f} s, {sum(waits) / len(waits) / 1e6:.0f} ms after each end"
            self._note("ZMTP-CONN-10", fact, lifetimes[0].reference, detail)
        lifetimes.clear()

    # -- the end -----------------------------------------------------------------------------------------------------

    def _closed(self, fact: ConnectionFact) -> None:
        """Process the fact that a connection or the capture has ended; `value` is a `Close`."""
        close = fact.value
        peer = self.peers.pop(fact.origin.stream.conn_id, Peer())
        if peer.served is not None:
            others = self.serving[peer.served]
            others.remove(fact.origin)
            if not others.connections:
                del self.serving[peer.served]
        if peer.handshake is not None and not peer.handshake.is_final:
            peer.handshake.over = True
            self._compare_keys(peer.handshake, fact)
        if fact.origin.listener is not None:
            if close.unsecured is not None:
                self._unsecured(fact, close.unsecured)
            if close.failed:
                self._failed(fact)


EVALUATE: dict[str, Callable[[Endpoints, ConnectionFact], None]] = {
    "announced": Endpoints._announced,
    "served": Endpoints._served,
    "hello": Endpoints._hello,
    "welcome": Endpoints._welcome,
    "refused": Endpoints._refused,
    "closed": Endpoints._closed,
}


def _remember(known: OrderedDict[Key, Value], key: Key, value: Value, most: int) -> None:
    """Store a value by key as the newest one. If there are more than `most`, the oldest is forgotten."""
    known[key] = value
    known.move_to_end(key)
    if len(known) > most:
        known.popitem(last=False)
