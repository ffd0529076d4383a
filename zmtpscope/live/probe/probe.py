"""Identifies the peer at an endpoint, without disturbing its work.

Where possible (NULL, 2.0), the probe waits for the peer's socket type, and continues only as a type that gets no
messages from the peer. If the peer needs our type first (PLAIN, CURVE), the probe tries only harmless types. It sends
no messages and no subscriptions.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from zmtpscope.live.peer.arguments import Endpoint
from zmtpscope.live.probe.attempt import Arrival, Attempt, Budget
from zmtpscope.live.probe.fingerprints import Observed, likely
from zmtpscope.live.probe.fingerprints import Pong as Answer
from zmtpscope.records import from_text
from zmtpscope.zmtp.greeting import GREETING_3_SIZE, SIGNATURE_SIZE
from zmtpscope.zmtp.peer import (
    ClosedHalfWay,
    CurveClient,
    Limits,
    Mismatch,
    Null,
    PeerError,
    PlainClient,
    Pong,
    Security,
    Settings,
    UnfitSocketType,
)
from zmtpscope.zmtp.socket_types import PEERS

HARMLESS = {
    "PUB": "SUB",
    "XPUB": "SUB",
    "REP": "REQ",
    "ROUTER": "REQ",
    "PULL": "PUSH",
    "SUB": "PUB",
    "XSUB": "PUB",
    "DISH": "RADIO",
    "RADIO": "DISH",
    "SERVER": "CLIENT",
    "GATHER": "SCATTER",
}
"""Our socket type by the peer's, if the peer sends us no messages unasked."""

JOINING = {
    "PUSH": "PULL",
    "DEALER": "ROUTER",
    "REQ": "ROUTER",
    "PAIR": "PAIR",
    "SCATTER": "GATHER",
    "CLIENT": "SERVER",
    "PEER": "PEER",
    "CHANNEL": "CHANNEL",
}
"""Our socket type for peers that send messages to any partner, or accept only one. Used only if the user permits it."""

COMPLETE, WITHHELD, NEEDS_CREDENTIALS, FAILED = "complete", "withheld", "needs credentials", "failed"
"""Results of the handshake. WITHHELD: not completed because of possible side effects."""

UNNAMED = "REQ"
"""Our socket type for a peer that does not announce its own."""

PAUSES = 5
"""Pauses (`Attempt.pause`) to wait for optional answers: a READY before ours, a PONG."""
CONTEXT_SIZE = 8
LONG_1 = 0xFF
"""First octet of a long frame of 1.0 (wire.md 3.1)."""
LARGEST_MESSAGE = 1 << 20


@dataclass(slots=True)
class Ping:
    """Result of a PING with a random context."""

    seconds: float | None
    """Time until the PONG; None without one."""
    context_returned: bool


@dataclass(slots=True)
class Found:
    """Everything that a probe found out about a peer; None is unknown. Texts are as received from the network, without
    escapes."""

    remote: str | None = None
    """The address that was reached; None for ipc."""
    version: str | None = None
    version_in_force: str | None = None
    mechanism: str | None = None
    as_server: int | None = None
    socket_type: str | None = None
    possible_socket_types: list[str] = field(default_factory=list)
    """Socket types that are still possible, if the peer announced none and the probe excluded others."""
    identity: str | None = None
    metadata: list[dict[str, str]] | None = None
    handshake: str | None = None
    joined_as: str | None = None
    """Our socket type in the completed handshake."""
    ping: Ping | None = None
    arrivals: list[Arrival] = field(default_factory=list)
    implementation: str | None = None
    connecting: float | None = None
    greeting: float | None = None
    answering: float | None = None
    """As in `Attempt.answering`."""
    connections: int = 0
    octets: int = 0
    error: PeerError | None = None

    @property
    def unasked(self) -> int:
        """How many octets of its greeting the peer sent before the probe had sent more than a signature."""
        return sum(arrival.octets for arrival in self.arrivals if arrival.sent <= SIGNATURE_SIZE)


async def probe(
    endpoint: Endpoint, security: Security, wait: float, *, join: bool = False, ping: bool = False
) -> Found:
    """Identify the peer at an endpoint within `wait` seconds. Never raises: `Found.error` contains the failure.

    `join`: complete the handshake even if the peer may then send messages to the probe. `ping`: send a PING also to a
    peer of 3.0; libzmq before 4.2 passes it to its application as a message.
    """
    return await _Probe(endpoint, security, wait, join=join, ping=ping).run()


class _Probe:
    _last: Attempt

    def __init__(self, endpoint: Endpoint, security: Security, wait: float, *, join: bool, ping: bool) -> None:
        self.found = Found()
        self._endpoint = endpoint
        self._security = security
        self._budget = Budget(wait)
        self._limits = Limits(wait, LARGEST_MESSAGE)
        self._pings = ping
        self._partners = {**HARMLESS, **JOINING} if join else HARMLESS
        self._joins = join
        self._begin = b""
        self._facts: dict[str, Any] = {}

    async def run(self) -> Found:
        found = self.found
        try:
            await self._run()
        except PeerError as error:
            found.error = error
            if found.version is not None and found.handshake is None:
                found.handshake = FAILED
        found.connections, found.octets = self._budget.connections, self._budget.octets
        if found.version is not None:
            found.implementation = likely(self._observed())
        return found

    async def _run(self) -> None:
        try:
            if isinstance(self._security, Null):
                await self._listen()
            else:
                await self._try(self._partners.values())
        except Mismatch as error:
            if self._last.closed and not self._last.has_greeted:
                await self._search(self._last)
            if self.found.mechanism is None:
                raise
            if not isinstance(self._security, Null):
                raise _mismatch(self.found.mechanism, self._security) from error
            self.found.handshake = NEEDS_CREDENTIALS

    # -- connections ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _attempt(self, socket_type: str, security: Security, *, waits: bool = False) -> AsyncIterator[Attempt]:
        settings = Settings(socket_type, security, limits=self._limits)
        attempt = self._last = Attempt(self._endpoint, settings, self._budget, waits=waits)
        try:
            async with attempt:
                await attempt.greet()
                yield attempt
        finally:
            self._learn(attempt)

    async def _listen(self) -> None:
        """Probe a peer without security: receive its socket type first, then choose the type to announce."""
        async with self._attempt(UNNAMED, Null(), waits=True) as attempt:
            if attempt.is_old:
                self.found.handshake = WITHHELD
                return
            if await attempt.receive_ready(PAUSES * attempt.pause):
                partner = self._partners.get(attempt.socket_type or "")
                if partner is None:
                    self.found.handshake = WITHHELD
                    return
                await attempt.introduce(partner)
                await self._completed(attempt)
                return
        await self._try(self._partners.values())

    async def _try(self, candidates: Iterable[str]) -> None:
        """Try to complete a handshake as each of the socket types `candidates`, for a peer that waits for the type of
        the probe."""
        tried: list[str] = []
        waiting = list(dict.fromkeys(candidates))
        while waiting:
            tried.append(waiting.pop(0))
            try:
                async with self._attempt(tried[-1], self._security) as attempt:
                    await attempt.complete()
                    await self._completed(attempt)
                    return
            except UnfitSocketType as error:
                unfit = error
            if self.found.socket_type is not None:
                partner = self._partners.get(self.found.socket_type)
                waiting = [] if partner is None or partner in tried else [partner]
        if self.found.socket_type is None:
            self.found.possible_socket_types = [name for name in PEERS if not PEERS[name] & {*tried}]
        if self._joins:
            raise unfit
        self.found.handshake = WITHHELD

    async def _search(self, last: Attempt) -> None:
        """Find the mechanism of a peer that closed during its greeting. Sends no credentials."""
        from zmtpscope import curve_crypto  # loads libsodium, which is rarely needed here

        where = f"the other side closed during its greeting, after {len(last.begin)} octets"
        if not last.has_our_mechanism:
            raise ClosedHalfWay(f"{where} and before it received our mechanism")
        keys = curve_crypto.random_octets(32), curve_crypto.random_octets(32)
        for security in (Null(), PlainClient("", ""), CurveClient(*keys, curve_crypto)):
            if security.mechanism != self._security.mechanism and self.found.mechanism is None:
                with suppress(Mismatch):
                    async with self._attempt(UNNAMED, security, waits=True):
                        pass
        if self.found.mechanism is None:
            raise Mismatch(f"{where}, with each of the mechanisms NULL, PLAIN and CURVE")

    async def _completed(self, attempt: Attempt) -> None:
        """Store the result of the completed handshake, and send at most a PING."""
        found, peer = self.found, attempt.peer
        found.handshake, found.joined_as = COMPLETE, peer.settings.socket_type
        self._learn(attempt)
        if peer.version == "3.1" or (self._pings and peer.version == "3.0"):
            context = os.urandom(CONTEXT_SIZE)
            seconds = await attempt.ping(context, lambda: _pongs(attempt), PAUSES * attempt.pause)
            found.ping = Ping(seconds, context in _pongs(attempt))

    # -- facts ---------------------------------------------------------------------------------------------------------

    def _learn(self, attempt: Attempt) -> None:
        """Add the results of a connection to the results of earlier ones."""
        found, peer, begin = self.found, attempt.peer, attempt.begin
        greeting, facts = peer.greeting or {}, peer.facts
        self._begin = self._begin or begin
        self._facts = facts or self._facts
        found.remote = attempt.remote or found.remote
        found.version = greeting.get("version_announced") or found.version or attempt.announced.get("version_announced")
        found.version_in_force = peer.version or found.version_in_force
        found.mechanism = greeting.get("mechanism") or found.mechanism
        found.as_server = greeting.get("as_server", found.as_server)
        found.socket_type = attempt.socket_type or found.socket_type
        found.identity = facts.get("identity", found.identity)
        found.metadata = facts.get("metadata", found.metadata)
        found.arrivals = found.arrivals or attempt.arrivals
        found.connecting = attempt.connecting if found.connecting is None else found.connecting
        found.greeting = attempt.greeting if found.greeting is None else found.greeting
        found.answering = attempt.answering if found.answering is None else found.answering

    def _observed(self) -> Observed:
        found, begin = self.found, self._begin
        is_old = found.version == "1.0"
        nonce = self._facts.get("nonce")
        return Observed(
            version=found.version,
            flags=begin[9 if begin[0] == LONG_1 else 1] if is_old else None,
            padding=None if is_old else int.from_bytes(begin[1:9]),
            pieces=tuple(arrival.octets for arrival in found.arrivals),
            ahead=None if is_old else min(found.unasked, GREETING_3_SIZE),
            mechanism=found.mechanism,
            as_server=found.as_server,
            socket_type=found.socket_type,
            properties=None if found.metadata is None else tuple(each["name"] for each in found.metadata),
            identity_size=None if found.identity is None else len(from_text(found.identity)),
            pong=None if found.ping is None else _answer(found.ping),
            little_endian_nonces=None if nonce is None else nonce >= 1 << 56,
        )


def _mismatch(theirs: str, ours: Security) -> Mismatch:
    return Mismatch(f"the other side uses mechanism {theirs}, and this side {ours.mechanism}")


def _pongs(attempt: Attempt) -> list[bytes]:
    return [event.context for event in attempt.events if isinstance(event, Pong)]


def _answer(ping: Ping) -> Answer:
    if ping.seconds is None:
        return Answer.MISSING
    return Answer.ECHO if ping.context_returned else Answer.BARE
