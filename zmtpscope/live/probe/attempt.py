"""One connection of a probe: a `Peer` that sends its greeting in pieces and records how the other endpoint greets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self

from zmtpscope.live.peer.arguments import Endpoint
from zmtpscope.live.peer.connection import PIECE, reach, remote_name
from zmtpscope.zmtp.events import Fields
from zmtpscope.zmtp.greeting import GREETING_3_SIZE, READERS, SIGNATURE_SIZE
from zmtpscope.zmtp.peer import NotZmtp, Peer, PeerEvent, Settings, Violation
from zmtpscope.zmtp.peer.greeting import shown
from zmtpscope.zmtp.prefix import Class, classify
from zmtpscope.zmtp.reader import Cut, Reader
from zmtpscope.zmtp.regime import Form

MAX_CONNECTIONS = 20
MAX_OCTETS = 4 << 20
"""Octets on all connections of a probe together."""
SHORTEST_PAUSE = 0.1
"""Seconds of each of our pauses, besides two round trips."""
LAST_WORDS = 0.1
"""Seconds in which the other endpoint may take the remaining octets of a closed connection."""
VERSION_STOP = SIGNATURE_SIZE + 1
"""Number of octets of our greeting before the major version."""
FORMS = {Class.REVISION_1: Form.GREETING_2, Class.REVISION_2: Form.GREETING_2, Class.REVISION_3: Form.GREETING_3}
"""Forms by the class of the first octets of a greeting."""


class Budget:
    """Limits for all connections of a probe together: `wait` seconds from now on, octets and connections."""

    def __init__(self, wait: float) -> None:
        self.wait = wait
        self.started = asyncio.get_running_loop().time()
        self.connections = 0
        self.octets = 0

    @property
    def deadline(self) -> float:
        """The end of the `wait` seconds, on the clock of the event loop."""
        return self.started + self.wait

    def spend_connection(self) -> None:
        """Count a connection. Raises `Violation` above the maximum."""
        if self.connections == MAX_CONNECTIONS:
            raise Violation(f"{MAX_CONNECTIONS} connections were not enough to identify it")
        self.connections += 1

    def spend_octets(self, count: int) -> None:
        """Count received octets. Raises `Violation` above the maximum."""
        self.octets += count
        if self.octets > MAX_OCTETS:
            raise Violation(f"received more than {MAX_OCTETS >> 20} MiB, the limit of a probe")


class Arrival(NamedTuple):
    """Octets of the other endpoint's greeting that arrived in one read. `sent` octets of the probe's own greeting were
    sent before."""

    octets: int
    sent: int


class Attempt:
    """One connection of a probe, opened and closed by `async with`. All failures raise `PeerError` within the time
    limit.

    Times are in seconds. `settings` should have the limits of the budget.
    """

    peer: Peer
    remote: str | None = None
    """The address that was reached; None for ipc."""

    def __init__(self, endpoint: Endpoint, settings: Settings, budget: Budget, *, waits: bool = False) -> None:
        self.peer = Peer(settings, budget.started, waits=waits)
        self.events: list[PeerEvent] = []
        self.arrivals: list[Arrival] = []
        self.begin = b""
        """First octets received, at most a greeting."""
        self.closed = False
        self.connecting = 0.0
        self.greeting: float | None = None
        """Time from the connection to the end of the other endpoint's greeting, without our pauses."""
        self.answering: float | None = None
        """Time from the end of its greeting to its socket type."""
        self._endpoint = endpoint
        self._budget = budget
        self._unsent = b""
        self._sent = 0
        self._may_send: int | None = 0
        """Octets of our stream that may be sent; None for all."""
        self._paused = 0.0

    async def __aenter__(self) -> Self:
        self._budget.spend_connection()
        before = self._now()
        self._reader, self._writer = await reach(self._endpoint, max(round(self._budget.deadline - before, 2), 0.01))
        self.remote = remote_name(self._writer) if self._endpoint.path is None else None
        self.connecting = self._now() - before
        self.pause = SHORTEST_PAUSE + 2 * self.connecting
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                await self._writer.wait_closed()
        self._writer.transport.abort()

    @property
    def is_old(self) -> bool:
        """Whether the peer uses ZMTP 1.0. The signature of the probe is then a complete greeting, so messages might
        follow."""
        return self.peer.version == "1.0"

    @property
    def socket_type(self) -> str | None:
        socket_type: str | None = self.announced.get("socket_type") or self.peer.facts.get("socket_type")
        return socket_type

    @property
    def announced(self) -> Fields:
        fields: Fields = {}
        form = FORMS.get(classify(self.begin))
        if form is not None:
            with contextlib.suppress(Cut):
                READERS[form](Reader(self.begin, 0, len(self.begin), 0), fields)
        return fields

    async def greet(self) -> None:
        """Exchange greetings. The probe sends its greeting in pieces of 10, 1 and 53 octets, or only the first with
        ZMTP 1.0.

        A pause before each piece shows which octets the other endpoint sends by itself, and for which it waits. The
        peer also announces its mechanism before it receives that of the probe: many peers close silently if the
        mechanisms differ.
        """
        start = self._now()
        try:
            for stop, enough in ((SIGNATURE_SIZE, 1), (VERSION_STOP, VERSION_STOP), (None, GREETING_3_SIZE)):
                await self.receive_until(partial(self._has_received, enough), self.pause)
                if self.is_old:
                    break
                self._may_send = stop
                self._flush()
            await self.receive_until(lambda: self.has_greeted)
        finally:
            if self.has_greeted:
                self.greeting = self._now() - start - self._paused

    @property
    def has_our_mechanism(self) -> bool:
        """Whether the probe has sent its mechanism, not only its version."""
        return self._sent > VERSION_STOP

    def _has_received(self, octets: int) -> bool:
        return len(self.begin) >= octets or self.has_greeted

    @property
    def has_greeted(self) -> bool:
        """Whether the peer has sent its whole greeting; in 2.0, up to its socket type."""
        return self.peer.greeting is not None or self.socket_type is not None

    async def receive_ready(self, seconds: float) -> bool:
        """Return whether the peer announces its socket type within `seconds`, before the probe announces one."""
        start = self._now()
        heard = await self.receive_until(lambda: self.socket_type is not None or self.peer.facts, seconds)
        if heard:
            self.answering = self._now() - start
        return heard

    async def complete(self) -> None:
        start = self._now()
        await self.receive_until(lambda: self.peer.ready)
        if self.answering is None:
            self.answering = self._now() - start

    async def introduce(self, socket_type: str) -> None:
        """Announce `socket_type`, and complete the handshake. The peer object must have been created with `waits`."""
        self.peer.introduce(socket_type)
        self._flush()
        await self.complete()

    async def ping(self, context: bytes, answered: Callable[[], object], seconds: float) -> float | None:
        """Send a PING; return the seconds until its answer, or None."""
        start = self._now()
        self.peer.ping(start, context)
        self._flush()
        return self._now() - start if await self.receive_until(answered, seconds) else None

    async def receive_until(self, enough: Callable[[], object], seconds: float | None = None) -> bool:
        """Receive until `enough()` is true, for at most `seconds`, or until the deadline of the budget. Return whether
        it became true."""
        start, deadline = self._now(), self._budget.deadline
        limit = deadline if seconds is None else min(start + seconds, deadline)
        while not enough():
            if self.closed:
                return False
            try:
                async with asyncio.timeout_at(limit) as timer:
                    octets = await self._reader.read(PIECE)
            except OSError:
                if timer.expired():
                    self._paused += limit - start
                    if limit == deadline:
                        self.peer.tick(deadline)
                    return False
                octets = b""  # reset, or the network is gone
            if octets:
                self._feed(octets)
            else:
                self.closed = True
                self.peer.end()
        return True

    def _feed(self, octets: bytes) -> None:
        missing = GREETING_3_SIZE - len(self.begin)
        if missing:
            self.arrivals.append(Arrival(len(octets), self._sent))
            self.begin += octets[:missing]
            if classify(self.begin) is Class.DOUBTFUL:
                raise NotZmtp(f"the other side probably does not speak ZMTP: its first octets are {shown(self.begin)}")
        self._budget.spend_octets(len(octets))
        try:
            self.peer.receive(octets, self._now())
        finally:
            self.events += self.peer.events()
            self._flush()

    def _flush(self) -> None:
        self._unsent += self.peer.outgoing()
        count = len(self._unsent) if self._may_send is None else max(self._may_send - self._sent, 0)
        octets, self._unsent = self._unsent[:count], self._unsent[count:]
        if octets and not self._writer.is_closing():
            self._writer.write(octets)
            self._sent += len(octets)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
