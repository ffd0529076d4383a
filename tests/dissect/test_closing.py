"""The end of connections: which side closed, when and how. Scripted cases, and a comparison of every capture with
dpkt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from random import Random
from typing import Any

import dpkt
import pytest

from tests.capture.test_real_captures import dpkt_packets
from tests.dissect.talks import connected
from tests.peer_octets import hello, message
from tests.readings import CAPTURE_FILES, CAPTURES
from tests.suites import IS_FULL
from tests.traffic import Capture, Conversation, Packet, records
from zmtpscope.capture import CaptureError, open_captures
from zmtpscope.capture.segments import ACK, FIN, RST, SYN
from zmtpscope.dissect import Options
from zmtpscope.export.describe import describe_connection
from zmtpscope.zmtp.greeting import build_signature

SECOND = 1_000_000_000
CLIENT, SERVER = 0, 1
FILES = sorted(CAPTURES.glob("*/*.pcap*")) if IS_FULL else CAPTURE_FILES


def talk() -> Conversation:
    """Return a PUSH and a PULL after their handshake and some messages."""
    conversation = connected("PUSH", "PULL")
    conversation.send(CLIENT, message(b"one") * 3)
    conversation.acknowledge(SERVER)
    conversation.wait(30 * SECOND)
    return conversation


def both_close(conversation: Conversation) -> None:
    conversation.add(SERVER, FIN | ACK)
    conversation.acknowledge(CLIENT)
    conversation.add(CLIENT, FIN | ACK)
    conversation.acknowledge(SERVER)


def a_server_hangs(conversation: Conversation) -> None:
    conversation.add(CLIENT, FIN | ACK)
    conversation.acknowledge(SERVER)
    conversation.wait(36 * SECOND)
    conversation.reset(SERVER)


def half_closed(conversation: Conversation) -> None:
    conversation.add(CLIENT, FIN | ACK)
    conversation.acknowledge(SERVER)


def half_closed_and_talking(conversation: Conversation) -> None:
    conversation.add(CLIENT, FIN | ACK)
    conversation.send(SERVER, message(b"goes on"))
    conversation.acknowledge(CLIENT)


def both_at_once(conversation: Conversation) -> None:
    conversation.add(CLIENT, FIN | ACK)
    fin = conversation.packets[-1]
    conversation.add(SERVER, FIN | ACK)
    conversation.packets[-1] = replace(conversation.packets[-1], acknowledgment=fin.sequence)
    conversation.acknowledge(CLIENT)
    conversation.acknowledge(SERVER)


def fin_sent_again(conversation: Conversation) -> None:
    conversation.add(CLIENT, FIN | ACK)
    conversation.packets.append(replace(conversation.packets[-1], time=conversation.time + SECOND))
    conversation.wait(2 * SECOND)
    conversation.add(SERVER, FIN | ACK)
    conversation.packets.append(replace(conversation.packets[-1], time=conversation.time + SECOND))
    conversation.acknowledge(CLIENT)


def reset_behind_both_fins(conversation: Conversation) -> None:
    both_close(conversation)
    conversation.reset(CLIENT)
    conversation.reset(SERVER)


def reset_by_the_side_that_closed(conversation: Conversation) -> None:
    conversation.add(CLIENT, FIN | ACK)
    conversation.send(SERVER, message(b"too late"))
    conversation.reset(CLIENT)


def reset_at_once(conversation: Conversation) -> None:
    conversation.reset(SERVER)


def never(conversation: Conversation) -> None:
    conversation.acknowledge(SERVER)


def fin_overtakes(conversation: Conversation) -> None:
    conversation.send(CLIENT, message(b"late"))
    conversation.add(CLIENT, FIN | ACK)
    late, fin = conversation.packets[-2:]
    conversation.packets[-2:] = [fin, replace(late, time=conversation.time)]
    conversation.add(SERVER, FIN | ACK)


def fins_behind_a_loss(conversation: Conversation) -> None:
    conversation.send(CLIENT, message(b"lost"))
    conversation.packets.pop()
    conversation.add(CLIENT, FIN | ACK)
    conversation.add(SERVER, FIN | ACK)


def reset_behind_fins_behind_a_loss(conversation: Conversation) -> None:
    fins_behind_a_loss(conversation)
    conversation.wait(SECOND)
    conversation.reset(SERVER)


CASES: list[tuple[Callable[[Conversation], None], str, int | None, int | None]] = [
    (both_close, "fin", SERVER, None),
    (a_server_hangs, "rst", CLIENT, SERVER),
    (half_closed, "open", CLIENT, None),
    (half_closed_and_talking, "open", CLIENT, None),
    (both_at_once, "fin", CLIENT, None),
    (fin_sent_again, "fin", CLIENT, None),
    (reset_behind_both_fins, "fin", SERVER, None),
    (reset_by_the_side_that_closed, "rst", CLIENT, CLIENT),
    (reset_at_once, "rst", SERVER, SERVER),
    (never, "open", None, None),
    (fin_overtakes, "fin", CLIENT, None),
    (fins_behind_a_loss, "fin", CLIENT, None),
    (reset_behind_fins_behind_a_loss, "fin", CLIENT, None),
]
"""How a connection closes, the expected record, the closing side and the resetting side."""


def connections(packets: list[Packet], size: int = 1 << 30) -> list[dict[str, Any]]:
    return [record for record in records(Capture(packets, size))[0] if record["record"] == "connection"]


@pytest.mark.parametrize(("close", "how", "closed_by", "reset_by"), CASES, ids=[case[0].__name__ for case in CASES])
def test_the_closing_side_and_the_kind_of_end(
    close: Callable[[Conversation], None], how: str, closed_by: int | None, reset_by: int | None
) -> None:
    conversation = talk()
    close(conversation)
    (closed,) = connections(conversation.packets)
    assert (closed["close"], closed["closed_by"], closed["reset_by"]) == (how, closed_by, reset_by)
    ends = [packet for packet in conversation.packets if packet.flags & (FIN | RST)]
    assert closed["closed_ns"] == (ends[0].time if ends else None)
    fins = {packet.side: packet.time for packet in reversed(ends) if packet.flags & FIN}
    by_fin, last = max(fins.values(), default=0), conversation.packets[-1].time
    assert closed["end_ns"] == (by_fin if how == "fin" else last)
    assert closed["idle_ns"] == (0 if how == "open" else None)
    for side in (CLIENT, SERVER):
        assert closed[f"fin_ns_{side}"] == fins.get(side)
        assert closed[f"rst_ns_{side}"] == (last if side == reset_by else None)
    for size in (1, 2, 3, 5):
        assert connections(conversation.packets, size) == [closed]
    disturbed = [replace(packet, ports=(50_001, 5555), flags=packet.flags & ~RST) for packet in conversation.packets]
    both = [packet for pair in zip(disturbed, conversation.packets, strict=True) for packet in pair]
    for size in (1, 4, 100):
        beside = [record for record in connections(both, size) if record["port_0"] == 50_000]
        assert [record | {"conn": 1, "packet": 1} for record in beside] == [closed]


def not_acknowledged(conversation: Conversation) -> None:
    conversation.add(CLIENT, FIN | ACK)


@pytest.mark.parametrize(
    ("close", "acknowledged"),
    [
        (half_closed, True),
        (half_closed_and_talking, True),
        (not_acknowledged, False),
        (both_close, None),
        (reset_at_once, None),
        (never, None),
    ],
)
def test_a_fin_of_one_side_is_acknowledged_or_not(
    close: Callable[[Conversation], None], acknowledged: bool | None
) -> None:
    conversation = talk()
    close(conversation)
    for size in (1, 4, 100):
        assert connections(conversation.packets, size)[0]["fin_acknowledged"] is acknowledged


@pytest.mark.parametrize("seed", range(30))
def test_the_first_fin_or_rst_is_reported_in_whatever_order_packets_arrive(seed: int) -> None:
    chance = Random(seed)
    conversation = talk()
    chance.choice(CASES)[0](conversation)
    tail = conversation.packets[6:]
    chance.shuffle(tail)
    packets = conversation.packets[:6] + [packet for packet in tail if chance.random() < 0.8]
    (closed,) = connections(packets)[:1]
    places = [place for place, packet in enumerate(packets) if packet.flags & (FIN | RST)]
    assert closed["closed_by"] == (packets[places[0]].side if places else None)
    # no packet counts as older than the one before it
    assert closed["closed_ns"] == (max(packet.time for packet in packets[: places[0] + 1]) if places else None)
    for size in (1, 3):
        assert connections(packets, size)[:1] == [closed]


def line(closed: dict[str, Any]) -> str:
    words = describe_connection(closed)
    return words[: words.index(", 3.1 NULL")]


def with_another_that_goes_on(conversation: Conversation) -> list[Packet]:
    other = Conversation(ports=(50_001, 5555))
    other.wait(66 * SECOND + SECOND // 2 - 5_000_000)
    other.send(CLIENT, hello("PUSH"))
    return [*conversation.packets, *other.packets]


@pytest.mark.parametrize(
    ("close", "words"),
    [
        (both_close, "closed by PULL:5555 after 30.007 s"),
        (a_server_hangs, "closed by PUSH after 30.007 s, reset by PULL:5555 36.002 s later"),
        (
            half_closed,
            "half closed by PUSH after 30.007 s, still open, idle for 36.490 s at the end of the capture",
        ),
        (reset_at_once, "reset by PULL:5555 after 30.007 s"),
        (never, "still open at the end of the capture, after 66.498 s, idle for 36.491 s"),
        (fin_sent_again, "closed by PUSH after 30.007 s, by PULL:5555 2.001 s later"),
    ],
)
def test_the_text_line_begins_with_the_cause(close: Callable[[Conversation], None], words: str) -> None:
    conversation = talk()
    close(conversation)
    assert line(connections(with_another_that_goes_on(conversation))[0]) == words


@pytest.mark.parametrize(
    ("side", "words"),
    [
        (CLIENT, "FIN by PUSH after 30.009 s, the other direction was not captured"),
        (SERVER, "FIN by PULL:5555 after 30.006 s, the other direction was not captured"),
    ],
)
def test_one_direction_does_not_show_who_closed_first(side: int, words: str) -> None:
    conversation = talk()
    both_close(conversation)
    (closed,) = connections([packet for packet in conversation.packets if packet.side == side])
    seen = closed[f"ip_{closed['only_side']}"]
    assert seen == ("10.0.0.2", "10.0.0.1")[side]
    assert closed["closed_by"] == closed["only_side"]
    assert words == describe_connection(closed).partition(", 3.1")[0]


def test_a_silent_side_is_named_if_the_other_gives_up_in_its_greeting() -> None:
    conversation = Conversation()
    conversation.send(CLIENT, build_signature())
    conversation.acknowledge(SERVER)
    conversation.wait(3 * SECOND)
    conversation.add(CLIENT, FIN | ACK)
    fin = conversation.packets[-1]
    conversation.wait(2 * SECOND)
    conversation.reset(SERVER)
    for size in (1, 3, 100):
        found, _ = records(Capture(conversation.packets, size))
        (cut,) = [each for each in found if each.get("id") == "ZMTP-CONN-03"]
        assert (cut["side"], cut["ts_ns"]) == (CLIENT, fin.time)
        assert cut["text"].endswith(": the other side sent nothing for 3.0 s")
        assert "it hangs" in cut["hint"]
    one_direction = [packet for packet in conversation.packets if packet.side == CLIENT]
    (cut,) = [each for each in records(Capture(one_direction))[0] if each.get("id") == "ZMTP-CONN-03"]
    assert "sent nothing" not in cut["text"]


def test_both_directions_are_captured_once_the_other_side_has_sent_anything() -> None:
    conversation = Conversation()
    conversation.send(CLIENT, hello("PUSH"))
    conversation.add(CLIENT, FIN | ACK)
    assert connections(conversation.packets)[0]["only_side"] is None


@pytest.mark.parametrize("place", [1, 2, 3, 6])
def test_a_fin_of_an_earlier_connection_on_the_same_ports_ends_nothing(place: int) -> None:
    """The fuzz campaign found that a copy of it after the SYN of the next connection hid all its messages."""
    first = talk()
    both_close(first)
    again = connected("PUSH", "PULL", initial=(70_000, 80_000), start=first.time + 5 * SECOND)
    again.send(CLIENT, message(b"two"))
    again.acknowledge(SERVER)
    both_close(again)
    fin = next(packet for packet in first.packets if packet.side == CLIENT and packet.flags & FIN)
    again.packets.insert(place, replace(fin, time=again.packets[place - 1].time))
    _, closed = connections([*first.packets, *again.packets])
    assert (closed["messages_0"], closed["close"], closed["closed_by"]) == (1, "fin", SERVER)


@pytest.mark.parametrize("size", [1, 4, 100])
@pytest.mark.parametrize("closes", [False, True])
def test_a_connection_whose_ports_are_used_again_ended_unseen(closes: bool, size: int) -> None:
    first = talk()
    if closes:
        half_closed(first)
    else:
        first.acknowledge(SERVER)
    again = Conversation(initial=(70_000, 80_000), start=first.time + 5 * SECOND)
    again.send(CLIENT, hello("PUSH"))
    closed = connections([*first.packets, *again.packets], size)[0]
    assert (closed["close"], closed["closed_by"]) == ("reused", CLIENT if closes else None)
    assert closed["end_ns"] == first.packets[-1].time
    assert closed["idle_ns"] == again.packets[0].time - first.packets[-1].time
    again_at = "another connection began on its ports 5.001 s later"
    if closes:
        assert line(closed) == f"half closed by PUSH after 30.007 s, ended unseen, {again_at}"
    else:
        assert line(closed) == f"ended unseen after 30.007 s, {again_at}"


# -- every capture, against dpkt -------------------------------------------------------------------------------------

LINKS: dict[int, Callable[[bytes], Any]] = {
    0: lambda octets: dpkt.loopback.Loopback(octets).data,
    1: lambda octets: dpkt.ethernet.Ethernet(octets).data,
    101: dpkt.ip.IP,
    113: lambda octets: dpkt.sll.SLL(octets).data,
}
Socket = tuple[str, int]


@dataclass
class Session:
    """One connection as dpkt reads it: the first SYN, the first FIN of each side and the first RST."""

    start: float
    syn: int | None
    fins: dict[Socket, float] = field(default_factory=dict)
    first: tuple[Socket, float] | None = None
    reset: tuple[Socket, float] | None = None
    last: float = 0

    @property
    def is_over(self) -> bool:
        return len(self.fins) == 2 or self.reset is not None


def sessions(path: Path) -> dict[frozenset[Socket], list[Session]]:
    found: dict[frozenset[Socket], list[Session]] = defaultdict(list)
    for time, octets, link in dpkt_packets(path):
        if link not in LINKS:
            continue
        try:
            ip = LINKS[link](octets)
        except dpkt.dpkt.UnpackError:
            continue
        tcp = getattr(ip, "data", None)
        if not isinstance(tcp, dpkt.tcp.TCP):
            continue
        here, there = (str(ip_address(ip.src)), tcp.sport), (str(ip_address(ip.dst)), tcp.dport)
        of = found[frozenset((here, there))]
        begins = tcp.flags & (SYN | ACK) == SYN and (not of or of[-1].is_over or of[-1].syn not in (None, tcp.seq))
        if not of or begins:
            of.append(Session(float(time), tcp.seq if tcp.flags & SYN and not tcp.flags & ACK else None))
        session = of[-1]
        if session.is_over:
            continue
        session.last = float(time)
        if tcp.flags & (FIN | RST) and session.first is None:
            session.first = here, float(time)
        if tcp.flags & RST:
            session.reset = here, float(time)
        elif tcp.flags & FIN:
            session.fins.setdefault(here, float(time))
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_dpkt_finds_the_same_ends(path: Path) -> None:
    if path.stat().st_size > 2_000_000:
        pytest.skip("a small capture shows as much")
    try:
        closed = connections_of(path, 1 << 20)
    except CaptureError:
        pytest.skip("no capture")
    truth = sessions(path)
    for record in closed:
        sockets = (record["ip_0"], record["port_0"]), (record["ip_1"], record["port_1"])
        same = [each for each in truth[frozenset(sockets)] if abs(each.start - record["start_ns"] / 1e9) < 1e-5]
        if not same:  # in a tunnel, or in fragments
            continue
        (session,) = same
        first = None if session.first is None else sockets.index(session.first[0])
        reset = None if session.reset is None else sockets.index(session.reset[0])
        assert (record["closed_by"], record["reset_by"]) == (first, reset)
        if session.first is not None:
            assert abs(record["closed_ns"] / 1e9 - session.first[1]) < 1e-5
        how = "rst" if session.reset is not None else "fin" if len(session.fins) == 2 else "open"
        assert record["close"] == how or (how, record["close"]) == ("open", "reused")
        end = max(session.fins.values()) if how == "fin" else session.last
        assert abs(record["end_ns"] / 1e9 - end) < 1e-5
    assert connections_of(path, 5000) == closed


def connections_of(path: Path, block_size: int) -> list[dict[str, Any]]:
    found, _ = records(open_captures([str(path)], block_size=block_size), Options(bodies="none"))
    return [record for record in found if record["record"] == "connection"]
