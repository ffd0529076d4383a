"""Capture filters match the same packets as in tcpdump, and errors are reported with a caret."""

from __future__ import annotations

import fcntl
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import textwrap

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Packet, Raw

from tests.live.capture.bpf import run
from tests.live.capture.capturing import capturing, contents, wait_for
from tests.live.capture.namespaces import VETH, in_namespace, python_in_namespace
from zmtpscope.live.capture import filters, packet_socket
from zmtpscope.live.capture.filters import CaptureFilterError, compile_filter, compile_filters
from zmtpscope.live.capture.interfaces import ETHERNET, LINK_TYPES, RAW_IP

WHOLE = 262144
INFINIBAND = 32

needs_tcpdump = pytest.mark.skipif(
    shutil.which("tcpdump") is None, reason="tcpdump is what filters are compared with (Debian: apt install tcpdump)"
)

IN_IP: list[Packet] = [
    IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=5555, dport=40000, flags="S"),
    IP(src="10.0.0.2", dst="10.0.0.1") / TCP(sport=40000, dport=5555, flags="PA") / Raw(b"x" * 100),
    IP(src="10.0.0.1", dst="10.0.0.2", options=[b"\x01" * 4]) / TCP(sport=5555, dport=40001),
    IP(src="10.0.0.1", dst="192.0.2.9", frag=10) / Raw(struct.pack(">HH", 5555, 5555) * 8),
    IP(src="192.0.2.9", dst="10.0.0.1") / UDP(sport=5670, dport=5670) / Raw(b"ZRE"),
    IP(src="192.0.2.9", dst="10.0.0.1") / ICMP(),
    IPv6(src="2001:db8::1", dst="2001:db8::2") / TCP(sport=5555, dport=40000),
    IPv6(src="2001:db8::1", dst="2001:db8::2") / UDP(sport=5555, dport=40000),
    IPv6(src="2001:db8::1", dst="2001:db8::3") / IPv6ExtHdrFragment() / TCP(sport=5555, dport=40000),
]
ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
PACKETS = {
    ETHERNET: [
        *(bytes(ETHER / each) for each in IN_IP),
        bytes(ETHER / ARP(pdst="10.0.0.2")),
        bytes(ETHER / Dot1Q(vlan=5) / IN_IP[0]),
        bytes(ETHER),
        bytes(ETHER / IN_IP[0])[:30],
    ],
    RAW_IP: [*(bytes(each) for each in IN_IP), bytes(IN_IP[0])[:10]],
}
FILTERS = [
    "tcp",
    "tcp port 5555",
    "port 5555 and not host 10.0.0.2",
    "host 2001:db8::2 or net 192.0.2.0/24",
    "portrange 5000-5600 and src 10.0.0.1",
    "udp and dst port 5670",
    "ip6 and not tcp",
    "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
    "tcp[tcpflags] & tcp-push != 0 and tcp[((tcp[12] & 0xf0) >> 2):1] = 0x78",
    "ip[6:2] & 0x1fff != 0",
    "len > 100 and ip[2:2] - ((ip[0] & 0xf) << 2) >= 100",
    "icmp or arp",
    "not (tcp or udp)",
    " or ".join(f"port {5000 + 5 * each}" for each in range(120)),
]


def pcap(path: pathlib.Path, link_type: int) -> pathlib.Path:
    records = (
        struct.pack("<IIII", 0, number, len(each), len(each)) + each for number, each in enumerate(PACKETS[link_type])
    )
    path.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, WHOLE, link_type) + b"".join(records))
    return path


def taken_by_tcpdump(text: str, path: pathlib.Path) -> list[int]:
    """Return the numbers of the packets that match, which are stored as their times."""
    done = subprocess.run(["tcpdump", "-ttnr", str(path), text], capture_output=True, text=True, check=True)
    return [int(line.split()[0].split(".")[1]) for line in done.stdout.splitlines() if line[:1].isdigit()]


@needs_tcpdump
@pytest.mark.parametrize("text", FILTERS)
@pytest.mark.parametrize("link_type", [ETHERNET, RAW_IP])
def test_a_filter_takes_what_tcpdump_takes(text: str, link_type: int, tmp_path: pathlib.Path) -> None:
    if text == "icmp or arp" and link_type == RAW_IP:
        text = "icmp"  # there is no ARP without Ethernet
    program = compile_filter(text, link_type, WHOLE)
    taken = [number for number, packet in enumerate(PACKETS[link_type]) if run(program, packet)]
    assert taken == taken_by_tcpdump(text, pcap(tmp_path / "packets.pcap", link_type))
    assert taken


@pytest.mark.parametrize("text", FILTERS)
def test_each_packet_is_read_by_its_hardware_type(text: str) -> None:
    programs = compile_filters(text, [ETHERNET, RAW_IP], WHOLE)
    joined = packet_socket._by_link_type(programs)
    for hardware_type, link_type in LINK_TYPES.items():
        alone = programs.get(link_type, [packet_socket.REJECT])
        for packet in PACKETS.get(link_type, PACKETS[ETHERNET]):
            assert run(joined, packet, hardware_type) == run(alone, packet)
    for packet in PACKETS[RAW_IP]:
        unknown = b"link" + packet
        assert (
            run(joined, unknown, INFINIBAND, network_header=4) == run(programs[RAW_IP], packet)
            if RAW_IP in programs
            else 0
        )


@in_namespace()
def test_a_filter_works_where_the_link_type_is_not_known() -> None:
    """A tap interface of type InfiniBand: 14 arbitrary octets precede its packets."""
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, 0x400454CA, struct.pack("16sH22x", b"ib0", 0x1002))  # TUNSETIFF: IFF_TAP, IFF_NO_PI
    fcntl.ioctl(device, 0x400454CD, INFINIBAND)  # TUNSETLINK
    subprocess.run(["ip", "link", "set", "ib0", "up"], check=True)
    text = "udp port 5670 or tcp[tcpflags] & tcp-syn != 0"
    settings = {"filter": text, "programs": compile_filters(text, [ETHERNET, RAW_IP], WHOLE)}
    wanted = [bytes(each) for each in IN_IP if run(compile_filter(text, RAW_IP, WHOLE), bytes(each))]
    with tempfile.TemporaryDirectory() as folder:
        for engine in ("ring", "socket"):
            path = f"{folder}/{engine}"
            with capturing(interfaces=("ib0",), engine=engine, write_to=path, **settings) as session:
                for each in IN_IP:
                    os.write(device, bytes(ETHER / each))
                wait_for(session, lambda status: status.packets >= 3)
            assert contents(path).interfaces[0][0] == RAW_IP
            assert contents(path).octets == wanted
    assert len(wanted) == 3


def test_a_filter_on_ethernet_addresses_is_left_out_where_there_are_none() -> None:
    assert [*compile_filters("ether src 02:00:00:00:00:01", [RAW_IP, ETHERNET], WHOLE)] == [ETHERNET]


@pytest.mark.parametrize("text", ["", "  \n"])
def test_no_filter_takes_every_packet_up_to_the_snap_length_and_asks_no_compiler(text: str) -> None:
    program = (
        f"import sys; from zmtpscope.live.capture.filters import *; print("
        f"compile_filter({text!r}, 1, 96) == ((6, 0, 0, 96),), 'scapy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True False\n"


def test_matching_packets_are_cut_to_the_snap_length() -> None:
    program = compile_filter("tcp", ETHERNET, 96)
    assert run(program, PACKETS[ETHERNET][1]) == 96


WRONG = [
    ("tcp prot 5555", "can't parse filter expression: syntax error", "    ^"),
    ("tcp port", "can't parse filter expression: syntax error", "        ^"),
    ("tcp port 5555)", "can't parse filter expression: syntax error", "             ^"),
    ("tcp and (port 80", "can't parse filter expression: syntax error", "                ^"),
    ("tcp && && udp", "can't parse filter expression: syntax error", "       ^"),
    ("ether[0", "can't parse filter expression: syntax error", "       ^"),
    ("tcp[13] & 2 ! 0 and udp", "can't parse filter expression: syntax error", "            ^"),
    ("port 80 and\tport 5555 oder tcp", "can't parse filter expression: syntax error", "                      ^"),
    ("tcp port 99999 or udp", "illegal port number 99999 > 65535", "         ^"),
    ("port 32 and net 10.0.0.0/33 and tcp", "mask length must be <= 32", "                ^"),
    ("tcp and port htttp", "unknown port 'htttp'", "             ^"),
    ("ip and ip6 host 192.0.2.1", "'ip6' modifier applied to ip host", "       ^"),
    ("udp or wlan type mgt", "802.11 link-layer types supported only on 802.11", "            ^"),
]


@pytest.mark.parametrize(("text", "words", "caret"), WRONG)
def test_a_wrong_filter_is_shown_with_the_words_of_libpcap_and_a_caret(text: str, words: str, caret: str) -> None:
    with pytest.raises(CaptureFilterError) as refused:
        compile_filter(text, ETHERNET, WHOLE)
    assert refused.value.lines() == [words, f"  {text}".replace("\t", " "), f"  {caret}"]
    with pytest.raises(CaptureFilterError) as refused:
        compile_filters(text, [ETHERNET, RAW_IP], WHOLE)
    assert refused.value.words == words


def test_octets_that_a_terminal_would_obey_are_not_in_the_lines() -> None:
    with pytest.raises(CaptureFilterError) as refused:
        compile_filter("tcp \x1b[2J", ETHERNET, WHOLE)
    assert all(line.isprintable() for line in refused.value.lines())


@pytest.mark.parametrize("text", ["tcp\0", "\udcff", "ü", "'", "\\", "[" * 100, "(" * 200])
def test_no_text_is_too_strange_for_an_error(text: str) -> None:
    with pytest.raises(CaptureFilterError):
        compile_filter(text, ETHERNET, WHOLE)


def test_a_program_that_the_kernel_would_not_take_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "MAX_INSTRUCTIONS", 300)
    for text, link_types in (
        (" or ".join(f"host 10.0.0.{each} and port {each}" for each in range(1, 50)), [ETHERNET]),
        (" or ".join(f"host 10.0.0.{each} and port {each}" for each in range(1, 15)), [ETHERNET, RAW_IP]),
    ):
        with pytest.raises(CaptureFilterError, match=r"compiles to \d+ instructions, but the kernel accepts about 300"):
            compile_filters(text, link_types, WHOLE)


@pytest.fixture
def without_libpcap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scapy.libs.winpcapy", None)
    import scapy.libs

    monkeypatch.delattr(scapy.libs, "winpcapy", raising=False)


@needs_tcpdump
@pytest.mark.usefixtures("without_libpcap")
def test_without_libpcap_tcpdump_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    by_tcpdump = [compile_filter(text, link, 96) for text in ("tcp port 5555", "-1 = 1 - 2") for link in PACKETS]
    with pytest.raises(CaptureFilterError) as refused:
        compile_filter("tcp prot 5555", ETHERNET, WHOLE)
    assert refused.value.column == 4
    monkeypatch.undo()
    assert by_tcpdump == [
        compile_filter(text, link, 96) for text in ("tcp port 5555", "-1 = 1 - 2") for link in PACKETS
    ]


@pytest.mark.usefixtures("without_libpcap")
def test_without_both_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        CaptureFilterError, match=r"libpcap, which is not installed -> .*apt install libpcap0.8.*or tcpdump"
    ) as refused:
        compile_filter("tcp", ETHERNET, WHOLE)
    assert len(refused.value.lines()) == 1


KERNEL = textwrap.dedent(
    """
    import ctypes, select, socket, struct
    from zmtpscope.live.capture.filters import CaptureFilterError, compile_filter, compile_filters

    def opened(program):
        packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        octets = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in program))
        packets.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HL", len(program), ctypes.addressof(octets)))
        packets.bind(("va", 3))
        return packets

    def count(packets):
        received = 0
        while select.select([packets], [], [], 0.2)[0]:
            received += packets.recvfrom(2000)[1][2] == 0  # to us: not what went out
        return received

    sender, receiver = (socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) for _ in "ab")
    sender.bind(("vb", 0))
    receiver.bind(("va", 0))
    TO, FROM, TAG, IP = receiver.getsockname()[4], bytes([2, 0, 0, 0, 0, 1]), bytes([0x81, 0, 0, 5]), bytes([8, 0])

    def send(port, tag=b""):
        header = struct.pack(">BxH4xBBxx4B4B", 0x45, 32, 64, 17, 10, 9, 8, 1, 10, 9, 8, 7)
        sender.send(TO + FROM + tag + IP + header + struct.pack(">HHHxx4s", 7, port, 12, b"abcd"))
    """
)


def test_the_kernel_runs_a_filter_program() -> None:
    program = KERNEL + textwrap.dedent(
        f"""
        packets = opened(compile_filter("udp port 5555", 1, {WHOLE}))
        for port in (5555, 5556, 5555):
            send(port)
        print(count(packets))
        """
    )
    assert python_in_namespace(VETH, program) == "2\n"


def test_a_filter_for_a_vlan_finds_tags_that_the_kernel_took_out() -> None:
    program = KERNEL + textwrap.dedent(
        f"""
        for text in ("vlan", "vlan 5", "vlan 6", "vlan 5 and udp port 5555", "udp port 5555"):
            packets = opened(compile_filter(text, 1, {WHOLE}))
            send(5555, TAG)
            send(5556, TAG)
            send(5555)
            print(text, count(packets))
        try:
            compile_filter("vlan and", 1, {WHOLE})
        except CaptureFilterError as error:
            print(*error.lines(), sep="|")
        """
    )
    assert python_in_namespace(VETH, program).splitlines() == [
        "vlan 2",
        "vlan 5 2",
        "vlan 6 0",
        "vlan 5 and udp port 5555 1",
        "udp port 5555 2",
        "can't parse filter expression: syntax error|  vlan and|          ^",
    ]


def test_a_filter_for_a_vlan_needs_an_interface_that_is_up() -> None:
    program = f"""
from zmtpscope.live.capture.filters import CaptureFilterError, compile_filter
try:
    compile_filter("vlan", 1, {WHOLE})
except CaptureFilterError as error:
    print(error)
"""
    sentence = "`vlan` can only be compiled for an Ethernet interface that is up, and there is none\n"
    assert python_in_namespace([], program) == sentence
