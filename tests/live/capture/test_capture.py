"""The capture process writes all packets on interfaces of a network namespace."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.capture.capturing import (
    capturing,
    contents,
    contents_so_far,
    ethernet,
    has_written,
    pcap_packets,
    send,
    send_datagrams,
    sending,
    started,
    tcpdump,
    tunnel,
    wait_for,
)
from tests.live.capture.namespaces import VETH, in_namespace
from tests.suites import some

IP_PACKET = bytes.fromhex("4500001c000040004011000000000000000000000000000000080000")
LOOPBACK = "ip link set lo up"
needs_tcpdump = pytest.mark.skipif(
    shutil.which("tcpdump") is None or os.geteuid() != 0,
    reason="captures are compared with those of tcpdump, which has to be installed, and gives up root first, which "
    "only root can do",
)
engines = pytest.mark.parametrize("engine", some(["ring", "socket"], 2))


@engines
@needs_tcpdump
@in_namespace(LOOPBACK)
def test_loopback_as_tcpdump_writes_it(engine: str, tmp_path: Path) -> None:
    with (
        tcpdump("lo", tmp_path / "lo.pcap"),
        capturing(interfaces=("lo",), engine=engine, write_to=str(tmp_path / "lo.pcapng")) as session,
    ):
        for size in (4, 5, 6, 7, 1400, 60_000):
            send_datagrams(30, size)
        wait_for(session, lambda status: status.packets == 360)
        assert session.status.engine == engine
    found = contents(tmp_path / "lo.pcapng")
    assert found.interfaces == [(1, "lo", 262_144)]
    assert [(packet, size) for _, _, packet, size in found.packets] == pcap_packets(tmp_path / "lo.pcap")
    assert found.counted() == (360, 0, 360)
    times = [time for _, time, _, _ in found.packets]
    assert times == sorted(times)


@engines
@in_namespace(*VETH)
def test_a_truncated_packet_keeps_its_length(engine: str, tmp_path: Path) -> None:
    packets = [ethernet(number, 60 + 100 * number) for number in range(10)]
    with capturing(interfaces=("vb",), engine=engine, snap_length=100, write_to=str(tmp_path / "f")) as session:
        send("va", packets)
        wait_for(session, lambda status: status.packets >= 10)
    found = [(packet, size) for _, _, packet, size in contents(tmp_path / "f").packets if packet[12:14] == b"\x88\xb5"]
    assert found == [(packet[:100], len(packet)) for packet in packets]


@engines
@in_namespace(*VETH)
def test_tags_are_where_they_were_on_the_wire(engine: str, tmp_path: Path) -> None:
    """The kernel removes the outer tag of a received packet, also one of 802.1ad."""
    plain = ethernet(7)
    tags = [b"\x81\0\x20\x05", b"\x88\xa8\x00\x07\x81\0\0\1", b""]
    packets = [plain[:12] + tag + plain[12:] for tag in tags]
    with capturing(interfaces=("vb",), engine=engine, write_to=str(tmp_path / "f")) as session:
        send("va", packets)
        wait_for(session, lambda status: status.packets >= 3)
    found = contents(tmp_path / "f").packets
    assert [(packet, size) for _, _, packet, size in found if b"\x88\xb5" in packet] == [
        (packet, len(packet)) for packet in packets
    ]


@engines
@in_namespace(*VETH)
def test_a_tagged_packet_is_cut_behind_its_tag(engine: str, tmp_path: Path) -> None:
    packet = ethernet(7, 100)
    tagged = packet[:12] + b"\x81\0\x20\x05" + packet[12:]
    with capturing(interfaces=("vb",), engine=engine, snap_length=64, write_to=str(tmp_path / "f")) as session:
        send("va", [tagged])
        wait_for(session, lambda status: status.packets >= 1)
    found = [(octets, size) for _, _, octets, size in contents(tmp_path / "f").packets if b"\x88\xb5" in octets]
    assert found == [(tagged[:64], 104)]


@engines
@in_namespace(*VETH, LOOPBACK)
def test_any_interface_has_its_own_description(engine: str, tmp_path: Path) -> None:
    with capturing(interfaces=("any",), engine=engine, write_to=str(tmp_path / "f")) as session:
        send_datagrams(5)
        wait_for(session, lambda status: status.packets >= 10)
        # an interface that did not exist when the capture began, without link headers
        with tunnel("t0") as device:
            os.write(device, IP_PACKET)
            wait_for(session, lambda _: IP_PACKET in [packet for _, _, packet, _ in contents_so_far(session).packets])
        send("va", [ethernet(1)])
        wait_for(session, lambda status: {"lo", "va", "vb", "t0"} <= {*status.interfaces})
    found = contents(tmp_path / "f")
    by_name = {name: number for number, (_, name, _) in enumerate(found.interfaces)}
    link_types = {name: found.interfaces[number][0] for name, number in by_name.items()}
    # a new namespace may have more, such as tunl0 if the module of tunnels is loaded
    assert {"any": 1, "lo": 1, "va": 1, "vb": 1, "t0": 101}.items() <= link_types.items()
    assert len([number for number, *_ in found.packets if number == by_name["lo"]]) == 10
    assert IP_PACKET in [packet for number, _, packet, _ in found.packets if number == by_name["t0"]]
    counted = [found.counted(number) for number in range(len(by_name))]
    assert sum(delivered for _, _, delivered in counted) == len(found.packets)


@engines
@in_namespace(*VETH, LOOPBACK)
def test_packets_of_several_interfaces_are_in_the_order_of_their_arrival(engine: str, tmp_path: Path) -> None:
    with capturing(interfaces=("lo", "vb"), engine=engine, write_to=str(tmp_path / "f")) as session:
        for number in range(20):
            send("va", [ethernet(number)])
            send_datagrams(1)
        wait_for(session, lambda status: status.packets >= 60)
    found = contents(tmp_path / "f")
    assert found.interfaces == [(1, "lo, vb", 262_144), (1, "lo", 262_144), (1, "vb", 262_144)]
    wanted = [(number, octets[12:14].hex()) for number, _, octets, _ in found.packets if octets[12:14] != b"\x86\xdd"]
    assert wanted == [(2, "88b5"), (1, "0800"), (1, "0800")] * 20


@engines
@in_namespace(*VETH)
def test_a_filter_lets_nothing_else_in(engine: str, tmp_path: Path) -> None:
    """The filter ether[17] = 7 lets every 256th packet in, of packets sent all the time, also while the capture
    begins."""
    program = ((0x30, 0, 0, 17), (0x15, 0, 1, 7), (6, 0, 0, 1000), (6, 0, 0, 0))
    settings = {"interfaces": ("vb",), "engine": engine, "filter": "ether[17] = 7", "programs": {1: program}}
    with sending("va"), capturing(**settings, write_to=str(tmp_path / "f")) as session:
        wait_for(session, lambda status: status.packets >= 5)
    found = contents(tmp_path / "f")
    assert {packet[17] for packet in found.octets} == {7}
    assert found.counted() == (len(found.packets), 0, len(found.packets))


@engines
@in_namespace(*VETH)
def test_each_link_type_has_its_own_filter(engine: str, tmp_path: Path) -> None:
    """Octet 17 is 7 on Ethernet; octet 9, the protocol, is 17 in packets without a link header."""
    programs = {
        101: ((0x30, 0, 0, 9), (0x15, 0, 1, 17), (6, 0, 0, 1000), (6, 0, 0, 0)),
        1: ((0x30, 0, 0, 17), (0x15, 0, 1, 7), (6, 0, 0, 1000), (6, 0, 0, 0)),
    }
    other = IP_PACKET[:9] + b"\x06" + IP_PACKET[10:]
    with tunnel("t0") as device:
        # all interfaces, and two by name: then the filter chooses among them, too
        for interfaces in (("any",), ("t0", "vb")):
            path = tmp_path / interfaces[0]
            settings = {"interfaces": interfaces, "engine": engine, "filter": "x", "programs": programs}
            with capturing(**settings, write_to=str(path)) as session:
                os.write(device, other)
                os.write(device, IP_PACKET)
                send("va", map(ethernet, range(20)))
                wanted = [("t0", IP_PACKET), ("va", ethernet(7)), ("vb", ethernet(7))]
                if interfaces != ("any",):
                    wanted.remove(("va", ethernet(7)))
                wait_for(session, has_written(len(wanted)))
            found = contents(path)
            names = [name for _, name, _ in found.interfaces]
            assert sorted((names[number], packet) for number, _, packet, _ in found.packets) == wanted


@engines
@in_namespace(*VETH)
def test_packets_to_others_are_asked_for_unless_that_is_not_wanted(engine: str, tmp_path: Path) -> None:
    def state() -> str:
        return subprocess.run(["ip", "-d", "link", "show", "vb"], capture_output=True, text=True).stdout

    with started(interfaces=("vb",), engine=engine, write_to=str(tmp_path / "f")):
        assert "promiscuity 1 " in state()
    assert "promiscuity 0 " in state()
    with started(interfaces=("vb",), engine=engine, promiscuous=False, write_to=str(tmp_path / "f")):
        assert "promiscuity 0 " in state()


NUMBERED = """
import random, socket, sys
who, count = map(int, sys.argv[1:])
octets = random.Random(who)
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
    sender.bind(("va", 0))
    for number in range(count):
        mark = who.to_bytes(2, "big") + number.to_bytes(4, "big")
        sender.send(bytes(12) + b"\\x88\\xb5" + mark * octets.choice((8, 8, 40, 240)))
"""
"""Packets of different lengths that contain their sender and number."""


@in_namespace(*VETH)
def test_packets_are_whole_though_the_kernel_writes_others_meanwhile(tmp_path: Path) -> None:
    """Several processors fill a block of the ring that is read before it is full."""
    senders, count = 3, 2000
    with capturing(interfaces=("vb",), write_to=str(tmp_path / "f")) as session:
        running = [subprocess.Popen([sys.executable, "-c", NUMBERED, str(who), str(count)]) for who in range(senders)]
        wait_for(session, has_written(senders * count))
        assert [each.wait() for each in running] == [0] * senders
    found = [packet for packet in contents(tmp_path / "f").octets if packet[12:14] == b"\x88\xb5"]
    assert all(packet == packet[:14] + packet[14:20] * ((len(packet) - 14) // 6) for packet in found)
    assert sorted(packet[14:20] for packet in found) == [
        who.to_bytes(2, "big") + number.to_bytes(4, "big") for who in range(senders) for number in range(count)
    ]
