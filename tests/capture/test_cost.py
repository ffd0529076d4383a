"""The cost of reading: calls per plain packet, and memory that does not grow with the file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.capture.containers import Packet, interface, pcap, pcapng, section, tcp_packet
from tests.counting import calls_of
from zmtpscope.capture import open_captures

IP = tcp_packet(50, bytes(10))[14:]
IPV6 = b"\x60\0\0\0" + (30).to_bytes(2, "big") + b"\x06\x40" + bytes(32) + IP[20:]
UDP = b"\x9c\x40\x15\xb3" + (18).to_bytes(2, "big") + bytes(2 + 10)
UDP_IP = IP[:2] + (38).to_bytes(2, "big") + IP[4:9] + b"\x11" + IP[10:20] + UDP
PLAIN = {
    "Ethernet": Packet(bytes(12) + b"\x08\0" + IP),
    "Ethernet, IPv6": Packet(bytes(12) + b"\x86\xdd" + IPV6),
    "802.1Q": Packet(bytes(12) + b"\x81\0\0\1\x08\0" + IP),
    "raw": Packet(IP, link=101),
    "raw, IPv6": Packet(IPV6, link=101),
    "null": Packet(b"\2\0\0\0" + IP, link=0),
    "loop": Packet(b"\0\0\0\2" + IP, link=108),
    "cooked": Packet(bytes(14) + b"\x08\0" + IP, link=113),
    "UDP": Packet(bytes(12) + b"\x08\0" + UDP_IP),
    "UDP, IPv6": Packet(bytes(12) + b"\x86\xdd" + IPV6[:4] + b"\0\x12\x11\x40" + bytes(32) + UDP),
    "cooked 2": Packet(b"\x08\0" + bytes(18) + IP, link=276),
}


def calls(path: Path) -> int:
    """Python functions entered while a capture is read."""
    captures = open_captures([str(path)])
    return calls_of(lambda: [None for _ in captures])


@pytest.mark.parametrize("write", [pcap, pcapng])
@pytest.mark.parametrize("name", PLAIN)
def test_no_call_is_made_for_a_plain_packet(tmp_path: Path, name: str, write: object) -> None:
    assert callable(write)
    for count in (10_000, 20_000):
        (tmp_path / str(count)).write_bytes(write([PLAIN[name]] * count))
    more = calls(tmp_path / "20000") - calls(tmp_path / "10000")
    assert more / 10_000 < 0.02


MEASURE = """
import resource, sys
from zmtpscope.capture import open_captures
for block in open_captures(sys.argv[1:]): pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak(*paths: Path) -> int:
    """Largest memory of a process that reads these captures, in KiB."""
    command = [sys.executable, "-c", MEASURE, *map(str, paths)]
    return int(subprocess.run(command, capture_output=True, check=True).stdout)


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    packets = [Packet(tcp_packet(1040, bytes(1000)))] * 8_000
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(pcap(packets))
    large.write_bytes(pcap(packets * 4))
    assert peak(large) < peak(small) + 2048
    assert peak(large, large) < peak(small, small) + 2048


def test_a_skipped_block_is_not_kept(tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(section() + interface())
    body = 64 << 20
    length = (body + 12).to_bytes(4, "little")
    large.write_bytes(section() + interface() + b"\x77\0\0\0" + length + bytes(body) + length)
    assert peak(large) < peak(small) + 8192


def test_nothing_heavy_is_imported() -> None:
    code = "import sys, zmtpscope.capture; print(sorted({'dpkt', 'scapy', 'orjson', 'pyarrow'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"
