"""Check `live.probe.fingerprints` with captures of known implementations.

The facts about a side are read from real captures (captures/README.md) as a probe would see them: greeting and commands
from the records of the analyser, the pieces of the greeting from the packets.
"""

from __future__ import annotations

import functools
import json
import pathlib
import re
from typing import Any, NamedTuple

import pytest

from tests.readings import CAPTURES, EVERY_CAPTURE, Record, read
from zmtpscope.capture import open_captures
from zmtpscope.capture.segments import PACKET_MASK
from zmtpscope.live.probe.fingerprints import TABLE, Fingerprint, Observed, Pong, fitting, likely
from zmtpscope.records import from_text

AS_A_PROBE_SEES_IT = ("greeting-3x", "greeting-2", "frames-1")
"""Forms of a greeting; the others occur only between a newer and an older side."""
HEALTHY = ("implementations", "patterns", "security", "versions")
"""Folders of captures in which both sides are real and nothing was changed afterwards."""
SIGNATURE_SIZE = 10
HOSTS = {"10.77.0.1": "A", "10.77.0.2": "B", "127.0.0.1": ""}
"""Names of the hosts in truth files, for captures with two hosts."""

Flow = tuple[str, int, str, int]


class Segment(NamedTuple):
    """Octets that one side sent in one packet."""

    packet: int
    octets: bytes


@functools.cache
def segments(path: pathlib.Path) -> dict[bytes, list[Segment]]:
    """Return the octets of each flow, by source, destination and their ports as in packets, without repetitions."""
    sent: dict[bytes, list[Segment]] = {}
    seen = set()
    for block in open_captures([str(path)]):
        for row in range(len(block)):
            key = block.keys[block.flows[row]]
            octets = block.data[block.starts[row] : block.stops[row]]
            place = (key, int(block.sequences[row]))
            if octets and place not in seen:
                seen.add(place)
                sent.setdefault(key, []).append(Segment(int(block.packets[row]) & PACKET_MASK, octets))
    return sent


def key_of(record: Record) -> tuple[bytes, bytes]:
    """Return the flow of the sender of a record over IPv4, and the opposite flow."""
    source, destination = (
        bytes(map(int, record[name].split("."))) if "." in record[name] else b"" for name in ("src_ip", "dst_ip")
    )
    there, back = (record[name].to_bytes(2, "big") for name in ("src_port", "dst_port"))
    return source + destination + there + back, destination + source + back + there


def from_packet(sent: list[Segment], packet: int) -> list[Segment]:
    return [segment for segment in sent if segment.packet >= packet]


def pieces_of(sent: list[Segment], size: int) -> tuple[int, ...]:
    """Return the sizes of the segments up to the one that contains the last of the first `size` octets."""
    sizes: list[int] = []
    for segment in sent:
        if sum(sizes) >= size:
            break
        sizes.append(len(segment.octets))
    return tuple(sizes)


def ahead_of(mine: list[Segment], others: list[Segment], size: int) -> int | None:
    """Count the octets, of the first `size`, that were sent before the other side sent more than a signature."""
    received = 0
    for segment in others:
        received += len(segment.octets)
        if received > SIGNATURE_SIZE:
            return min(size, sum(len(each.octets) for each in mine if each.packet < segment.packet))
    return None


def pong_of(commands: list[Record], side: int) -> Pong | None:
    """Return the answer to the first PING with a context. A missing PONG in a capture shows nothing."""
    pings = [each for each in commands if each["name"] == "PING" and each["side"] != side and each["context"]]
    pongs = [each for each in commands if each["name"] == "PONG" and each["side"] == side]
    if not pings or not pongs:
        return None
    return Pong.ECHO if pongs[0]["context"] == pings[0]["context"] else Pong.BARE


def of_ready(commands: list[Record]) -> dict[str, Any]:
    """Return the facts that READY or INITIATE of a side shows, encrypted or not."""
    facts: dict[str, Any] = {}
    for command in commands:
        if command["name"] in ("READY", "INITIATE") and command["metadata"] is not None:
            facts["properties"] = tuple(each["name"] for each in command["metadata"])
            facts["socket_type"] = command["socket_type"]
            if command["identity"] is not None:
                facts["identity_size"] = len(from_text(command["identity"]))
        if command["name"] in ("READY", "INITIATE") and command["nonce"] is not None:
            facts["little_endian_nonces"] = command["nonce"] >= 1 << 32
    return facts


def observed_of(path: pathlib.Path, greeting: Record) -> Observed:
    side, conn = greeting["side"], greeting["conn"]
    on_connection = [each for each in read(path).of("command") if each["conn"] == conn]
    commands = [each for each in on_connection if each["side"] == side]
    greetings = [each for each in read(path).of("greeting") if each["conn"] == conn]
    key, back = key_of(greeting)
    mine = from_packet(segments(path)[key], greeting["packet"])
    others = [
        segment
        for other in greetings
        if other["side"] != side
        for segment in from_packet(segments(path).get(back, []), other["packet"])
    ]
    start = b"".join(segment.octets for segment in mine)[:SIGNATURE_SIZE]
    facts: dict[str, Any] = {"version": greeting["version_announced"]}
    if greeting["form"] == "frames-1":
        facts["flags"] = start[1]
    else:
        facts |= {
            "padding": int.from_bytes(start[1:9], "big"),
            "pieces": pieces_of(mine, greeting["length"]),
            "ahead": ahead_of(mine, others, greeting["length"]),
            "mechanism": greeting["mechanism"],
            "as_server": greeting["as_server"],
        }
    if greeting["form"] == "greeting-2":
        facts |= {"socket_type": greeting["socket_type"], "identity_size": len(from_text(greeting["identity"]))}
    facts |= of_ready(commands)
    both_newest = {each["version_announced"] for each in greetings} == {"3.1"}
    if both_newest and any(command["name"] == "SUBSCRIBE" for command in commands):
        facts["subscription_commands"] = True
    if greeting["mechanism"] == "PLAIN":
        for name, fact in (("HELLO", "misspelt_hello"), ("ERROR", "misspelt_error")):
            for command in commands:
                if command["name"] == name:
                    facts[fact] = bool(command["mangled"])
    return Observed(pong=pong_of(on_connection, side), **facts)


class Side(NamedTuple):
    """One side of a connection in a capture, and its true implementation."""

    where: str
    observed: Observed
    implementation: str
    release: str


BY_PORT = {
    "implementations/azmq-req": {6501: ("azmq (Python)", "1.0.6")},
    "implementations/jeromq-dealer": {6301: ("JeroMQ", "0.3.6")},
    "implementations/zmq4-push": {6605: ("zmq4 (Go)", "")},
    "patterns/broker-mixed-versions": {5591: ("libzmq", "4.3.5"), 5590: ("libzmq", "4.0.10")},
}
"""The connecting program by port, if the two sides differ by more than their hosts."""

BOTH = {
    "implementations/jeromq-pubsub": ("JeroMQ", "0.3.6"),
    "implementations/zre-pyre": ("libzmq", "4.3.5"),
    "implementations/zre-zyre": ("libzmq", "4.3.4"),
}

ONE_SIDE_IS_SCRIPTED = ("faults/as-server-2", "faults/ping-with-ttl-and-context", "faults/subscribe-twice")
"""B is a script, A a real libzmq."""


def truth(name: str, made: str, greeting: Record) -> tuple[str, str] | None:
    """Return the implementation and release that sent a greeting, from the truth file's description of the capture."""
    if name in BOTH:
        return BOTH[name]
    connecting = BY_PORT.get(name, {}).get(greeting["dst_port"])
    if connecting is not None:
        return connecting
    host = HOSTS.get(greeting["src_ip"], "")
    if name in ONE_SIDE_IS_SCRIPTED and host != "A":
        return None
    named = dict(re.findall(r"(\w*) ?libzmq (\d+\.\d+\.\d+)", made))
    return ("libzmq", named[host]) if host in named else ("libzmq", next(iter(named.values())))


def known_sides() -> list[Side]:
    """Return every side of the captures with a known implementation and with the greeting that a probe would
    receive."""
    sides = []
    for path in EVERY_CAPTURE:
        name = f"{path.parent.name}/{path.stem}"
        if path.parent.name not in HEALTHY and name not in ONE_SIDE_IS_SCRIPTED:
            continue
        made = json.loads(path.with_suffix(".truth.json").read_text())["made"]
        for greeting in read(path).of("greeting"):
            who = truth(name, made, greeting) if greeting["form"] in AS_A_PROBE_SEES_IT else None
            if who is not None and "." in greeting["src_ip"]:
                where = f"{name}/{greeting['conn']}.{greeting['side']}"
                sides.append(Side(where, observed_of(path, greeting), *who))
    return sides


SIDES = known_sides()


def has(row: Fingerprint, side: Side) -> bool:
    """Whether a row describes the true implementation and release of a side."""

    def number(release: str) -> list[int]:
        return [int(part) for part in release.split(".")]

    if row.implementation != side.implementation:
        return False
    if not row.first:
        return True
    release = number(side.release)
    return number(row.first) <= release[: len(number(row.first))] and (
        not row.last or release[: len(number(row.last))] <= number(row.last)
    )


@pytest.mark.parametrize("side", SIDES, ids=lambda side: side.where)
def test_the_true_implementation_is_named(side: Side) -> None:
    """The true row is among the matching ones: a guess may be wide, but not wrong."""
    assert [row for row in fitting(side.observed) if has(row, side)]


def test_the_captures_show_what_the_table_distinguishes() -> None:
    known = {(side.implementation, side.release) for side in SIDES}
    assert known >= {
        *(("libzmq", each) for each in ("2.2.0", "3.2.5", "4.0.10", "4.1.8", "4.2.5", "4.3.4", "4.3.5", "4.3.6")),
        ("JeroMQ", "0.3.6"),
        ("azmq (Python)", "1.0.6"),
        ("zmq4 (Go)", ""),
    }


ANNOUNCING_3_0 = "libzmq 4.0.0 to 4.3.2, JeroMQ 0.4.1 or newer or NetMQ 4.0.1 or newer"


@pytest.mark.parametrize(
    ("capture", "port", "words"),
    [
        ("versions/dealerrouter-id-bind2.2.0-conn2.2.0", 5556, "libzmq 2.0 or libzmq 2.2 to 3.1"),
        ("versions/reqrep-bind3.2.5-conn3.2.5", 5555, "libzmq 3.2, JeroMQ 0.3.6 to 0.4.0 or NetMQ 4.0.0"),
        ("versions/reqrep-bind4.0.10-conn4.3.5", 5555, ANNOUNCING_3_0),
        ("versions/pubsub-bind4.3.5-conn4.3.5", 5558, "libzmq 4.3.3 or newer"),
        ("security/curve-4.0.10", 5570, "libzmq 4.0.0 to 4.0.10"),
        ("security/curve-4.3.5", 5570, "libzmq 4.3.3 or newer"),
        ("security/gssapi", 5579, "libzmq 4.1.0 to 4.3.2"),
        ("security/plain-refused-4.1.8", 5570, "libzmq 4.0.0 to 4.2.5 or JeroMQ 0.4.1 or newer"),
        ("security/plain-refused-4.3.5", 5570, "libzmq 4.3.3 or newer"),
        ("patterns/client-server", 5900, "libzmq 4.3.3 or newer"),
        ("patterns/metadata", 5906, "libzmq 4.3.3 or newer"),
    ],
)
def test_fingerprints_of_binding_peers(capture: str, port: int, words: str) -> None:
    path = CAPTURES / f"{capture}.pcap"
    greeting = next(each for each in read(path).of("greeting") if each["src_port"] == port)
    assert likely(observed_of(path, greeting)) == words


@pytest.mark.parametrize(
    ("capture", "words"),
    [
        ("implementations/azmq-req", "azmq (Python)"),
        ("implementations/zmq4-push", "zmq4 (Go) or zeromq (Rust)"),
        ("implementations/jeromq-dealer", "libzmq 3.2, JeroMQ 0.3.6 to 0.4.0 or NetMQ 4.0.0"),
    ],
)
def test_fingerprints_of_connecting_peers(capture: str, words: str) -> None:
    path = CAPTURES / f"{capture}.pcap"
    greeting = next(each for each in read(path).of("greeting") if each["side"] == 0)
    assert likely(observed_of(path, greeting)) == words


LIBZMQ_3_0 = Observed("3.0", padding=1, mechanism="NULL")


@pytest.mark.parametrize(
    ("pong", "words"),
    [
        (Pong.MISSING, "libzmq 4.0.0 to 4.1.8, JeroMQ 0.4.1 to 0.4.3 or libzmtp (C)"),
        (Pong.BARE, "libzmq 4.2.0 to 4.2.5"),
        (Pong.ECHO, "libzmq 4.3.0 to 4.3.2, JeroMQ 0.5.0 or newer or NetMQ 4.0.1 or newer"),
    ],
)
def test_an_answer_to_ping_identifies_peers_that_announce_3_0(pong: Pong, words: str) -> None:
    assert likely(LIBZMQ_3_0._replace(pong=pong)) == words


@pytest.mark.parametrize(
    ("observed", "words"),
    [
        (Observed("1.0", flags=0x7E), "libzmq 2.1"),
        (Observed("1.0", flags=0x7F), "libzmq 2.1"),
        (Observed("3.0", padding=1, mechanism="PLAIN", misspelt_hello=True), "libzmq 4.3.0 to 4.3.1"),
        (Observed("3.0", padding=1, mechanism="PLAIN", misspelt_error=True), "libzmq 4.3.0 to 4.3.2"),
        (LIBZMQ_3_0._replace(properties=()), "libzmtp (C)"),
        (LIBZMQ_3_0._replace(socket_type="CHANNEL", properties=("Socket-Type",)), "JeroMQ 0.5.0 or newer"),
        (Observed("3.1", padding=0, properties=("Socket-Type", "Identity", "Resource")), "chumak (Erlang)"),
        (Observed("3.1", padding=0, ahead=64), "chumak (Erlang)"),
        (Observed("3.1", padding=0, identity_size=0), "chumak (Erlang)"),
        (Observed("3.1", padding=0, subscription_commands=False), "azmq (Python)"),
        (Observed("3.0", padding=0, mechanism="PLAIN"), "zmq4 (Go)"),
        (Observed("3.0", padding=0, socket_type="PUSH", properties=("Socket-Type",)), "zeromq (Rust)"),
        (Observed("3.0", padding=0, identity_size=36, properties=("Identity", "Socket-Type", "X-Build")), "zmq4 (Go)"),
    ],
)
def test_one_fact_can_be_enough(observed: Observed, words: str) -> None:
    assert likely(observed) == words


@pytest.mark.parametrize(
    "observed",
    [
        Observed(),
        Observed("4.0", padding=1),
        Observed("3.1", padding=1, ahead=64),
        Observed("3.1", padding=5, identity_size=0),
        Observed("3.0", padding=0, identity_size=0),
        Observed("3.1", padding=1, as_server=1),
        Observed("3.1", padding=1, socket_type="PUB", properties=("socket-type",)),
        Observed("3.1", padding=1, socket_type="PUB", properties=("Socket-Type", "Identity")),
        Observed("3.1", padding=1, mechanism="CURVE2"),
    ],
    ids=[
        "nothing is known",
        "a version that nobody announces",
        "libzmq waits for the octets of the other side",
        "the padding is that of another identity",
        "an empty identity from those that make one up or send none",
        "libzmq never says that it is the server",
        "libzmq writes Socket-Type",
        "a PUB of libzmq sends no Identity",
        "a mechanism that nobody has",
    ],
)
def test_nothing_fits(observed: Observed) -> None:
    assert likely(observed) is None


def test_pieces_put_an_implementation_first_and_rule_none_out() -> None:
    """Octets can be joined or split on their way: 64 octets written at once may arrive in pieces."""
    joined = Observed("3.1", padding=0, pieces=(64,))
    assert likely(joined) == "azmq (Python) or chumak (Erlang)"
    assert [row.implementation for row in fitting(joined._replace(pieces=(10, 54)))] == [
        "azmq (Python)",
        "chumak (Erlang)",
    ]
    other_cut = Observed("3.0", padding=1, mechanism="NULL", pieces=(7, 57))
    assert likely(other_cut) == likely(other_cut._replace(pieces=()))
    ended_like_libzmtp = other_cut._replace(pieces=(10, 2, 52))
    assert fitting(ended_like_libzmtp)[0].implementation == "libzmtp (C)"
    assert set(fitting(ended_like_libzmtp)) == set(fitting(other_cut))


def test_every_row_fits_its_own_description() -> None:
    """No row contradicts itself, and each has a source."""
    for row in TABLE:
        facts = Observed(
            row.versions[-1],
            pieces=row.writes,
            padding=1 if row.counts_identity else 0,
            ahead=row.most_ahead,
            mechanism=row.mechanisms[-1],
            as_server=row.as_server[-1],
            pong=row.pongs[-1],
            subscription_commands=row.subscription_commands,
        )
        assert row in fitting(facts)
        assert row.evidence
