"""Findings that compare connections with each other: those of one listening endpoint, and those of one client with it.

Every connection reports what may matter to others (`facts.Said`), nothing where it is as usual. What is remembered is
bounded: whatever is about open connections by their number, the rest by the limits below, where the one that was met
longest ago gives way. Conditions and severities are those of conformance.md.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any, NamedTuple, TypeVar

from zmtpscope.dissect.arrivals import Stamp, stamp
from zmtpscope.dissect.records.facts import Endpoint, Located, Origin, Said
from zmtpscope.dissect.records.notes import Note
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

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(slots=True, eq=False)
class Peer:
    """What is remembered of an open connection that has reported something."""

    served: tuple[Endpoint, str, str] | None = None
    """The endpoint, its socket type and the identity of the client."""
    handshake: Handshake | None = None


@dataclass(slots=True, eq=False)
class Handshake:
    """A CURVE handshake, `number` among those with the same `key`, the short-term key of the client: where its HELLO
    stands, and the long nonce of WELCOME once that has come."""

    key: bytes
    number: int
    reference: str
    hello: Located
    nonce: bytes | None = None
    over: bool = False

    @property
    def is_final(self) -> bool:
        """Whether its WELCOME is known, or will not come any more."""
        return self.nonce is not None or self.over


@dataclass(slots=True, eq=False)
class SameKey:
    """The handshakes with one key, by number: each is compared with the one in front of it, once both are final.
    `newest` is the last number; of the others those are kept that still wait for that."""

    newest: int = -1
    handshakes: dict[int, Handshake] = field(default_factory=dict)

    def add(self, key: bytes, reference: str, hello: Located) -> Handshake:
        """One more."""
        self.newest += 1
        made = self.handshakes[self.newest] = Handshake(key, self.newest, reference, hello)
        return made

    def final_beside(self, handshake: Handshake) -> list[Handshake]:
        """The neighbours of a handshake that has become final which are, too. What waits for nothing more goes."""
        known, number = self.handshakes, handshake.number
        if known.get(number) is not handshake:
            return []  # the key was forgotten meanwhile
        beside = [known.get(number - 1), known.get(number + 1)]
        for each in (number - 1, number, number + 1):
            if each != self.newest and all(known[n].is_final for n in (each - 1, each, each + 1) if n in known):
                known.pop(each, None)
        return [each for each in beside if each is not None and each.is_final]


class Lifetime(NamedTuple):
    """First packet of a connection, first FIN or RST, and its greeting."""

    start: Stamp
    end: Stamp
    reference: str


@dataclass(slots=True, eq=False)
class Reconnects:
    """The connections of a client with an endpoint that failed, each begun after the end of the one before."""

    lifetimes: deque[Lifetime] = field(default_factory=lambda: deque(maxlen=RECONNECTS + 1))
    evaluated: bool = False


class Served:
    """Open connections that ask one socket for the same, by the client's initial sequence number: those that share it
    are one connection, captured in several places, unless the number is unknown. With each the command that says so."""

    def __init__(self) -> None:
        self.connections: OrderedDict[int, OrderedDict[str, str]] = OrderedDict()
        """The numbers last met, and of each the connections last met, at the end: their conn_id."""

    def other_than(self, origin: Origin) -> str | None:
        """What the newest connection said that is certainly another than this one; None where there is none."""
        for initial, connections in islice(reversed(self.connections.items()), 2):
            if initial < 0 or initial != origin.initial:
                return connections[next(reversed(connections))]
        return None

    def add(self, origin: Origin, reference: str) -> None:
        """A connection that is open now."""
        self.connections.setdefault(origin.initial, OrderedDict())[origin.stream.conn_id] = reference
        self.connections.move_to_end(origin.initial)

    def remove(self, origin: Origin) -> None:
        """It has ended."""
        same = self.connections[origin.initial]
        del same[origin.stream.conn_id]
        if not same:
            del self.connections[origin.initial]


class Endpoints:
    """What is known across the connections of a run."""

    def __init__(self) -> None:
        self.peers: dict[str, Peer] = {}
        """Open connections that have reported something, by conn_id."""
        self.secured: OrderedDict[Endpoint, str] = OrderedDict()
        """Where a mechanism other than NULL was announced: the greeting that did."""
        self.unsecured: OrderedDict[Endpoint, tuple[str, str]] = OrderedDict()
        """Where messages went without: the greeting of the old client, and what happened."""
        self.serving: dict[tuple[Endpoint, str, str], Served] = {}
        """Open connections by endpoint, its socket type and the identity of the client."""
        self.handshakes: OrderedDict[bytes, SameKey] = OrderedDict()
        """By key."""
        self.welcomes: OrderedDict[tuple[Endpoint, bytes], tuple[bytes, str]] = OrderedDict()
        """By nonce: the key of the client, and the WELCOME."""
        self.refused: OrderedDict[tuple[str, Endpoint], tuple[Stamp, Any, str]] = OrderedDict()
        """The last ERROR that a client got, what was refused, its record."""
        self.reconnects: OrderedDict[tuple[str, Endpoint], Reconnects] = OrderedDict()
        self.notes: list[Note] = []
        """What the fact that is being evaluated gives rise to."""

    def evaluate(self, said: Said) -> list[Note]:
        """What is to be said now that a connection reports this; facts come in the order of capture."""
        EVALUATE[said.kind](self, said)
        notes, self.notes = self.notes, []
        return notes

    def _peer(self, said: Said) -> Peer:
        return self.peers.setdefault(said.origin.stream.conn_id, Peer())

    def _note(self, id_: str, said: Said, reference: str, detail: str | None = None) -> None:
        unit = said.unit
        finding = Finding(id_, unit.start, unit.stop - unit.start, None, detail)
        at, decided = stamp(said.arrival), said.arrival.ordinal
        self.notes.append(
            Note(unit.side, finding, at, decided, (reference,), source=unit.source, stream=said.origin.stream)
        )

    # -- security that is not there ----------------------------------------------------------------------------------

    def _announced(self, said: Said) -> None:
        """The listening side announces a mechanism other than NULL."""
        endpoint = said.origin.endpoint
        if endpoint not in self.secured:
            unsecured = self.unsecured.pop(endpoint, None)
            if unsecured is not None:
                self._note("ZMTP-DOWNGRADE-01", said, *unsecured)
        _remember(self.secured, endpoint, said.reference, MOST_ENDPOINTS)

    def _unsecured(self, said: Said, what: str) -> None:
        """Messages went to or from a client that knows no security."""
        endpoint = said.origin.endpoint
        if endpoint in self.secured:
            self._note("ZMTP-DOWNGRADE-01", said, self.secured[endpoint], what)
        elif endpoint not in self.unsecured:
            _remember(self.unsecured, endpoint, (said.reference, what), MOST_ENDPOINTS)

    # -- one socket, several peers -----------------------------------------------------------------------------------

    def _served(self, said: Said) -> None:
        """A ROUTER is connected to by a peer with an identity (`value`), or a PAIR by anyone."""
        peer, origin = self._peer(said), said.origin
        socket_type, identity = said.value
        if peer.served is not None:
            return
        peer.served = origin.endpoint, socket_type, identity
        others = self.serving.setdefault(peer.served, Served())
        reference = others.other_than(origin)
        if reference is not None:
            self._note("EXPAIR-01" if socket_type == "PAIR" else "ZMTP3X-META-15", said, reference)
        others.add(origin, said.reference)

    # -- CURVE -------------------------------------------------------------------------------------------------------

    def _hello(self, said: Said) -> None:
        """A HELLO with the short-term key `value`."""
        peer, key = self._peer(said), said.value
        if peer.handshake is not None:
            return
        same = self.handshakes.get(key) or SameKey()
        peer.handshake = same.add(key, said.reference, said.unit)
        _remember(self.handshakes, key, same, MOST_HANDSHAKES)

    def _welcome(self, said: Said) -> None:
        """A WELCOME with the long nonce `value`."""
        handshake = self._peer(said).handshake
        if handshake is None or handshake.nonce is not None:
            return
        handshake.nonce = said.value
        if said.origin.listener == said.unit.side:
            place = said.origin.endpoint, said.value
            other = self.welcomes.get(place)
            if other is not None and other[0] != handshake.key:  # else one connection, captured in two places
                self._note("CURVE-19", said, other[1])
            _remember(self.welcomes, place, (handshake.key, said.reference), MOST_HANDSHAKES)
        self._compare_keys(handshake, said)

    def _compare_keys(self, handshake: Handshake, said: Said) -> None:
        """Whether a key that was met before was used again, now that `said` makes one of the two handshakes final.

        Where both have got the same WELCOME the handshake is one, and was captured in front of a relay and behind it.
        """
        same = self.handshakes.get(handshake.key)
        for other in () if same is None else same.final_beside(handshake):
            if handshake.nonce is None or handshake.nonce != other.nonce:
                self._note("CURVE-15", said._replace(unit=handshake.hello), other.reference)

    # -- clients that come again -------------------------------------------------------------------------------------

    def _refused(self, said: Said) -> None:
        """The listening side sends ERROR; `value` is what was refused: mechanism and user name."""
        pair = said.origin.pair
        if pair in self.refused:
            sent, what, reference = self.refused[pair]
            if said.origin.start > sent and what == said.value:
                self._note("ZMTP-CONN-09", said, reference)
        _remember(self.refused, pair, (stamp(said.arrival), said.value, said.reference), MOST_ENDPOINTS)

    def _failed(self, said: Said) -> None:
        """A connection ended that the client will want again."""
        pair, start = said.origin.pair, said.origin.start
        known = self.reconnects.get(pair) or Reconnects()
        _remember(self.reconnects, pair, known, MOST_ENDPOINTS)
        lifetimes = known.lifetimes
        if known.evaluated:
            return
        if lifetimes and start < lifetimes[-1].end:
            lifetimes.clear()  # two clients, or one that did not wait
        lifetimes.append(Lifetime(start, said.value.first, said.reference))
        if len(lifetimes) <= RECONNECTS or start.time - lifetimes[1].start.time > MINUTE:
            return
        known.evaluated = True
        waits = [after.start.time - before.end.time for before, after in pairwise(lifetimes)]
        if sum(waits[-3:]) <= GROWTH * sum(waits[:3]):
            took = (start.time - lifetimes[1].start.time) / 1e9
            detail = f"{len(waits)} times in {took:.1f} s, {sum(waits) / len(waits) / 1e6:.0f} ms after each end"
            self._note("ZMTP-CONN-10", said, lifetimes[0].reference, detail)
        lifetimes.clear()

    # -- the end -----------------------------------------------------------------------------------------------------

    def _closed(self, said: Said) -> None:
        """A connection ended, or the capture; `value` is a `Close`."""
        close = said.value
        peer = self.peers.pop(said.origin.stream.conn_id, Peer())
        if peer.served is not None:
            others = self.serving[peer.served]
            others.remove(said.origin)
            if not others.connections:
                del self.serving[peer.served]
        if peer.handshake is not None and not peer.handshake.is_final:
            peer.handshake.over = True
            self._compare_keys(peer.handshake, said)
        if said.origin.listener is not None:
            if close.unsecured is not None:
                self._unsecured(said, close.unsecured)
            if close.failed:
                self._failed(said)


EVALUATE: dict[str, Callable[[Endpoints, Said], None]] = {
    "announced": Endpoints._announced,
    "served": Endpoints._served,
    "hello": Endpoints._hello,
    "welcome": Endpoints._welcome,
    "refused": Endpoints._refused,
    "closed": Endpoints._closed,
}
"""What becomes of each kind of fact."""


def _remember(known: OrderedDict[Key, Value], key: Key, value: Value, most: int) -> None:
    """Put `value` there as the newest; the oldest gives way."""
    known[key] = value
    known.move_to_end(key)
    if len(known) > most:
        known.popitem(last=False)
