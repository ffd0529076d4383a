"""Messages of applications become packets that every reader of captures accepts as TCP connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6

from tests.live.recordings import HERE, NOW, THERE, Packets
from zmtpscope.curve_keys import SHARED, KeyLine
from zmtpscope.live.recording.recording import SEQUENCE_CLOCK, RecordedConnection, Recording
from zmtpscope.live.recording.segments import FEW, MODULUS, word_sum

HERE6, THERE6 = ("2001:db8::2", 50_000), ("2001:db8::1", 5555)
SYN, SYN_ACK, ACK, PUSH, FIN, RESET = "S", "SA", "A", "PA", "FA", "RA"

LARGE = bytes(range(256)) * 1000 + b"odd"
OCTETS = st.binary(max_size=9) | st.sampled_from([bytes(FEW - 1), bytes(1460), b"\xff" * 1461, LARGE])
SAYINGS = st.lists(st.tuples(st.booleans(), OCTETS), max_size=8)
CLOCK_WRAPS = NOW - NOW % (SEQUENCE_CLOCK * MODULUS)
"""At this time the first sequence number of a connection is 0."""


def recorded(
    act: Callable[[RecordedConnection], None], *, ipv6: bool = False, by_us: bool = True, time: int = NOW
) -> list[Any]:
    """Return the packets of one connection, parsed by scapy, without its opening."""
    packets = Packets()
    ends = (HERE6, THERE6) if ipv6 else (HERE, THERE)
    act(Recording([packets.take]).opened(*ends, by_us, time))
    return [(IPv6 if ipv6 else IP)(octets) for octets in packets.octets]


def exchange(steps: list[tuple[bool, bytes]]) -> Callable[[RecordedConnection], None]:
    def act(connection: RecordedConnection) -> None:
        for by_us, octets in steps:
            (connection.sent if by_us else connection.received)(octets, NOW)
        connection.closed(True, False, NOW)

    return act


def flags(packets: list[Any]) -> list[tuple[int, str]]:
    return [(packet[TCP].sport, str(packet[TCP].flags)) for packet in packets]


@given(SAYINGS, st.booleans())
@example([(True, b"\0"), (True, b"\0\0\0\0\0"), (False, b"\xff\xff"), (True, LARGE)], True)
def test_every_length_and_checksum_is_that_of_scapy(steps: list[tuple[bool, bytes]], ipv6: bool) -> None:
    for packet in recorded(exchange(steps), ipv6=ipv6):
        octets = bytes(packet)
        del packet[TCP].chksum
        if ipv6:
            del packet.plen
        else:
            del packet.len, packet.chksum
        assert bytes(packet) == octets


@given(SAYINGS, st.booleans(), st.booleans(), st.sampled_from([0, 1, 5, 70_000]))
@example([(True, LARGE), (False, LARGE)], False, True, 5)
def test_streams_are_whole_and_acknowledged(
    steps: list[tuple[bool, bytes]], ipv6: bool, by_us: bool, before_wrap: int
) -> None:
    """The octets of each side have consecutive sequence numbers, which wrap, and are all acknowledged."""
    time = CLOCK_WRAPS - before_wrap * SEQUENCE_CLOCK
    packets = recorded(exchange(steps), ipv6=ipv6, by_us=by_us, time=time)
    first = -before_wrap % MODULUS
    following = dict.fromkeys((HERE[1], THERE[1]), first)
    streams = {HERE[1]: b"", THERE[1]: b""}
    for packet in packets:
        tcp = packet[TCP]
        assert len(packet) <= 65_535
        assert tcp.seq == following[tcp.sport]
        assert tcp.ack == (following[tcp.dport] if "A" in tcp.flags else 0)
        payload = bytes(tcp.payload)
        streams[tcp.sport] += payload
        following[tcp.sport] = (tcp.seq + len(payload) + ("S" in tcp.flags) + ("F" in tcp.flags)) % MODULUS
    assert streams[HERE[1]] == b"".join(octets for is_ours, octets in steps if is_ours)
    assert streams[THERE[1]] == b"".join(octets for is_ours, octets in steps if not is_ours)
    acknowledged = {packet[TCP].dport: packet[TCP].ack for packet in packets}
    assert acknowledged == following


@pytest.mark.parametrize("by_us", [True, False])
def test_a_peer_that_connected_sends_the_syn(by_us: bool) -> None:
    packets = recorded(lambda connection: None, by_us=by_us)
    one, other = (HERE, THERE) if by_us else (THERE, HERE)
    assert flags(packets) == [(one[1], SYN), (other[1], SYN_ACK), (one[1], ACK)]
    assert (packets[0].src, packets[0].dst, packets[0][TCP].dport) == (one[0], other[0], other[1])


def test_data_is_pushed_and_acknowledged_at_once() -> None:
    packets = recorded(lambda connection: connection.received(LARGE, NOW))[3:]
    assert flags(packets) == [*[(THERE[1], ACK)] * 3, (THERE[1], PUSH), (HERE[1], ACK)]


def test_without_data_there_is_no_packet() -> None:
    assert len(recorded(lambda connection: connection.sent(b"", NOW))) == 3


@pytest.mark.parametrize("by_us", [True, False])
def test_a_connection_ends_with_two_fins_or_with_a_reset(by_us: bool) -> None:
    closer, other = (HERE[1], THERE[1]) if by_us else (THERE[1], HERE[1])
    packets = recorded(lambda connection: connection.closed(by_us, False, NOW))[3:]
    assert flags(packets) == [(closer, FIN), (other, FIN), (closer, ACK)]
    packets = recorded(lambda connection: connection.closed(by_us, True, NOW))[3:]
    assert flags(packets) == [(closer, RESET)]


def test_the_window_is_never_full() -> None:
    syn = recorded(lambda connection: None)[0]
    assert ("WScale", 14) in syn[TCP].options
    assert syn[TCP].window << 14 > 1 << 29


def test_a_connection_has_ip_addresses_of_one_family() -> None:
    recording = Recording([])
    with pytest.raises(ValueError, match="no connection leads from"):
        recording.opened(HERE, THERE6, True, NOW)
    with pytest.raises(ValueError, match="localhost"):
        recording.opened(("localhost", 1), THERE, True, NOW)


def test_ipc_connections_have_ports_of_their_own_and_endpoints_the_same() -> None:
    packets = Packets()
    recording = Recording([packets.take])
    for path, by_us in (("/tmp/a", True), ("/tmp/b", True), ("/tmp/a", False)):
        recording.opened_ipc(path, by_us, NOW)
    syns = [IP(event[0]) for _, event in packets.events]
    assert {(syn.src, syn.dst) for syn in syns} == {("127.0.0.1", "127.0.0.1")}
    assert [(syn[TCP].sport, syn[TCP].dport) for syn in syns] == [(49_152, 57_344), (49_153, 57_345), (49_154, 57_344)]


def test_every_sink_gets_every_event_and_key() -> None:
    sinks, keys = [Packets(), Packets()], [list[KeyLine](), list[KeyLine]()]
    recording = Recording([sink.take for sink in sinks], [each.append for each in keys])
    connection = recording.opened(HERE, THERE, True, NOW)
    connection.sent(b"hello", NOW + 1)
    line = KeyLine(SHARED, bytes(32), bytes(32))
    recording.key(line)
    assert sinks[0].events == sinks[1].events
    assert [time for time, _ in sinks[0].events] == [NOW, NOW + 1]
    assert keys == [[line], [line]]


@given(st.binary(max_size=9), st.sampled_from([0, FEW]))
def test_the_sum_is_that_of_rfc_1071(octets: bytes, before: int) -> None:
    octets = bytes(before) + octets
    words = octets + bytes(len(octets) % 2)
    total = sum(int.from_bytes(words[at : at + 2]) for at in range(0, len(words), 2))
    assert word_sum(octets) % 0xFFFF == total % 0xFFFF
    assert word_sum(memoryview(octets)) == word_sum(octets)
