"""ZRE on several connections: pairs of nodes, and consistency of their connections and beacons (zre.md 7, 9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dissect.zre_nodes import EVERYBODY, MAILBOX, SECOND, START, Node, say
from tests.payloads import zre
from tests.peer_octets import message
from tests.traffic import Capture, Conversation, Datagram, Packet, records, together
from zmtpscope.dissect import Analyser, Options
from zmtpscope.dissect.findings.comparison import Comparison
from zmtpscope.dissect.findings.zre import MAX_NODES, MAX_WAITING
from zmtpscope.payloads.registry import Registry
from zmtpscope.payloads.zre.node_state import MAX_GROUPS

Parts = tuple[Conversation | Datagram, ...]
Record = dict[str, Any]


def records_of(*parts: Conversation | Datagram, size: int = 1 << 30) -> list[Record]:
    options = Options(payloads=Registry())
    return records(Capture(together(*parts), size), options)[0]


def ids(found: list[Record]) -> list[str]:
    """Return the ids of the findings about ZRE, except normal ones."""
    findings = [record for record in found if record["record"] == "finding" and record["id"].startswith("ZRE")]
    return [record["id"] for record in findings if record["severity"] != "chat"]


def pair() -> tuple[Node, Node, Conversation, Conversation]:
    one, other = Node(0, ("CHAT",)), Node(1, ("CHAT",))
    return one, other, one.connect(other), other.connect(one, 2_000_000)


def test_the_two_connections_of_a_pair_are_one_relation() -> None:
    one, other, ahead, back = pair()
    found = records_of(one.beacon(0), other.beacon(1), ahead, back)
    (record,) = [record for record in found if record["record"] == "zre_pair"]
    first, second = (record for record in found if record["record"] == "connection")
    assert (record["name_0"], record["name_1"]) == ("A", "B")
    assert (record["uuid_0"], record["uuid_1"]) == (one.uuid.hex().upper(), other.uuid.hex().upper())
    assert (record["conn_id_0"], record["conn_id_1"]) == (first["conn_id"], second["conn_id"])
    assert (record["endpoint_0"], record["endpoint_1"]) == (one.endpoint, other.endpoint)
    hello = next(r for r in found if r["record"] == "message" and r["conn"] == 2)
    assert record["ts_ns"] == hello["ts_ns"]
    assert record["discovery_ns"] == hello["ts_ns"] - next(r for r in found if r["record"] == "datagram")["ts_ns"]
    assert ids(found) == []


def test_pairs_are_found_without_beacons() -> None:
    """The HELLO of each contains its endpoint."""
    _, _, ahead, back = pair()
    (record,) = [record for record in records_of(ahead, back) if record["record"] == "zre_pair"]
    assert record["discovery_ns"] is None


def test_a_pair_is_reported_once_and_again_for_new_connections() -> None:
    one, other, ahead, back = pair()
    for talk in (ahead, back):
        talk.wait(SECOND)
        talk.close()
    again = one.connect(other, 3 * SECOND), other.connect(one, 3 * SECOND + 2_000_000)
    pairs = [record for record in records_of(ahead, back, *again) if record["record"] == "zre_pair"]
    assert [(record["conn_0"], record["conn_1"]) for record in pairs] == [(1, 2), (3, 4)]


def one_sided() -> Parts:
    one, other = Node(0), Node(1)
    talk = one.connect(other)
    say(talk, zre.ping(2), after=6 * SECOND)
    say(talk, zre.whisper(3), b"x")
    return one.beacon(0), other.beacon(1), talk


def unanswered() -> Parts:
    _, _, ahead, back = pair()
    say(ahead, zre.ping(2))
    say(back, zre.whisper(2), b"x", after=40 * SECOND)
    return ahead, back


def router_talks() -> Parts:
    _, _, ahead, back = pair()
    ahead.send(1, b"\x00\x02hi")
    return ahead, back


def other_port() -> Parts:
    one, other = Node(0), Node(1)
    return one.beacon(0, MAILBOX + 1), other.beacon(1), one.connect(other), other.connect(one, 2_000_000)


def shout_past() -> Parts:
    _, _, ahead, back = pair()
    say(ahead, zre.shout(2, "NEWS"), b"x", after=2 * SECOND)
    return ahead, back


def join_once() -> Parts:
    one, _, ahead, back = pair()
    third = Node(2)
    say(ahead, zre.join(2, "NEWS", 1), after=SECOND)
    say(ahead, zre.whisper(3), b"x", after=2 * SECOND)
    return ahead, back, one.connect(third, 4_000_000), third.connect(one, 8_000_000)


def two_addresses() -> Parts:
    one = Node(0)
    return one.beacon(0), one.beacon(SECOND, address=bytes([10, 0, 0, 77])), one.connect(Node(1))


def two_ports() -> Parts:
    one = Node(0)
    ports = MAILBOX, MAILBOX + 1, MAILBOX, MAILBOX + 1
    return *(one.beacon(time * SECOND, port) for time, port in enumerate(ports)), Node(1).connect(one)


def fallen_silent() -> Parts:
    one, other = Node(0), Node(1)
    beacons = [other.beacon(time * SECOND) for time in range(40)]
    return one.beacon(0), one.beacon(SECOND), *beacons, one.connect(other), other.connect(one, 2_000_000)


def nobody_comes() -> Parts:
    one = Node(0)
    return tuple(one.beacon(time * SECOND) for time in range(8))


def two_versions() -> Parts:
    return Node(0).beacon(0), Node(1).beacon(1, version=3)


BROKEN: dict[str, Callable[[], Parts]] = {
    "ZRE-09": router_talks,
    "ZRE-11": unanswered,
    "ZRE-12": one_sided,
    "ZRE-17": other_port,
    "ZRE-19": shout_past,
    "ZRE-21": join_once,
    "ZRE-BEACON-05": two_addresses,
    "ZRE-BEACON-06": fallen_silent,
    "ZRE-BEACON-07": nobody_comes,
    "ZRE-BEACON-08": two_versions,
}


@pytest.mark.parametrize("id_", BROKEN)
def test_each_violation_is_reported_once(id_: str) -> None:
    assert ids(records_of(*BROKEN[id_]())) == [id_]


def test_ports_that_alternate_are_two_nodes_with_one_uuid() -> None:
    assert ids(records_of(*two_ports())) == ["ZRE-BEACON-05"]


def test_correct_nodes_have_no_findings() -> None:
    """The correct counterparts of the faults: answered, joined everywhere, left with a farewell."""
    one, other, ahead, back = pair()
    say(ahead, zre.ping(2))
    say(back, zre.ping_ok(2))
    say(ahead, zre.shout(3, "CHAT"), b"x")
    say(back, zre.leave(3, "CHAT", 1))
    say(ahead, zre.shout(4, "CHAT"), b"was under way")
    say(ahead, zre.whisper(5), b"x", after=40 * SECOND)
    beacons = [node.beacon(time * SECOND) for node in (one, other) for time in range(3)]
    farewells = [node.beacon(4 * SECOND, 0) for node in (one, other)]
    assert ids(records_of(*beacons, *farewells, ahead, back)) == []


def test_a_join_that_every_peer_gets_is_no_finding() -> None:
    one, _, ahead, back = pair()
    third = Node(2)
    more = one.connect(third, 4_000_000)
    say(ahead, zre.join(2, "NEWS", 1), after=SECOND)
    say(more, zre.join(2, "NEWS", 1), after=SECOND)
    say(ahead, zre.whisper(3), b"x", after=2 * SECOND)
    assert ids(records_of(ahead, back, more, third.connect(one, 8_000_000))) == []


@pytest.mark.parametrize("id_", BROKEN)
@given(size=st.integers(1, 12))
def test_p1_blocks_of_any_size_give_the_same_records(id_: str, size: int) -> None:
    parts = BROKEN[id_]()
    assert records_of(*parts, size=size) == records_of(*parts)


def test_p2_the_order_in_which_nodes_are_met_changes_no_sentence() -> None:
    """A beacon after the connections identifies their node."""
    one, other, ahead, back = pair()
    late = records_of(ahead, back, one.beacon(SECOND), other.beacon(SECOND + 1))
    early = records_of(one.beacon(0), other.beacon(1), ahead, back)
    for found in (late, early):
        (record,) = [record for record in found if record["record"] == "zre_pair"]
        assert (record["name_0"], record["name_1"]) == (one.name, other.name)


def test_hostile_networks_are_remembered_within_bounds() -> None:
    """A flood of beacons of new nodes: memory and the number of findings are bounded."""
    start, anybody = 1_700_000_000_000_000_000, (bytes(4), 5670)
    flood = [Datagram(zre.beacon(n.to_bytes(16, "big")), start + n, anybody, anybody) for n in range(10_000)]
    found, analyser = records(Capture(flood, 500), Options(payloads=Registry()))
    assert sum(record["record"] == "datagram" for record in found) == 10_000
    assert analyser.comparison is not None
    network = analyser.comparison.network
    assert len(network.nodes) <= 4096
    assert len(network.owners) <= 4096
    assert sum(record["record"] == "finding" for record in found) < 50


def anybody(number: int, time: int) -> Datagram:
    address = bytes([10, 1, number >> 8 & 255, number & 255])
    return Datagram(zre.beacon(number.to_bytes(16, "big")), START + time, (address, 5670), (EVERYBODY, 5670))


@pytest.mark.parametrize("again", [False, True], ids=["forgotten", "met again"])
def test_a_check_may_wait_for_a_forgotten_node(again: bool) -> None:
    """A JOIN waits for other connections while thousands of new nodes appear."""
    one, other, third = Node(0), Node(1), Node(2)
    ahead, more = one.connect(other), one.connect(third, 4_000_000)
    say(ahead, zre.join(2, "NEWS", 1), after=SECOND)
    flood = [anybody(number, SECOND + 500_000_000 + number) for number in range(100, 100 + MAX_NODES)]
    if again:
        say(ahead, zre.join(3, "MORE", 2), after=SECOND - 100_000_000)
    say(ahead, zre.whisper(4), b"x", after=5 * SECOND)
    found = records_of(ahead, more, *flood)
    assert sum(record["record"] == "datagram" for record in found) == MAX_NODES


def still(*parts: Conversation | Datagram) -> list[Packet | Datagram]:
    """Give all packets the same time, so that nothing that waits is evaluated."""
    return [replace(packet, time=START) for packet in together(*parts)]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["JOIN", "PING", "LEAVE"])
def test_open_checks_of_a_node_are_bounded(command: str) -> None:
    ahead, more = Node(0).connect(Node(1)), Node(0).connect(Node(2), 4_000_000)
    made: dict[str, Callable[[int], bytes]] = {
        "JOIN": lambda number: zre.join(number + 2, f"G{number}", number % 256),
        "LEAVE": lambda number: zre.leave(number + 2, f"G{number}", number % 256),
        "PING": lambda number: zre.ping(number + 2),
    }
    ahead.send(0, b"".join(message(made[command](number)) for number in range(MAX_WAITING + 1000)))
    _, analyser = records(Capture(still(ahead, more)), Options(payloads=Registry()))
    assert analyser.comparison is not None
    network = analyser.comparison.network
    assert sum(map(len, network.pings.values())) <= MAX_WAITING
    for node in network.nodes.values():
        assert len(node.changes) <= MAX_WAITING
        assert len(node.left) <= MAX_GROUPS
        assert len(node.groups or ()) <= MAX_GROUPS


class Stranger(Node):
    def __init__(self, number: int) -> None:
        super().__init__(number % 6)
        self.uuid = number.to_bytes(16, "big")
        self.address = bytes([10, 9, number >> 8, number & 255])
        self.endpoint = f"tcp://10.9.{number >> 8}.{number & 255}:{MAILBOX}"


@pytest.mark.slow
def test_a_hello_costs_the_same_however_many_nodes_there_are() -> None:
    def spent(nodes: int) -> float:
        """Return the time to evaluate 500 HELLOs of one node, when `nodes` nodes have connected to it and to two
        others."""
        hub = Node(0)
        first = [Stranger(1000 + number).connect(hub, number) for number in range(nodes)]
        talk = hub.connect(Node(1), SECOND)
        for _ in range(500):
            say(talk, zre.hello("A", endpoint=hub.endpoint))
        options = Options(payloads=Registry())
        comparison = Comparison(options)
        for batch in Analyser(options, comparing=False).run(Capture(together(*first))):
            comparison.evaluate(batch.facts)
        facts = [batch.facts for batch in Analyser(options, comparing=False).run(Capture(together(talk)))]
        begin = process_time()
        for some in facts:
            comparison.evaluate(some)
        return process_time() - begin

    assert min(spent(800) for _ in range(2)) < 4 * min(spent(50) for _ in range(3))
