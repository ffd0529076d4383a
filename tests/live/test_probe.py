"""Results of a probe for peers that libzmq no longer has: old versions, draft socket types, slow ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.peer_octets import GREETING, command, ready
from tests.peers import SECURITY
from tests.scripted import Script, handshake, receive, served
from zmtpscope.live import bind
from zmtpscope.live.peer.arguments import parse_endpoint
from zmtpscope.live.probe.attempt import MAX_CONNECTIONS, Attempt, Budget
from zmtpscope.live.probe.probe import COMPLETE, HARMLESS, JOINING, NEEDS_CREDENTIALS, WITHHELD, Found, probe
from zmtpscope.zmtp.peer import (
    Null,
    Security,
    Settings,
    Subscription,
    UnfitSocketType,
    Violation,
)
from zmtpscope.zmtp.socket_types import DRAFT, PEERS, may_meet

Report = Callable[..., None]


def find(socket_type: str, client: Security | None = None, report: Report | None = None, **given: Any) -> Found:
    options = {name: given.pop(name) for name in ("join", "ping") if name in given}

    async def run() -> Found:
        async with bind("tcp://127.0.0.1:0", socket_type, report=report, **given) as bound:
            return await probe(bound.endpoint, client or Null(), 2.0, **options)

    return asyncio.run(run())


def find_scripted(script: Script) -> Found:
    with served(script) as endpoint:
        return asyncio.run(probe(parse_endpoint(endpoint), Null(), 2.0))


def test_1_0_gets_no_subscription() -> None:
    happened: list[object] = []
    found = find("PUSH", version="1.0", report=lambda remote, what: happened.append(what))
    assert (found.version, found.socket_type, found.handshake, found.error) == ("1.0", None, WITHHELD, None)
    assert found.connections == 1
    assert [arrival.sent for arrival in found.arrivals] == [0]
    assert not any(hasattr(what, "version") for what in happened)  # it was never ready


@pytest.mark.parametrize("identity", ["me", "m" * 254])
def test_1_0_with_an_identity(identity: str) -> None:
    found = find("ROUTER", version="1.0", identity=identity)
    assert (found.version, found.identity, found.error) == ("1.0", identity, None)
    assert "libzmq 2.2 to 3.1" in str(found.implementation)


@pytest.mark.parametrize("socket_type", sorted(PEERS.keys() - DRAFT))
def test_2_0_announces_its_socket_type_in_the_greeting(socket_type: str) -> None:
    found = find(socket_type, version="2.0", identity="me")
    assert (found.version, found.mechanism, found.error) == ("2.0", None, None)
    assert found.socket_type == socket_type
    if socket_type in HARMLESS:
        assert (found.handshake, found.identity, found.version_in_force) == (COMPLETE, "me", "2.0")
    else:
        assert (found.handshake, found.joined_as) == (WITHHELD, None)
    assert found.ping is None


@pytest.mark.parametrize("version", ["3.0", "3.1"])
def test_ping_only_where_it_is_understood(version: str) -> None:
    assert (find("PUB", version=version).ping is None) is (version == "3.0")
    asked = find("PUB", version=version, ping=True).ping
    assert asked is not None
    assert asked.seconds is not None
    assert asked.context_returned


@pytest.mark.parametrize("mechanism", SECURITY)
@pytest.mark.parametrize("socket_type", sorted(PEERS))
def test_every_socket_type_and_mechanism(socket_type: str, mechanism: str) -> None:
    client, server = SECURITY[mechanism]
    found = find(socket_type, client, security=server)
    assert found.error is None
    assert found.mechanism == mechanism
    if socket_type in HARMLESS:
        assert (found.socket_type, found.handshake) == (socket_type, COMPLETE)
        assert found.ping is not None
    else:
        assert found.handshake == WITHHELD
        assert socket_type in [found.socket_type, *found.possible_socket_types]
    joined = find(socket_type, client, security=server, join=True)
    assert (joined.socket_type, joined.handshake, joined.error) == (socket_type, COMPLETE, None)
    assert may_meet(socket_type, str(joined.joined_as))


def test_the_table_of_partners() -> None:
    assert {*HARMLESS} | {*JOINING} == {*PEERS}
    assert not {*HARMLESS} & {*JOINING}
    assert all(may_meet(theirs, ours) for theirs, ours in {**HARMLESS, **JOINING}.items())
    assert len({*HARMLESS.values(), *JOINING.values()}) < MAX_CONNECTIONS


@pytest.mark.parametrize("mechanism", ["PLAIN", "CURVE"])
def test_without_credentials(mechanism: str) -> None:
    found = find("PUB", security=SECURITY[mechanism][1])
    assert (found.mechanism, found.handshake, found.error) == (mechanism, NEEDS_CREDENTIALS, None)
    assert found.connections == 1
    assert found.as_server == 1


def test_a_subscriber_sends_its_subscriptions_to_no_other_peer() -> None:
    received: list[object] = []
    find("XPUB", report=lambda remote, what: received.append(what))
    assert not [what for what in received if isinstance(what, Subscription)]


def test_no_type_fits_where_all_are_tried() -> None:
    def script(connection: Any) -> None:
        connection.sendall(GREETING)
        receive(connection, 64)
        connection.recv(1000)

    with served(script) as endpoint:
        found = asyncio.run(probe(parse_endpoint(endpoint), Null(), 2.0, join=True))
    assert isinstance(found.error, UnfitSocketType)
    assert found.connections <= MAX_CONNECTIONS


def test_a_greeting_in_one_piece() -> None:
    found = find_scripted(lambda connection: (connection.sendall(GREETING + ready("PUSH")), connection.recv(100)))
    assert found.unasked >= 64
    assert (found.socket_type, found.handshake) == ("PUSH", WITHHELD)


def test_a_socket_type_that_is_not_announced() -> None:
    found = find_scripted(
        lambda connection: (connection.sendall(GREETING + command("NULL", "READY")), connection.recv(100))
    )
    assert (found.socket_type, found.handshake, found.error) == (None, WITHHELD, None)


def test_errors_after_the_handshake() -> None:
    def script(connection: Any) -> None:
        handshake(connection, "PUB")
        connection.sendall(b"\x02\x80" + bytes(7))
        connection.recv(100)

    found = find_scripted(script)
    assert isinstance(found.error, Violation)
    assert (found.socket_type, found.handshake) == ("PUB", COMPLETE)


def test_a_budget_ends() -> None:
    async def run() -> None:
        budget = Budget(1.0)
        for _ in range(MAX_CONNECTIONS):
            budget.spend_connection()
        with pytest.raises(Violation, match="20 connections were not enough to identify it"):
            async with Attempt(parse_endpoint("tcp://127.0.0.1:1"), Settings("REQ"), budget):
                pass

    asyncio.run(run())
