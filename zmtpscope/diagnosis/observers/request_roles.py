"""Decide which side of a connection sends requests, and how replies are matched (wire.md 10.1).

* A REQ, or the peer of a REP, sends requests.
* A REQ that works for a ROUTER first sends that it is ready, and gets requests as replies, in an envelope of their own.
  There the ROUTER sends requests.
* Between ROUTER and DEALER, the side whose envelopes the other repeats sends requests.
* If socket types are unknown, alternating messages show REQ and REP.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from zmtpscope.diagnosis.observers.durations import median
from zmtpscope.diagnosis.observers.matching import Envelope, MessageRow, by_time, only_frame
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.payloads.jupyter import DELIMITER
from zmtpscope.zmtp.socket_types import ROUTING

NEVER_ASK = frozenset({("PUB", "SUB"), ("SUB", "PUB"), ("PUSH", "PULL"), ("PULL", "PUSH")})
"""Socket types of most connections, which have no requests."""

READY_WORDS = frozenset({b"READY", b"\x01"})
"""First messages of workers of a broker (Guide, chapter 3)."""

UNSIGNED = (DELIMITER,)
"""What looks like the envelope of an unsigned Jupyter message is no address."""
MIN_TURNS = 8
"""Alternating messages, each with an empty envelope, that show REQ and REP."""
THINKS_LONGER = 2
"""An asker's median pause is at least this multiple of the replier's."""

MAX_HELD = 4096
"""Messages to remember until an envelope is repeated."""


class Role(NamedTuple):
    asker: int
    in_order: bool
    """Whether a reply answers the oldest request. Otherwise it answers the newest one, as for a REQ."""
    reports_unasked: bool = True
    """Whether a reply without a request is a fault."""
    is_guessed: bool = False
    """Whether the socket types are unknown."""
    is_of_work: bool = False
    """Whether a ROUTER gives work to a REQ; requests contain their client's envelope."""


Assigned = tuple[Role, list[MessageRow]]
"""A role, and the requests and replies in it."""


class Roles(ABC):
    needs_address = False
    """Whether requests and replies have an address before the empty frame."""
    is_over = False
    """Whether the asker will remain unknown."""

    def __init__(self, role: Role | None = None) -> None:
        self.role = role
        """None until the asker is known."""
        self.held: list[MessageRow] = []
        """Messages until then."""

    @abstractmethod
    def assign(self, events: list[MessageRow]) -> Iterator[Assigned]:
        """Yield groups of messages with their role, in order; nothing until it is known which side sends requests."""

    def forget(self) -> None:
        self.held = []


def roles_of(observed: ObservedConnection) -> Roles | None:
    """Return the way to find the side that sends requests, for the socket types of a connection.

    None if these types have no requests, or are not known yet.
    """
    types = observed.socket_types()
    replier, requester = observed.side_of("REP"), observed.side_of("REQ")
    if replier is not None:
        return OfRep(replier)
    if requester is not None:
        return OfReq(requester)
    if ROUTING.issuperset(types):
        return ByEnvelopes()
    if types == (None, None):  # not captured, or of ZMTP 1.0 or ZWS 2.0, which announce none
        return ByTurns(1 - observed.listener)
    return None


class OfRep(Roles):
    def __init__(self, replier: int) -> None:
        self.known = Role(1 - replier, in_order=True)
        super().__init__(self.known)

    def assign(self, events: list[MessageRow]) -> Iterator[Assigned]:
        yield self.known, events


class OfReq(Roles):
    """A connection of a REQ. Usually the REQ sends requests; if it is a worker, the ROUTER does."""

    has_asked = False
    nests_itself = False
    """Whether the first request contains another envelope: replies then do, too, although the REQ is no worker."""

    def __init__(self, requester: int) -> None:
        self.known = Role(requester, in_order=False)
        super().__init__(self.known)

    def assign(self, events: list[MessageRow]) -> Iterator[Assigned]:
        work = None if self.known.is_of_work else self._work_begins(events)
        if work is not None:
            yield self.known, events[:work]
            self.known = Role(1 - self.known.asker, in_order=False, reports_unasked=False, is_of_work=True)
        yield self.known, events[work:]

    def _work_begins(self, events: list[MessageRow]) -> int | None:
        """Return the index of the first message which shows that the REQ is a worker, or None."""
        first = next((message for message in events if message.side == self.known.asker), None)
        if first is not None and not self.has_asked:
            assert first.run is not None
            if only_frame(first.run, first.row) in READY_WORDS:
                return 0
            self.has_asked, self.nests_itself = True, first.is_nested
        if self.nests_itself:
            return None
        return next((at for at, each in enumerate(events) if each.is_nested and each.side != self.known.asker), None)


class ByEnvelopes(Roles):
    """ROUTER and DEALER: the side whose envelope the other side repeats first sends requests."""

    needs_address = True

    def __init__(self) -> None:
        super().__init__()
        self.first_of: dict[Envelope | None, int] = {}
        """The first sender of each envelope."""

    def assign(self, events: list[MessageRow]) -> Iterator[Assigned]:
        if self.role is None:
            self.held += events
            asker = self._asker(events)
            if asker is None:
                if len(self.held) > MAX_HELD:
                    self.forget()
                return
            self.role, events = Role(asker, in_order=True, reports_unasked=False), self.held
            self.forget()
        yield self.role, events

    def _asker(self, events: Sequence[MessageRow]) -> int | None:
        """Return the side that sends requests, because the other side repeats its envelope; None if unknown."""
        for message in events:
            asker = self.first_of.setdefault(message.key, message.side)
            if asker != message.side and message.key != UNSIGNED:
                return asker
        return None

    def forget(self) -> None:
        self.held, self.first_of = [], {}


class ByTurns(Roles):
    """Unknown socket types: the client sends requests if the first messages alternate, and its pauses are longer.

    A side that later sends two messages in a row is neither REQ nor REP.
    """

    def __init__(self, client: int) -> None:
        super().__init__()
        self.client = client
        self.last: int | None = None
        """The side that sent the last message."""

    def assign(self, events: list[MessageRow]) -> Iterator[Assigned]:
        later = events
        if self.role is None and not self.is_over:
            self.held += events
            if len(self.held) < MIN_TURNS:
                return
            events, self.held = self.held, []
            first, later = sorted(events[:MIN_TURNS], key=by_time), events[MIN_TURNS:]
            self.last = first[-1].side
            if self._alternate(first):
                self.role = Role(self.client, in_order=True, is_guessed=True)
            else:
                self.is_over = True
        for message in later:
            self.is_over = self.is_over or message.side == self.last
            self.last = message.side
        if self.role is not None and not self.is_over:
            yield self.role, events

    def forget(self) -> None:
        super().forget()
        self.last = None

    def _alternate(self, first: Sequence[MessageRow]) -> bool:
        turns = list(pairwise(first))
        if any(row.key != () for row in first) or any(one.side == other.side for one, other in turns):
            return False
        pauses = {side: [other.time - one.time for one, other in turns if other.side == side] for side in (0, 1)}
        return median(pauses[self.client]) >= THINKS_LONGER * median(pauses[1 - self.client])
