"""The files of a capture, its end, and its report of missing packets."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import create_autospec

import pytest

from tests.live.capture.capturing import (
    capturing,
    contents,
    contents_so_far,
    ethernet,
    has_written,
    send,
    send_datagrams,
    started,
    wait_for,
)
from tests.live.capture.namespaces import VETH, in_namespace
from tests.suites import some
from zmtpscope.live.capture.controls import Controls
from zmtpscope.live.capture.loop import Capture
from zmtpscope.live.capture.output_files import OutputFiles
from zmtpscope.live.capture.packet_socket import PacketSource
from zmtpscope.live.capture.session import CaptureRefused, CaptureSession
from zmtpscope.live.capture.settings import CaptureSettings, Limits, RingLimits

LOOPBACK = "ip link set lo up"
engines = pytest.mark.parametrize("engine", some(["ring", "socket"], 2))


def process_of(session: CaptureSession) -> int:
    assert session._process is not None
    return session._process.pid


def read_all(session: CaptureSession) -> None:
    for number, file in enumerate(session.status.files):
        session.consumed(number, file.octets)


@in_namespace(*VETH)
def test_a_private_capture_is_there_for_its_user_alone_and_goes_in_the_end(tmp_path: Path) -> None:
    os.environ["TMPDIR"] = str(tmp_path)
    with started(interfaces=("vb",)) as session:
        send("va", [ethernet(1)])
        wait_for(session, lambda status: status.packets)
        path = Path(session.status.files[0].path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert path.parent.parent == tmp_path
        assert ethernet(1) in contents_so_far(session).octets
    assert list(tmp_path.iterdir()) == []


@in_namespace(*VETH)
def test_a_private_capture_ends_with_its_user(tmp_path: Path) -> None:
    """The parent is killed: its child ends by itself."""
    program = (
        "from zmtpscope.live.capture.session import *; from zmtpscope.live.capture.settings import *\n"
        "import os, signal; session = CaptureSession(CaptureSettings(('vb',))); session.start()\n"
        "print(session._process.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True)
    end = time.monotonic() + 10
    while list(tmp_path.iterdir()) and time.monotonic() < end:
        time.sleep(0.02)
    assert list(tmp_path.iterdir()) == []
    assert done.stdout.strip()


@in_namespace(*VETH)
def test_a_file_belongs_to_its_owner_alone_also_in_the_place_of_another(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"what was there")
    path.chmod(0o644)
    with capturing(interfaces=("vb",), write_to=str(path)):
        send("va", [ethernet(1)])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert ethernet(1) in contents(path).octets


@pytest.mark.slow
@in_namespace(*VETH)
def test_a_ring_of_files_has_the_last_ones(tmp_path: Path) -> None:
    ring = RingLimits(packets=10, files=3)
    with capturing(
        interfaces=("vb",), programs=EXPERIMENTAL, filter="x", write_to=f"{tmp_path}/f.pcapng", ring=ring
    ) as session:
        for number in range(75):
            send("va", [ethernet(number)])
            wait_for(session, has_written(number + 1))
            read_all(session)
    files = sorted(tmp_path.iterdir())
    assert [file.name[:8] for file in files] == ["f_00006_", "f_00007_", "f_00008_"]
    assert contents(*files).octets == [ethernet(number) for number in range(50, 75)]
    assert session.status.unread_drops == 0
    assert len(session.status.files) == 8
    assert contents(files[0]).counted() == (60, 0, 60)


EXPERIMENTAL = {1: ((0x28, 0, 0, 12), (0x15, 0, 1, 0x88B5), (6, 0, 0, 262_144), (6, 0, 0, 0))}
"""ether proto 0x88b5: packets of tests, which the system never sends."""


ANNOUNCED = {"interfaces": ("vb",), "filter": "x", "programs": EXPERIMENTAL}


@engines
@in_namespace(*VETH)
def test_what_was_not_read_stays_and_what_has_no_place_is_counted(engine: str, tmp_path: Path) -> None:
    ring = RingLimits(packets=10, files=2)
    with capturing(**ANNOUNCED, engine=engine, write_to=f"{tmp_path}/f.pcapng", ring=ring) as session:
        send("va", map(ethernet, range(45)))
        wait_for(session, lambda status: status.unread_drops == 25)
        assert session.status.packets == 20
        assert [file.is_complete for file in session.status.files] == [True, False]
        assert contents_so_far(session).octets == [ethernet(number) for number in range(20)]
        session.consumed(0, session.status.files[0].octets)
        send("va", map(ethernet, range(100, 112)))
        wait_for(session, lambda status: status.packets == 30 and status.unread_drops == 27)
        session.consumed(1, session.status.files[1].octets - 1)  # all but one octet
        send("va", [ethernet(200)])
        wait_for(session, lambda status: status.unread_drops == 28)
        read_all(session)
        send("va", [ethernet(201)])
        wait_for(session, lambda status: status.packets == 31)
    files = sorted(tmp_path.iterdir())
    assert [len(contents(file).packets) for file in files] == [10, 1]
    assert contents(files[-1]).counted() == (59, 28, 31)
    assert session.status.kernel_drops == 0


@in_namespace(*VETH)
def test_packets_without_room_are_counted_in_the_last_file(tmp_path: Path) -> None:
    ring = RingLimits(packets=10, files=2)
    with capturing(**ANNOUNCED, write_to=f"{tmp_path}/f.pcapng", ring=ring):
        send("va", map(ethernet, range(45)))
    assert contents(sorted(tmp_path.iterdir())[-1]).counted() == (45, 25, 20)


@pytest.mark.slow
@in_namespace(*VETH)
def test_losses_are_in_the_file_during_the_capture(tmp_path: Path) -> None:
    """Every few seconds, so that the losses of a capture that is killed are also known."""
    with started(**ANNOUNCED, buffer_octets=1 << 20, write_to=f"{tmp_path}/f") as session:
        os.kill(process_of(session), signal.SIGSTOP)
        send("va", (ethernet(number, 1000) for number in range(5000)))
        os.kill(process_of(session), signal.SIGCONT)
        wait_for(
            session, lambda _: contents_so_far(session).statistics.get(0, {}).get(4) == (5000).to_bytes(8, "little")
        )
        assert contents_so_far(session).counted()[1] == session.status.kernel_drops > 0


@pytest.mark.slow
@in_namespace(*VETH)
def test_a_ring_by_size_and_one_by_time(tmp_path: Path) -> None:
    (tmp_path / "size").mkdir()
    ring = RingLimits(filesize=2000)
    with capturing(**ANNOUNCED, write_to=f"{tmp_path}/size/f", ring=ring) as session:
        send("va", map(ethernet, range(100)))
        wait_for(session, lambda status: status.packets == 100)
    files = sorted((tmp_path / "size").iterdir())
    assert contents(*files).octets == [ethernet(number) for number in range(100)]
    # a file ends with the packet that reaches the size, and its statistics
    assert all(2000 <= file.stat().st_size < 2000 + 92 + 200 for file in files[:-1])
    (tmp_path / "time").mkdir()
    with capturing(**ANNOUNCED, write_to=f"{tmp_path}/time/f", ring=RingLimits(duration=0.05)) as session:
        for number in range(3):
            send("va", [ethernet(number)])
            wait_for(session, has_written(number + 1))
            time.sleep(0.06)
    # the first one may be complete before a packet arrived
    times = [contents(file).octets for file in sorted((tmp_path / "time").iterdir())]
    assert [octets for octets in times if octets] == [[ethernet(number)] for number in range(3)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "value", "packets"), [("packets", 7, 7), ("filesize", 1000, 9), ("duration", 0.2, 0)]
)
@in_namespace(*VETH)
def test_a_capture_ends_when_it_has_what_was_asked_for(limit: str, value: float, packets: int, tmp_path: Path) -> None:
    limits = Limits(**{limit: value})
    with started(**ANNOUNCED, write_to=f"{tmp_path}/f", stop_after=limits) as session:
        if limit != "duration":
            send("va", map(ethernet, range(50)))
        status = wait_for(session, lambda status: status.ended)
    assert (status.packets, status.kernel_drops, status.unread_drops, status.failure) == (packets, 0, 0, None)
    found = contents(tmp_path / "f")
    assert found.octets == [ethernet(number) for number in range(packets)]
    assert found.counted() == (packets, 0, packets)


@engines
@in_namespace(*VETH)
def test_drops_of_the_kernel_are_counted(engine: str, tmp_path: Path) -> None:
    """The process is stopped while more packets arrive than the buffer can hold."""
    with capturing(**ANNOUNCED, engine=engine, buffer_octets=1 << 20, write_to=f"{tmp_path}/f") as session:
        os.kill(process_of(session), signal.SIGSTOP)
        send("va", (ethernet(number, 1000) for number in range(20_000)))
        os.kill(process_of(session), signal.SIGCONT)
        status = wait_for(session, lambda status: status.packets + status.kernel_drops == 20_000)
        assert status.kernel_drops > 10_000
        assert status.freezes == (engine == "ring")
    found = contents(tmp_path / "f")
    assert found.counted() == (20_000, status.kernel_drops, len(found.packets))
    assert (b"was full 1 times" in found.statistics[0].get(1, b"")) == (engine == "ring")


@in_namespace(*VETH)
def test_the_ring_lasts_however_slowly_packets_arrive(tmp_path: Path) -> None:
    """A few packets do not use up one of the two or three blocks of the ring."""
    with capturing(**ANNOUNCED, buffer_octets=1 << 20, write_to=f"{tmp_path}/f") as session:
        os.kill(process_of(session), signal.SIGSTOP)
        for number in range(10):
            send("va", [ethernet(number)])
            time.sleep(0.05)
        os.kill(process_of(session), signal.SIGCONT)
        wait_for(session, has_written(10))
    assert contents(tmp_path / "f").octets == [ethernet(number) for number in range(10)]
    assert session.status.kernel_drops == 0


@in_namespace(*VETH)
def test_the_ring_has_room_for_what_was_asked_for(tmp_path: Path) -> None:
    """It has room even if the block that the kernel is filling contains packets that were already read."""
    before, size, overhead = 400, 1000, 90
    waiting = (1 << 20) // (size + overhead)
    with capturing(**ANNOUNCED, buffer_octets=1 << 20, write_to=f"{tmp_path}/f") as session:
        send("va", (ethernet(number, size) for number in range(before)))
        wait_for(session, has_written(before))
        os.kill(process_of(session), signal.SIGSTOP)
        send("va", (ethernet(number, size) for number in range(before, before + waiting)))
        os.kill(process_of(session), signal.SIGCONT)
        wait_for(session, lambda status: status.packets + status.kernel_drops == before + waiting)
    assert contents(tmp_path / "f").octets == [ethernet(number, size) for number in range(before + waiting)]


@engines
@in_namespace(*VETH)
def test_packets_before_the_stop_are_written(engine: str, tmp_path: Path) -> None:
    for turn in range(3):
        with capturing(**ANNOUNCED, engine=engine, write_to=f"{tmp_path}/{turn}") as session:
            send("va", map(ethernet, range(1000)))
        assert contents(tmp_path / f"{turn}").octets == [ethernet(number) for number in range(1000)]
        assert (session.status.packets, session.status.unread_drops) == (1000, 0)


@in_namespace(*VETH)
def test_a_killed_process_leaves_a_file_that_can_be_read(tmp_path: Path) -> None:
    with started(**ANNOUNCED, write_to=f"{tmp_path}/f") as session:
        send("va", map(ethernet, range(100)))
        wait_for(session, lambda status: status.packets == 100)
        os.kill(process_of(session), signal.SIGKILL)
        status = wait_for(session, lambda status: status.ended)
        assert not session.wait(0)
        assert status.failure == "the capture process was ended by SIGKILL"
        assert status.files[0].octets == (tmp_path / "f").stat().st_size
        assert contents(tmp_path / "f").octets == [ethernet(number) for number in range(100)]


@in_namespace(*VETH)
def test_a_full_disk_ends_the_capture_behind_a_whole_packet(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(tmp_path)], check=True)
    with started(**ANNOUNCED, write_to=f"{tmp_path}/f") as session:
        os.kill(process_of(session), signal.SIGSTOP)  # otherwise it ends before all were sent
        send("va", (ethernet(number, 1400) for number in range(2000)))
        os.kill(process_of(session), signal.SIGCONT)
        status = wait_for(session, lambda status: status.ended)
        assert status.failure == f"{tmp_path}/f: No space left on device; the packets captured until then can be read"
        found = contents(tmp_path / "f")
        assert found.octets == [ethernet(number, 1400) for number in range(len(found.packets))]
        assert 0 < status.packets == len(found.packets)
        assert status.packets + status.kernel_drops + status.unread_drops == 2000


@in_namespace(*VETH)
def test_a_full_temporary_directory_does_not_end_a_private_capture(tmp_path: Path) -> None:
    """Existing packets can be read and are then removed, and the next packets wait in memory."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(tmp_path)], check=True)
    os.environ["TMPDIR"] = str(tmp_path)
    with started(**ANNOUNCED) as session:
        send("va", (ethernet(number, 1400) for number in range(2000)))
        status = wait_for(session, has_written(2000))
        assert contents_so_far(session).octets == [ethernet(number, 1400) for number in range(2000)]
        (notice,) = status.notices
        assert notice.startswith(
            f"{tmp_path}: No space left on device; packets are buffered in /dev/shm until they are read"
        )
        read_all(session)
        wait_for(session, lambda _: not [*tmp_path.glob("*/*")])
        (folder,) = {Path(file.path).parent for file in status.files if file.path.startswith("/dev/shm")}
        assert folder.exists()
    assert not folder.exists()
    assert (status.failure, status.kernel_drops, status.unread_drops) == (None, 0, 0)


@pytest.mark.slow
@in_namespace(*VETH)
def test_without_any_room_a_private_capture_ends_with_the_directory_and_what_to_do(tmp_path: Path) -> None:
    for folder in (tmp_path, "/dev/shm"):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "none", str(folder)], check=True)
    os.environ["TMPDIR"] = str(tmp_path)
    with started(**ANNOUNCED) as session:
        send("va", (ethernet(number, 1400) for number in range(2000)))
        status = wait_for(session, lambda status: status.ended)
        assert status.failure == (
            "/dev/shm: No space left on device; no space to buffer packets until they are read -> set TMPDIR to a "
            "directory with free space, or name a file with -w"
        )
        assert contents_so_far(session).octets == [ethernet(number, 1400) for number in range(status.packets)]
        assert status.packets > 500


@engines
@in_namespace(*VETH)
def test_an_interface_that_is_deleted_ends_its_capture(engine: str, tmp_path: Path) -> None:
    with started(**ANNOUNCED, engine=engine, write_to=f"{tmp_path}/f") as session:
        send("va", map(ethernet, range(10)))
        wait_for(session, has_written(10))
        subprocess.run(["ip", "link", "delete", "vb"], check=True)
        assert wait_for(session, lambda status: status.ended).failure == "vb was removed"
    assert contents(tmp_path / "f").octets == [ethernet(number) for number in range(10)]


@engines
@in_namespace(*VETH, LOOPBACK)
def test_other_interfaces_are_captured_from_when_one_is_deleted(engine: str, tmp_path: Path) -> None:
    with capturing(interfaces=("vb", "lo"), engine=engine, write_to=f"{tmp_path}/f") as session:
        subprocess.run(["ip", "link", "delete", "vb"], check=True)
        wait_for(session, lambda status: "vb was removed; the capture continues without it" in status.notices)
        send_datagrams(5)
        wait_for(session, has_written(10))
    assert session.status.failure is None


@engines
@pytest.mark.parametrize("interfaces", some([("vb", "lo"), ("vb",)], 2))
@in_namespace(*VETH, LOOPBACK)
def test_an_interface_that_was_down_is_captured_from_again(
    engine: str, interfaces: tuple[str, ...], tmp_path: Path
) -> None:
    settings = {**ANNOUNCED, "interfaces": interfaces, "engine": engine}
    with capturing(**settings, write_to=f"{tmp_path}/f") as session:
        send("va", [ethernet(1)])
        wait_for(session, has_written(1))
        subprocess.run(["ip", "link", "set", "vb", "down"], check=True)
        wait_for(session, lambda status: "vb went down; the capture continues when it is up again" in status.notices)
        subprocess.run(["ip", "link", "set", "vb", "up"], check=True)
        wait_for(session, lambda status: "vb is up again" in status.notices)
        send("va", [ethernet(2)])
        wait_for(session, has_written(2))
    assert contents(tmp_path / "f").octets == [ethernet(1), ethernet(2)]
    assert session.status.failure is None


@in_namespace(*VETH)
def test_a_file_that_is_removed_ends_the_capture(tmp_path: Path) -> None:
    with started(**ANNOUNCED, write_to=f"{tmp_path}/f") as session:
        (tmp_path / "f").unlink()
        assert wait_for(session, lambda status: status.ended).failure == f"{tmp_path}/f was removed"


@in_namespace(*VETH, "ip link set vb down")
def test_a_capture_that_cannot_start_is_refused_with_a_sentence(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    refused = [
        ({"interfaces": ("vc",)}, "no interface named vc; use one of"),
        ({"interfaces": ("vb",)}, "vb is down"),
        ({"interfaces": ("va",), "write_to": str(tmp_path / "a" / "b")}, f"{tmp_path}/a/b: No such file or directory"),
        ({"interfaces": ("va",), "write_to": str(fifo)}, f"{fifo} exists and is not a plain file"),
        ({"interfaces": ("va",), "write_to": f"{tmp_path}/f", "ring": RingLimits(files=1)}, "a ring needs at least"),
        ({"interfaces": ("va",), "engine": "wings"}, "no engine named wings"),
        ({"interfaces": ("va",), "user": "nobody-here"}, "no user named nobody-here on this machine"),
    ]
    for settings, sentence in refused:
        with pytest.raises(CaptureRefused) as caught, started(**settings):
            pass
        assert str(caught.value).startswith(sentence), (settings, str(caught.value))


@in_namespace(*VETH)
def test_a_process_that_is_asked_to_end_writes_what_arrived(tmp_path: Path) -> None:
    with started(**ANNOUNCED, write_to=f"{tmp_path}/f") as session:
        send("va", map(ethernet, range(100)))
        os.kill(process_of(session), signal.SIGTERM)
        status = wait_for(session, lambda status: status.ended)
        assert (status.packets, status.failure) == (100, None)
    assert contents(tmp_path / "f").counted() == (100, 0, 100)


@in_namespace(*VETH)
def test_keys_on_the_terminal_signal_only_the_parent(tmp_path: Path) -> None:
    """Ctrl-C and Ctrl-Z go to all processes of the foreground group."""
    with started(**ANNOUNCED, write_to=f"{tmp_path}/f") as session:
        assert os.getpgid(process_of(session)) == process_of(session)


@engines
@in_namespace(*VETH)
def test_the_time_up_to_which_all_packets_are_written_is_known(engine: str, tmp_path: Path) -> None:
    with started(**ANNOUNCED, engine=engine, write_to=f"{tmp_path}/f") as session:
        # without packets
        begin = time.time_ns()
        assert session.status.known_until < begin
        wait_for(session, lambda status: status.known_until > begin)
        # with packets: some are older than the read that does not find them yet
        notes = []
        for number in range(200):
            send("va", [ethernet(number)])
            session.wait(0)
            notes.append((session.status.packets, session.status.known_until))
        wait_for(session, has_written(200))
        times = [time for _, time, _, _ in contents_so_far(session).packets]
        assert all(known_until < times[packets] for packets, known_until in notes if packets < 200)
        wait_for(session, lambda status: status.known_until > times[-1])


def test_a_read_without_packets_confirms_the_time_of_the_read_before_it() -> None:
    """A packet with an older time stamp may still be on its way when the read returns nothing."""
    settings = CaptureSettings(write_to="unwritten")
    capture = Capture(settings, create_autospec(PacketSource), OutputFiles(settings), create_autospec(Controls))
    start = capture.known_until
    capture.looked(start + 10, 1.0)
    assert capture.known_until == start
    capture.looked(start + 20, 2.0)
    assert capture.known_until == start + 10


@pytest.mark.slow
@engines
@in_namespace(*VETH, LOOPBACK)
def test_drops_of_several_interfaces_are_reported_of_none_of_them(engine: str, tmp_path: Path) -> None:
    """The kernel does not report their interface."""
    settings = {**ANNOUNCED, "interfaces": ("lo", "vb"), "engine": engine, "buffer_octets": 1 << 20}
    with capturing(**settings, write_to=f"{tmp_path}/f") as session:
        os.kill(process_of(session), signal.SIGSTOP)
        send("va", (ethernet(number, 1000) for number in range(5000)))
        os.kill(process_of(session), signal.SIGCONT)
        wait_for(session, lambda status: status.packets + status.kernel_drops == 5000)
    found = contents(tmp_path / "f")
    assert [name for _, name, _ in found.interfaces] == ["lo, vb", "lo", "vb"]
    dropped, written = session.status.kernel_drops, session.status.packets
    assert dropped > 0
    assert [found.counted(number) for number in range(3)] == [(dropped, dropped, 0), (0, 0, 0), (written, 0, written)]


@in_namespace(*VETH)
def test_an_abandoned_private_capture_is_removed_by_the_next_one(tmp_path: Path) -> None:
    os.environ["TMPDIR"] = str(tmp_path)
    left, new, other = (tmp_path / name for name in ("zmtpscope-capture-1", "zmtpscope-capture-2", "zmtpscope-3"))
    for folder in (left, new, other):
        folder.mkdir()
        (folder / "f").touch()
    for folder in (left, other):
        os.utime(folder, (0, 0))
    (tmp_path / "zmtpscope-capture-4").symlink_to(other)
    with started(interfaces=("vb",)) as running:
        wait_for(running, lambda status: status.files)
        path = Path(running.status.files[0].path).parent
        os.utime(path, (0, 0))
        assert {*tmp_path.iterdir()} == {new, other, path, tmp_path / "zmtpscope-capture-4"}
        os.kill(process_of(running), signal.SIGKILL)  # the packets that it wrote are still read
        wait_for(running, lambda status: status.ended)
        with started(interfaces=("vb",)):
            assert path.exists()
            assert (other / "f").exists()
    assert not path.exists()
