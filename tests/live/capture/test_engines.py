"""Which engine a capture gets, and captures by other programs: tcpdump, dumpcap, and a loop over libpcap."""

from __future__ import annotations

import grp
import os
import shutil
import signal
import stat
import struct
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.capture.capturing import (
    capturing,
    contents,
    ethernet,
    send,
    send_datagrams,
    started,
    wait_for,
)
from tests.live.capture.namespaces import VETH, in_namespace
from tests.live.capture.test_privileges import NOBODY, as_nobody, as_root, readable_by_nobody, run
from tests.waiting import PATIENCE
from zmtpscope.live.capture import tools
from zmtpscope.live.capture.packet_socket import Batch, CannotCapture, PacketSource
from zmtpscope.live.capture.packet_stream import PacketStream
from zmtpscope.live.capture.session import CaptureRefused

LOOPBACK = "ip link set lo up"
needs_tcpdump = pytest.mark.skipif(
    shutil.which("tcpdump") is None, reason="tcpdump is not installed (Debian: apt install tcpdump)"
)
needs_dumpcap = pytest.mark.skipif(
    shutil.which("dumpcap") is None, reason="dumpcap is not installed (Debian: apt install wireshark-common)"
)
TOOLS = [
    pytest.param("tcpdump", marks=needs_tcpdump),
    pytest.param("dumpcap", marks=needs_dumpcap),
    "scapy",
]


@contextmanager
def programs(folder: Path, **scripts: str) -> Iterator[None]:
    """Install only these programs, which are Python."""
    for name, script in scripts.items():
        path = folder / name
        path.write_text(f"#!{sys.executable}\n{textwrap.dedent(script)}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    before, os.environ["PATH"] = os.environ["PATH"], str(folder)
    tools.MORE_FOLDERS = ()
    try:
        yield
    finally:
        os.environ["PATH"] = before


@pytest.mark.slow
@pytest.mark.parametrize("engine", TOOLS)
@in_namespace(LOOPBACK)
def test_another_program_captures_and_its_statistics_are_in_the_file(engine: str, tmp_path: Path) -> None:
    before = time.time_ns()
    with capturing(interfaces=("lo",), engine=engine, filter="udp", write_to=str(tmp_path / "f")) as session:
        for size in (20, 1400, 60_000):
            send_datagrams(100, size)
        wait_for(session, lambda status: status.packets == 300)
    found = contents(tmp_path / "f")
    assert session.status.engine == engine
    assert session.status.failure is None
    assert found.interfaces == [(1, "lo", 262_144)]
    assert [size for _, _, _, size in found.packets] == [62] * 100 + [1442] * 100 + [60_042] * 100
    assert [len(packet) for packet in found.octets] == [62] * 100 + [1442] * 100 + [60_042] * 100
    assert [int.from_bytes(packet[42:46], "big") for packet in found.octets] == [*range(100)] * 3
    assert all(before <= when <= time.time_ns() for _, when, _, _ in found.packets)
    assert found.counted() == (300, 0, 300)


@pytest.mark.slow
@pytest.mark.parametrize("engine", TOOLS)
@in_namespace(LOOPBACK)
def test_a_packet_truncated_by_another_program_keeps_its_length(engine: str, tmp_path: Path) -> None:
    with capturing(interfaces=("lo",), engine=engine, snap_length=96, write_to=str(tmp_path / "f")) as session:
        send_datagrams(3, 1400)
        wait_for(session, lambda status: status.packets >= 6)
    found = [(len(packet), size) for _, _, packet, size in contents(tmp_path / "f").packets]
    assert found.count((96, 1442)) == 3


@pytest.mark.parametrize("engine", TOOLS)
@in_namespace(*VETH)
def test_packets_before_the_stop_are_read_however_slow_a_program_is(engine: str, tmp_path: Path) -> None:
    packets = [ethernet(number) for number in range(5)]
    with capturing(interfaces=("vb",), engine=engine, write_to=str(tmp_path / "f")):
        send("va", packets)
    assert [each for each in contents(tmp_path / "f").octets if each in packets] == packets


@pytest.mark.slow
@needs_dumpcap
@in_namespace(*VETH, LOOPBACK)
def test_dumpcap_captures_from_several_interfaces(tmp_path: Path) -> None:
    with capturing(
        interfaces=("va", "lo"), engine="dumpcap", filter="udp or ether proto 0x88b5", write_to=str(tmp_path / "f")
    ) as session:
        send("vb", [ethernet(number) for number in range(5)])
        send_datagrams(7)
        wait_for(session, lambda status: status.packets == 12)
    found = contents(tmp_path / "f")
    assert [name for _, name, _ in found.interfaces] == ["va", "lo"]
    assert sorted(number for number, _, _, _ in found.packets) == [0] * 5 + [1] * 7


@pytest.mark.parametrize("engine", TOOLS)
@in_namespace(LOOPBACK)
def test_nothing_is_left_of_a_program_when_the_capture_is_closed(engine: str) -> None:
    with started(interfaces=("lo",), engine=engine) as session:
        assert session._process is not None
        group = session._process.pid
        assert len(processes_of(group)) == 2
    wait_until_gone(group)


@pytest.mark.slow
@as_root
@pytest.mark.parametrize("engine", [pytest.param("tcpdump", marks=needs_tcpdump), "scapy"])
@in_namespace(LOOPBACK)
def test_a_program_that_root_starts_becomes_the_user_as_well(engine: str) -> None:
    os.environ |= {"SUDO_UID": str(NOBODY), "SUDO_GID": str(NOBODY)}
    with started(interfaces=("lo",), engine=engine) as session:
        assert session._process is not None
        group = session._process.pid
        owners = [Path(f"/proc/{each}/status").read_text().split("Uid:")[1].split()[:3] for each in processes_of(group)]
        assert owners == [[str(NOBODY)] * 3] * 2
    wait_until_gone(group)


@as_root
@in_namespace(LOOPBACK)
def test_root_that_becomes_a_user_starts_no_dumpcap() -> None:
    with pytest.raises(CaptureRefused, match="stays root"), started(engine="dumpcap", user="nobody"):
        pass


@pytest.mark.slow
@needs_tcpdump
@in_namespace(LOOPBACK)
def test_nothing_is_left_of_a_program_when_the_command_is_gone() -> None:
    with started(interfaces=("lo",), engine="tcpdump") as session:
        assert session._process is not None
        assert session._process.stdin is not None
        with open(os.devnull, "w") as nobody:
            os.dup2(nobody.fileno(), session._process.stdin.fileno())
        wait_for(session, lambda status: status.ended)
        wait_until_gone(session._process.pid)


def processes_of(group: int) -> list[int]:
    found = []
    for entry in filter(str.isdecimal, os.listdir("/proc")):
        try:
            state, _, its_group = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[:3]
        except OSError:  # it has ended meanwhile
            continue
        if int(its_group) == group and state != "Z":
            found.append(int(entry))
    return found


def wait_until_gone(group: int) -> None:
    end = time.monotonic() + PATIENCE
    while processes_of(group) and time.monotonic() < end:
        time.sleep(0.01)
    left = processes_of(group)
    for each in left:
        os.kill(each, signal.SIGKILL)
    assert left == []


@needs_tcpdump
@in_namespace(LOOPBACK)
def test_a_program_that_is_ended_by_others_ends_the_capture_and_what_arrived_is_there(tmp_path: Path) -> None:
    with started(interfaces=("lo",), engine="tcpdump", filter="udp", write_to=str(tmp_path / "f")) as session:
        send_datagrams(5)
        wait_for(session, lambda status: status.packets == 5)
        assert session._process is not None
        (tcpdump,) = [each for each in processes_of(session._process.pid) if each != session._process.pid]
        os.kill(tcpdump, signal.SIGKILL)
        wait_for(session, lambda status: status.ended)
        assert session.status.failure == "tcpdump ended (exit code -9)"
    assert contents(tmp_path / "f").counted() == (5, 0, 5)


@pytest.mark.slow
@needs_tcpdump
@in_namespace(*VETH, "ip link set va mtu 9000", "ip link set vb mtu 9000")
def test_packets_that_the_kernel_dropped_are_counted_as_tcpdump_does(tmp_path: Path) -> None:
    """tcpdump is stopped while more packets arrive than its buffer holds."""
    with capturing(
        interfaces=("vb",),
        engine="tcpdump",
        filter="ether proto 0x88b5",
        buffer_octets=1 << 20,
        write_to=str(tmp_path / "f"),
    ) as session:
        assert session._process is not None
        (tcpdump,) = [each for each in processes_of(session._process.pid) if each != session._process.pid]
        os.kill(tcpdump, signal.SIGSTOP)
        send("va", [ethernet(number, 8000) for number in range(500)])
        os.kill(tcpdump, signal.SIGCONT)
        time.sleep(1.5)
    status = session.status
    assert status.packets > 0
    assert status.kernel_drops > 0
    assert status.packets + status.kernel_drops == 500
    assert contents(tmp_path / "f").counted() == (500, status.kernel_drops, status.packets)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "interfaces", "sentence"),
    [
        pytest.param("tcpdump", ("lo", "any"), "tcpdump: it captures from one interface, or from any"),
        pytest.param("scapy", ("lo", "any"), "scapy: it captures from one interface, or from any"),
        pytest.param("tcpdump", ("lo",), "tcpdump: lo: That device is not up", marks=needs_tcpdump),
        pytest.param("scapy", ("lo",), "scapy: lo: That device is not up"),
    ],
)
@in_namespace()
def test_a_program_that_does_not_begin_is_quoted(engine: str, interfaces: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(CaptureRefused) as refused, started(interfaces=interfaces, engine=engine):
        pass
    assert str(refused.value) == f"cannot capture packets: {sentence}"


@in_namespace(LOOPBACK)
def test_an_unknown_engine_is_answered_with_the_existing_ones() -> None:
    with pytest.raises(CaptureRefused, match="no engine named rung") as refused, started(engine="rung"):
        pass
    assert refused.value.hint == "use one of ring, socket, dumpcap, tcpdump, scapy"


WRITES_PCAP = """
import struct, sys, time
out = sys.stdout.buffer
out.write(struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
out.write(struct.pack("=IIII", 1, 2, 4, 60) + b"abcd")
out.flush()
time.sleep(60)
"""
REFUSES = """
import sys
sys.exit("dumpcap: You do not have permission to capture on device lo.\\n(socket: Operation not permitted)")
"""


def test_programs_are_tried_in_order_and_why_the_first_ones_were_not_taken_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from zmtpscope.live.capture import engines
    from zmtpscope.live.capture.settings import CaptureSettings

    def denied(settings: CaptureSettings) -> PacketSource:
        raise PermissionError

    def no_ring(settings: CaptureSettings) -> PacketSource:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(engines, "SOCKETS", {"ring": no_ring, "socket": denied})
    monkeypatch.setattr(tools, "MORE_FOLDERS", ())
    with programs(tmp_path, dumpcap=REFUSES, tcpdump=WRITES_PCAP):
        opened = engines.open_source(CaptureSettings(interfaces=("lo",)))
    try:
        assert opened.engine == "tcpdump"
        assert opened.passed_over == [
            "ring: Cannot allocate memory",
            "socket: this user may not open packet sockets",
            "dumpcap: You do not have permission to capture on device lo.",
        ]
        assert batches_of(opened.source)[0].captured.tolist() == [4]
    finally:
        opened.source.close()
    (tmp_path / "tcpdump").unlink()
    (tmp_path / "dumpcap").unlink()
    with programs(tmp_path), pytest.raises(CannotCapture) as refused:
        engines.open_source(CaptureSettings(interfaces=("lo",)))
    assert "dumpcap: it is not installed; tcpdump: it is not installed" in str(refused.value)


@pytest.fixture
def folder_for_everybody() -> Iterator[Path]:
    """None of pytest's, which are closed to others, and are closed again whenever a run of pytest begins."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@as_root
def test_a_user_outside_the_group_of_dumpcap_gets_the_name_of_the_group(folder_for_everybody: Path) -> None:
    readable_by_nobody()
    folder = folder_for_everybody
    program = """
from zmtpscope.live.capture.engines import open_source
from zmtpscope.live.capture.packet_socket import CannotCapture
from zmtpscope.live.capture.settings import CaptureSettings
for engine in ("dumpcap", None):
    try:
        open_source(CaptureSettings(interfaces=("lo",), engine=engine))
    except CannotCapture as error:
        print(error)
        print(error.hint.splitlines()[1])
"""
    dumpcap = folder / "dumpcap"
    dumpcap.touch()
    os.chown(dumpcap, 0, grp.getgrnam("daemon").gr_gid)
    for mode, way in ((0o750, 'sudo usermod -a -G daemon "$USER"  (once, and log in again'), (0o700, "sudo setcap")):
        dumpcap.chmod(mode)
        lines = run(program, *as_nobody, PATH=str(folder))
        assert lines[2] == "capture needs CAP_NET_RAW, which this user does not have"
        assert lines[0] == f"{lines[2]} (dumpcap: this user may not run {dumpcap})"
        assert lines[1].startswith(way)
        assert lines[3].startswith(way)


def batches_of(source: PacketSource) -> list[Batch]:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        batch = source.read()
        if batch is not None:
            return [batch]
        time.sleep(0.01)
    return []


# output of programs

PCAP = struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)
RECORD = struct.pack("=IIII", 7, 8, 5, 60) + b"abcde"


def section(*blocks: bytes) -> bytes:
    return block(0x0A0D0D0A, struct.pack("=IHHq", 0x1A2B3C4D, 1, 0, -1)) + b"".join(blocks)


def block(kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    return struct.pack("=II", kind, 12 + len(body)) + body + struct.pack("=I", 12 + len(body))


def option(code: int, value: bytes) -> bytes:
    return struct.pack("=HH", code, len(value)) + value + bytes(-len(value) % 4)


PACKETS = [
    block(6, struct.pack("=5I", 1, 0, 7_000_008, 5, 60) + b"abcde"),
    block(6, struct.pack("=5I", 0, 1, 5, 4, 4) + b"wxyz"),
]
PCAPNG = section(
    block(1, struct.pack("=HHI", 1, 0, 262144) + option(2, b"en0") + option(9, b"\x09") + option(0, b"")),
    block(1, struct.pack("=HHI", 113, 0, 262144) + option(2, b"any")),
    *PACKETS,
    block(5, struct.pack("=3I", 0, 0, 0) + option(5, struct.pack("=Q", 3)) + option(0, b"")),
    block(5, struct.pack("=3I", 1, 0, 0) + option(4, struct.pack("=Q", 9))),
)


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_octets_may_arrive_in_any_pieces(size: int) -> None:
    """Many packets may arrive at a time: they are read as columns."""
    many = b"".join(PACKETS[number % 2] for number in range(100))
    expected = [(1, 7_000_008_000), (0, (1 << 32) + 5)]
    for octets, packets in (
        (PCAP + 2 * RECORD, [(0, 7_000_008_000)] * 2),
        (PCAPNG, expected),
        (PCAPNG + many, expected * 51),
    ):
        stream = PacketStream("lo")
        pieces = [octets[at : at + size] for at in range(0, len(octets), size)]
        blocks = [each for piece in pieces for batch in [stream.feed(piece)] if batch for each in batch.blocks]
        found = [struct.unpack_from("<8xIII", each) for each in blocks]
        assert [(interface, high << 32 | low) for interface, high, low in found] == packets
        interfaces = [interface for interface, _ in packets]
        assert stream.counts == [interfaces.count(number) for number in range(len(stream.interfaces))]
    assert stream.dropped == 3
    assert [(each.name, each.link_type) for each in stream.interfaces] == [("en0", 1), ("any", 113)]


def test_nanoseconds_and_the_check_sequence_bits_of_pcap() -> None:
    stream = PacketStream("en0")
    header = struct.pack("=IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 0xF400_0000 | 101)
    batch = stream.feed(header + RECORD)
    assert batch is not None
    assert struct.unpack_from("<12xII", batch.blocks[0]) == (7_000_000_008 >> 32, 7_000_000_008 & 0xFFFFFFFF)
    assert stream.interfaces[0] == ("en0", 101)


@pytest.mark.parametrize(
    "octets",
    [
        b"Usage: tcpdump [-AbdDefhHI]",
        PCAP + struct.pack("=IIII", 0, 0, 1 << 30, 1 << 30),
        section(block(6, struct.pack("=5I", 7, 0, 0, 0, 0))),
        section(struct.pack("=II", 6, 0) + bytes(20)),
        section(struct.pack("=II", 6, 1 << 31) + bytes(20)),
        section(block(6, b"")),
        section(section(b"")),
    ],
)
def test_output_that_is_no_capture_is_refused_at_once(octets: bytes) -> None:
    with pytest.raises(CannotCapture, match=r"the input is (damaged|neither)"):
        PacketStream("lo").feed(octets)
