"""`zmtpscope live -w` to standard output, a FIFO or a device, which another program reads meanwhile."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import threading

import pytest

from tests.cli.live_runs import Live, bodies, is_end_of_connection, push, read
from tests.cli.running import COMMAND, ROOT, Run
from tests.cli.terminal import Terminal
from tests.live.capture.capturing import contents
from tests.live.capture.namespaces import in_namespace

LOOPBACK = "ip link set lo up"


@in_namespace(LOOPBACK)
def test_packets_go_to_standard_output_and_lines_to_standard_error(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.pcapng"
    with Live("-i", "lo", "--json", "-w", "-") as live:
        live.begun()
        sent = push(50)
        live.interrupt()
        assert live.process.stdout is not None
        assert live.process.stderr is not None
        path.write_bytes(live.process.stdout.read())
        lines = live.process.stderr.read().decode().splitlines(keepends=True)
        assert live.process.wait() == 0
    assert lines.pop() == f"zmtpscope: {len(contents(path).packets)} packets captured on lo, 0 dropped\n"
    assert bodies(lines) == sent
    name = f'"file":"{path}"'
    assert read("--json", path) == (0, "".join(lines).replace('"file":null', name))


@in_namespace(LOOPBACK)
def test_wireshark_can_read_the_pipe(tmp_path: pathlib.Path) -> None:
    """`wireshark -k -i -` lets dumpcap read the pipe."""
    if shutil.which("dumpcap") is None:
        pytest.skip("dumpcap is not installed")
    path = tmp_path / "a.pcapng"
    with Live("-i", "lo", "-q", "-w", "-") as live:
        live.begun()
        assert live.process.stdout is not None
        dumpcap = subprocess.Popen(
            ["dumpcap", "-q", "-i", "-", "-w", str(path)], stdin=live.process.stdout, stderr=subprocess.PIPE
        )
        live.process.stdout.close()
        sent = push(50)
        live.interrupt()
        assert live.process.stderr is not None
        captured = live.process.stderr.read().decode().splitlines()[-1]
        assert live.process.wait() == 0
        _, errors = dumpcap.communicate()
    assert dumpcap.returncode == 0, errors
    assert captured == f"zmtpscope: {len(contents_of_any(path))} packets captured on lo, 0 dropped"
    code, out = read("--json", path)
    assert (code, bodies(out.splitlines())) == (0, sent)


def contents_of_any(path: pathlib.Path) -> list[str]:
    """A line for each packet of a capture that another program wrote."""
    done = subprocess.run(["tcpdump", "-n", "-r", str(path)], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@in_namespace(LOOPBACK)
def test_a_program_that_ends_stops_the_capture(tmp_path: pathlib.Path) -> None:
    with Live("-i", "lo", "-q", "-w", "-") as live:
        live.begun()
        push(5)
        assert live.process.stdout is not None
        assert live.process.stderr is not None
        assert live.process.stdout.read(8)
        live.process.stdout.close()
        err = live.process.stderr.read().decode()
        assert live.process.wait() == 0
    assert "messages         5 (5 frames" in err
    assert "the program that read standard output closed it, so the capture stopped" in err


@in_namespace(LOOPBACK)
def test_a_fifo_gets_the_packets_from_the_beginning(tmp_path: pathlib.Path) -> None:
    """The pipe has also earlier packets than its reader; lines do not wait for the reader."""
    fifo, path = tmp_path / "fifo", tmp_path / "a.pcapng"
    os.mkfifo(fifo)
    with Live("-i", "lo", "--json", "-w", fifo) as live:
        live.begun()
        assert live.process.stderr is not None
        waiting = live.process.stderr.readline().decode()
        assert waiting == f"zmtpscope: packets are buffered until a program reads {fifo}\n"
        sent = push(50)
        lines = live.lines_until(is_end_of_connection)
        assert bodies(lines) == sent
        reader = threading.Thread(target=lambda: path.write_bytes(fifo.read_bytes()))
        reader.start()
        more = push(5)
        lines = live.lines_until(is_end_of_connection)
        assert bodies(lines) == more
        live.interrupt()
        code, _, err = live.end()
        reader.join()
    assert (code, err) == (0, f"zmtpscope: {len(contents(path).packets)} packets captured on lo, 0 dropped\n")
    assert bodies(read("--json", path)[1].splitlines()) == sent + more


@in_namespace(LOOPBACK)
def test_a_fifo_that_is_never_read_does_not_keep_the_capture_from_its_end(tmp_path: pathlib.Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with Live("-i", "lo", "-q", "-w", fifo, "-a", "duration:0.1") as live:
        code, _, err = live.end()
    assert code == 0
    assert err.endswith(f"zmtpscope: no program read {fifo}\n")


@in_namespace(LOOPBACK)
def test_a_device_is_written_to(tmp_path: pathlib.Path) -> None:
    with Live("-i", "lo", "--json", "-w", "/dev/null") as live:
        live.begun()
        sent = push(5)
        assert bodies(live.lines_until(is_end_of_connection)) == sent
        live.interrupt()
        assert live.end()[0] == 0
    with Live("-i", "lo", "-q", "-w", "/dev/full") as live:
        code, _, err = live.end()
    assert (code, err.splitlines()[-1]) == (1, "zmtpscope: /dev/full: No space left on device")
    assert not pathlib.Path("/dev/null").is_file()


@in_namespace(LOOPBACK)
def test_packets_are_not_written_to_a_terminal() -> None:
    with Terminal("live", "-i", "lo", "-w", "-") as terminal:
        code, errors = terminal.end()
    assert code == 2
    assert "standard output is a terminal: add | wireshark -k -i -" in errors.replace("\r\n", "")


def test_a_stream_is_no_ring(zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for target in ("-", tmp_path / "fifo"):
        code, out, err = zmtpscope("live", "-i", "lo", "-w", target, "-b", "filesize:1")
        assert (code, out) == (2, "")
        assert f"-b writes a ring of files, but -w {target} is a single stream: leave out one of them" in err


def test_the_screen_is_on_standard_output(zmtpscope: Run) -> None:
    code, _, err = zmtpscope("tui", "-i", "lo", "-w", "-")
    assert code == 2
    assert "-w -: the screen is on standard output; write the packets to a file or a FIFO" in err


def test_without_standard_error_only_packets_are_written() -> None:
    live = [*COMMAND, "live", "-i", "lo", "-a", "duration:0.1", "-q", "-w", "-"]
    command = ["sh", "-c", '"$@" 2>&- | wc -c', "sh", *live]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert int(done.stdout) % 4 == 0
