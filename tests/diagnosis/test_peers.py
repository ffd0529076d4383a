"""A peer is one over all its connections, with the time and reason of its departure."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.diagnosis.reading import derive
from tests.diagnosis.talking import Talk, knowledge_of
from zmtpscope.diagnosis.across.peers import Peer, peers


def _peers(path: Path) -> dict[str, Peer]:
    return {peer.name: peer for peer in peers(derive(path)[0].knowledge())}


def _causes(peer: Peer) -> list[tuple[str, bool]]:
    return [(departure.ending.cause, departure.by_itself) for departure in peer.departures()]


def test_a_peer_that_returns_is_the_same(captures: Path) -> None:
    found = _peers(captures / "patterns/reconnect-after-restart.pcap")
    assert set(found) == {"10.77.0.1:5561", "10.77.0.2"}
    router, dealer = found["10.77.0.1:5561"], found["10.77.0.2"]
    assert (router.listens, router.socket_type, _causes(router)) == (True, "ROUTER", [("closed", True)] * 2)
    assert (dealer.listens, dealer.socket_type, _causes(dealer)) == (False, "DEALER", [("closed", False)] * 2)
    assert (dealer.failed, dealer.state) == (3, "gone")


def test_a_peer_that_never_connected_is_a_peer_too(captures: Path) -> None:
    (peer,) = _peers(captures / "unreachable/server-down.pcap").values()
    assert (peer.name, peer.remote, peer.state, peer.failed) == ("10.0.0.2", ("10.0.0.1", 5555), "never connected", 20)


@pytest.mark.parametrize(
    ("name", "cause", "by_itself"),
    [
        ("security/plain-refused-4.3.5.pcap", "error", False),
        ("security/plain-no-zap-handler.pcap", "handshake", True),
        ("faults/frame-length-2p63.pcap", "violation", True),
    ],
)
def test_why_the_server_and_its_clients_parted(captures: Path, name: str, cause: str, by_itself: bool) -> None:
    server = next(peer for peer in _peers(captures / name).values() if peer.listens)
    assert _causes(server)[0] == (cause, by_itself)
    assert {cause for cause, _ in _causes(server)} == {cause}


def test_a_connection_that_failed_is_of_the_peer_that_is_known() -> None:
    talks = [Talk(0).handshake("DEALER", "ROUTER", "worker-1").close(), Talk(1).greet(1).wait(2).close()]
    (peer,) = [peer for peer in peers(knowledge_of(*talks)) if not peer.listens]
    assert (peer.name, len(peer.connections), peer.failed) == ("worker-1", 2, 1)


@given(st.lists(st.sampled_from(["worker-1", "worker-2"]), min_size=1, max_size=6))
def test_an_identity_is_one_peer_however_often_it_connects(names: list[str]) -> None:
    talks = [Talk(number).handshake("DEALER", "ROUTER", identity=name).close() for number, name in enumerate(names)]
    found = {peer.name: len(peer.connections) for peer in peers(knowledge_of(*talks)) if not peer.listens}
    assert found == {name: names.count(name) for name in names}


@pytest.mark.parametrize("name", ["heartbeat-timeout", "heartbeat-ttl-over"])
def test_a_peer_that_gave_up_because_it_received_nothing(captures: Path, name: str) -> None:
    causes = {cause for peer in _peers(captures / f"problems/{name}.pcap").values() for cause, _ in _causes(peer)}
    assert "heartbeat" in causes
