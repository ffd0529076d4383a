"""Captures made by tests, the packets that they send, and the contents of the files, read without our reader."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE
from zmtpscope.live.capture.session import CaptureSession, CaptureStatus
from zmtpscope.live.capture.settings import CaptureSettings


@dataclass
class Contents:
    """A pcapng file: its interfaces as (link type, name, snap length), its packets as (interface, time, octets,
    length on the wire), and the last statistics of each interface."""

    interfaces: list[tuple[int, str, int]] = field(default_factory=list)
    packets: list[tuple[int, int, bytes, int]] = field(default_factory=list)
    statistics: dict[int, dict[int, bytes]] = field(default_factory=dict)

    @property
    def octets(self) -> list[bytes]:
        return [packet for _, _, packet, _ in self.packets]

    def counted(self, interface: int = 0) -> tuple[int, int, int]:
        """Return isb_ifrecv, isb_ifdrop and isb_usrdeliv."""
        counts = self.statistics[interface]
        return tuple(int.from_bytes(counts[code], "little") for code in (4, 5, 8))  # type: ignore[return-value]


def options_of(octets: bytes) -> dict[int, bytes]:
    found, at = {}, 0
    while at < len(octets):
        code, length = struct.unpack_from("<HH", octets, at)
        found[code] = octets[at + 4 : at + 4 + length]
        at += 4 + length + -length % 4
    return found


def contents_so_far(session: CaptureSession) -> Contents:
    """Return the contents of the existing files up to the reported size: more may be written meanwhile."""
    files = [file for file in session.status.files if Path(file.path).exists()]
    return contents(*[file.path for file in files], sizes=[file.octets for file in files])


def contents(*paths: str | Path, sizes: Sequence[int | None] = ()) -> Contents:
    """Return the contents of files up to `sizes`, which must be whole blocks."""
    found = Contents()
    for path, size in zip_longest(paths, sizes):
        octets, at = Path(path).read_bytes()[:size], 0
        found.interfaces = []
        while at < len(octets):
            kind, length = struct.unpack_from("<II", octets, at)
            body = octets[at + 8 : at + length - 4]
            assert struct.unpack_from("<I", octets, at + length - 4) == (length,)
            if kind == 1:
                link_type, _, snap_length = struct.unpack_from("<HHI", body)
                options = options_of(body[8:])
                assert options[9] == b"\x09"
                found.interfaces.append((link_type, options[2].decode(), snap_length))
            elif kind == 6:
                number, high, low, captured, original = struct.unpack_from("<5I", body)
                assert len(body) == 20 + captured + -captured % 4
                assert not any(body[20 + captured :])
                assert number < len(found.interfaces)
                found.packets.append((number, high << 32 | low, body[20 : 20 + captured], original))
            elif kind == 5:
                found.statistics[struct.unpack_from("<I", body)[0]] = options_of(body[12:])
            at += length
        assert at == len(octets)
    return found


def has_written(packets: int) -> Callable[[CaptureStatus], bool]:
    """Return a condition: the files contain this number of packets."""
    return lambda status: status.packets >= packets


def wait_for(session: CaptureSession, reached: Callable[[CaptureStatus], Any]) -> CaptureStatus:
    """Wait until a condition holds for the status, or the capture has ended."""
    end = time.monotonic() + PATIENCE
    while not reached(session.status) and time.monotonic() < end and session.wait(0.1):
        pass
    assert reached(session.status), session.status
    return session.status


@contextmanager
def started(**settings: Any) -> Iterator[CaptureSession]:
    session = CaptureSession(CaptureSettings(**settings))
    try:
        session.start()
        yield session
    finally:
        session.close()


@contextmanager
def capturing(**settings: Any) -> Iterator[CaptureSession]:
    """Yield a capture that has started; after the block it is stopped and has ended."""
    with started(**settings) as session:
        yield session
        session.stop()
        wait_for(session, lambda status: status.ended)


@contextmanager
def tcpdump(interface: str, path: Path, *options: str) -> Iterator[None]:
    """Run tcpdump within the block; it writes to `path`, a pcap file."""
    # in immediate mode each packet has a place as large as the snap length, so the buffer needs room for that
    fast = ["--immediate-mode", "-U", "-Z", "root", "-s", "65535", "-B", "65536"]
    command = ["tcpdump", "-n", *fast, "-i", interface, "-w", str(path), *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    assert process.stderr is not None
    process.stderr.readline()  # listening on
    try:
        yield
        time.sleep(0.2)
    finally:
        process.terminate()
        process.communicate()


def pcap_packets(path: Path) -> list[tuple[bytes, int]]:
    """Return the packets of a pcap file of tcpdump, and their lengths on the wire."""
    octets, at, found = path.read_bytes(), 24, []
    while at < len(octets):
        captured, original = struct.unpack_from("<8xII", octets, at)
        found.append((octets[at + 16 : at + 16 + captured], original))
        at += 16 + captured
    return found


def ethernet(number: int, size: int = 60) -> bytes:
    """Return a packet that no host answers: local experimental EtherType."""
    return b"\x02\0\0\0\0\1\x02\0\0\0\0\2\x88\xb5" + number.to_bytes(4, "big") + bytes(size - 18)


def send(interface: str, packets: Iterable[bytes]) -> None:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
        sender.bind((interface, 0))
        for packet in packets:
            sender.send(packet)


def send_datagrams(count: int, size: int = 20, address: str = "127.0.0.1") -> None:
    """Send numbered UDP datagrams; a closed port answers each."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for number in range(count):
            sender.sendto(number.to_bytes(4, "big") + bytes(size - 4), (address, 9))


@contextmanager
def sending(interface: str) -> Iterator[None]:
    """Send packets with the numbers 0, 1, 2, ... within the block."""
    code = "from itertools import count; from tests.live.capture.capturing import ethernet, send\n"
    code += f"send({interface!r}, map(ethernet, count()))"
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def tunnel(name: str) -> Iterator[int]:
    """Yield a new interface without link headers (tun), which is up: octets written to the descriptor arrive on it."""
    device = os.open("/dev/net/tun", os.O_RDWR)
    try:
        fcntl.ioctl(device, 0x400454CA, struct.pack("16sH22x", name.encode(), 0x1001))  # TUNSETIFF: IFF_TUN, IFF_NO_PI
        subprocess.run(["ip", "link", "set", name, "up"], check=True)
        yield device
    finally:
        os.close(device)
