"""`zmtpscope live` with real peers: its output equals the output of `read` for the file, appears immediately, and
includes losses."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

import pytest
import zmq

from tests.cli.live_runs import Live, bodies, is_end_of_connection, push, read
from tests.cli.running import COMMAND, ROOT, Run, deadline
from tests.cli.terminal import Terminal
from tests.live.capture.capturing import contents, send_datagrams
from tests.live.capture.namespaces import VETH, in_namespace
from tests.live.capture.test_privileges import as_root
from tests.peer_octets import hello
from tests.readings import CAPTURES, PUBSUB
from tests.suites import some
from tests.waiting import PATIENCE
from zmtpscope.cli.capture_options import take_capture_filter
from zmtpscope.cli.progress import State, status_text
from zmtpscope.cli.signals import SAME_INTERRUPT, stopped_by_interrupt
from zmtpscope.live.capture.interfaces import interfaces

LOOPBACK = "ip link set lo up"


def test_nothing_is_loaded_before_the_capture_begins_that_reads_packets() -> None:
    """numpy and the analyser take longer to load than a socket to open, and packets would be missed meanwhile."""
    program = (
        "import sys, zmtpscope.cli.live, zmtpscope.cli.top\n"
        "import zmtpscope.live.followed_captures, zmtpscope.live.capture.process\n"
        "print({'numpy', 'zmtpscope.dissect', 'zmtpscope.capture', 'zmtpscope.export.pcapng'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "set()\n"


@in_namespace(LOOPBACK)
def test_live_prints_what_applications_sent_and_what_read_prints_of_the_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.pcapng"
    with Live("-i", "lo", "--json", "-w", path) as live:
        sent = push(500) if live.begun() else []
        lines = live.lines_until(is_end_of_connection)
        assert bodies(lines) == sent
        live.interrupt()
        code, rest, err = live.end()
    assert (code, err) == (0, f"zmtpscope: {len(contents(path).packets)} packets captured on lo, 0 dropped\n")
    assert read("--json", path) == (0, "".join(lines) + rest)


@pytest.mark.slow
@in_namespace(LOOPBACK)
def test_events_of_a_silent_connection_are_printed_by_the_clock(tmp_path: pathlib.Path) -> None:
    """A peer greets a server that sends nothing: although no packet follows, the greeting is printed."""
    path = tmp_path / "a.pcapng"
    with Live("-i", "lo", "--json", "-w", path) as live, socket.create_server(("127.0.0.1", 0)) as server:
        live.begun()
        with socket.create_connection(server.getsockname()) as client:
            client.sendall(hello("PUSH"))
            lines = live.lines_until(lambda line: '"record":"command"' in line)
            live.interrupt()
            code, rest, _ = live.end()
    assert code == 0
    assert [json.loads(line)["record"] for line in lines if '"finding"' not in line] == ["greeting", "command"]
    all_lines = [*lines, *rest.splitlines(keepends=True)]
    assert sorted(read("--json", path)[1].splitlines(keepends=True)) == sorted(all_lines)


@pytest.mark.slow
@in_namespace(LOOPBACK)
def test_a_server_that_hangs_is_reported_although_nothing_passes_any_more(tmp_path: pathlib.Path) -> None:
    path, context = tmp_path / "a.pcapng", zmq.Context()
    server, client = context.socket(zmq.REP), context.socket(zmq.REQ)
    port = server.bind_to_random_port("tcp://127.0.0.1")
    with context, server, client, Live("-i", "lo", "-q", "-w", path, "-f", f"tcp port {port}") as live:
        client.linger = server.linger = 0
        live.begun()
        client.connect(f"tcp://127.0.0.1:{port}")
        for _ in range(3):
            client.send(b"question")
            server.send(server.recv())
            client.recv()
        client.send(b"one more")
        (line,) = live.lines_until(lambda line: "request-unanswered" in line)
        assert "REP 127.0.0.1:" in line
        assert re.search(r" waits for \d", line)
        live.interrupt()
        assert live.end()[0] == 0
    printed = subprocess.run([*COMMAND, "check", str(path)], stdout=subprocess.PIPE, check=True).stdout
    assert b"does not reply to REQ 127.0.0.1" in printed


@in_namespace(LOOPBACK)
def test_without_a_file_nothing_is_left(tmp_path: pathlib.Path) -> None:
    os.environ["TMPDIR"] = str(tmp_path)
    with Live("-i", "any", "--json") as live:
        sent = push(50) if live.begun() else []
        lines = live.lines_until(is_end_of_connection)
        assert bodies(lines) == sent
        assert {json.loads(line)["file"] for line in lines} == {None}
        live.interrupt()
        assert live.end()[0] == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@in_namespace(LOOPBACK)
def test_a_ring_of_files_is_shown_whole(tmp_path: pathlib.Path) -> None:
    with Live("-i", "lo", "--json", "-w", tmp_path / "a.pcapng", "-b", "packets:10") as live:
        sent = [each for _ in range(4) for each in push(5)] if live.begun() else []
        lines = [line for _ in range(4) for line in live.lines_until(is_end_of_connection)]
        live.interrupt()
        code, rest, _ = live.end()
    files = sorted(tmp_path.iterdir())
    assert code == 0
    assert len(files) > 4
    assert bodies(lines) == sent
    assert read("--json", *files) == (0, "".join(lines) + rest)


@in_namespace(LOOPBACK)
def test_drops_of_the_kernel_are_counted_and_the_exit_code_is_3(tmp_path: pathlib.Path) -> None:
    """The capture process is stopped, and its buffer is too small for the packets that arrive meanwhile."""
    path, count = tmp_path / "a.pcapng", 20_000
    with Live("-i", "lo", "-f", "udp", "-B", "1", "--json", "-w", path) as live:
        live.begun()
        capture_process = live.capture_process()
        os.kill(capture_process, signal.SIGSTOP)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(count):
                sender.sendto(bytes(500), ("127.0.0.1", 9))
        os.kill(capture_process, signal.SIGCONT)
        live.interrupt()
        code, out, err = live.end()
    captured = contents(path)
    dropped = count - len(captured.packets)
    assert dropped > 0
    assert code == 3, (code, out, err)
    finding = json.loads(out)
    assert (finding["id"], finding["count"], finding["conn"]) == ("CAPTURE-01", dropped, None)
    assert f"{len(captured.packets)} packets captured on lo, {dropped} dropped; the kernel's buffer was full" in err
    assert f"{dropped} packets were dropped while they were captured: {dropped} on lo" in err
    assert read("--json", path) == (3, out)


@in_namespace(LOOPBACK)
def test_a_second_interrupt_ends_at_once(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.pcapng"
    with Live("-i", "lo", "--json", "-w", path) as live:
        live.begun()
        push(5)
        live.lines_until(is_end_of_connection)
        os.kill(live.capture_process(), signal.SIGSTOP)  # then it cannot react to a stop
        live.interrupt()
        with pytest.raises(subprocess.TimeoutExpired):
            live.process.wait(0.5)
        live.interrupt()
        assert live.end()[0] == 130
    assert read(path)[0] == 0


@pytest.mark.parametrize("name", some(["SIGHUP", "SIGTERM"], 2))
@in_namespace(LOOPBACK)
def test_a_signal_stops_the_capture_in_order(name: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.pcapng"
    with Live("-i", "lo", "-q", "-w", path) as live:
        live.begun()
        push(5)
        live.process.send_signal(signal.Signals[name])
        code, out, err = live.end()
    assert (code, err) == (0, f"zmtpscope: {len(contents(path).packets)} packets captured on lo, 0 dropped\n")
    assert "5 frames" in out


@in_namespace(LOOPBACK)
def test_a_terminal_that_is_closed_ends_the_capture_and_the_file_is_whole(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.pcapng"
    with Terminal("live", "-i", "lo", "-w", str(path)) as terminal:
        terminal.read_until("capturing on lo")
        push(5)
        terminal.hang_up()
        assert terminal.process.wait(PATIENCE) == 0
    found = contents(path)
    assert found.counted() == (len(found.packets), 0, len(found.packets))


@in_namespace(LOOPBACK)
def test_counts_are_printed_on_request() -> None:
    with Live("-i", "lo", "--json") as live:
        live.begun()
        live.process.send_signal(signal.SIGUSR1)  # before anything is loaded that could count
        assert live.process.stderr is not None
        with deadline(live.process):
            line = live.process.stderr.readline().decode()
        assert line == "zmtpscope: 0 packets  0 messages  0 connections  0 dropped\n"
        push(5)
        live.lines_until(is_end_of_connection)
        live.process.send_signal(signal.SIGUSR1)
        with deadline(live.process):
            line = live.process.stderr.readline().decode()
        assert " packets  5 messages  0 connections  0 dropped" in line
        live.interrupt()
        assert live.end()[0] == 0


@pytest.mark.slow
@in_namespace(*VETH)
def test_an_interface_that_goes_down_is_named_and_does_not_end_the_capture() -> None:
    with Live("-i", "vb", "--json") as live:
        live.begun()
        subprocess.run(["ip", "link", "set", "vb", "down"], check=True)
        assert live.process.stderr is not None
        with deadline(live.process):
            line = live.process.stderr.readline().decode()
        assert line == "zmtpscope: vb went down; the capture continues when it is up again\n"
        live.interrupt()
        assert live.end()[0] == 0


@in_namespace(LOOPBACK)
def test_a_full_temporary_directory_is_named_and_lines_continue(tmp_path: pathlib.Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(tmp_path)], check=True)
    os.environ["TMPDIR"] = str(tmp_path)
    with Live("-i", "lo", "--json") as live:
        sent = push(500, 1000) if live.begun() else []
        assert bodies(live.lines_until(is_end_of_connection)) == sent
        live.interrupt()
        code, _, err = live.end()
    assert (code, err.count("\n")) == (0, 2)
    assert err.startswith(f"zmtpscope: {tmp_path}: No space left on device; packets are buffered in /dev/shm until")
    assert "set TMPDIR to a directory with more space" in err


def test_a_hangup_stops_once_and_stays_ignored_where_it_was() -> None:
    stops: list[str] = []
    with stopped_by_interrupt(lambda: stops.append("stop")):
        signal.raise_signal(signal.SIGHUP)
        time.sleep(2 * SAME_INTERRUPT)
        signal.raise_signal(signal.SIGHUP)
    assert stops == ["stop"]
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stopped_by_interrupt(lambda: stops.append("stop")):
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(("pause", "interrupts"), [(0.0, 0), (2 * SAME_INTERRUPT, 1)])
def test_simultaneous_signals_are_one(pause: float, interrupts: int) -> None:
    """timeout(1) sends its signal to the command, and then to its process group."""
    stops, interrupted = [], 0
    with stopped_by_interrupt(lambda: stops.append("stop")):
        signal.raise_signal(signal.SIGTERM)
        time.sleep(pause)
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            interrupted += 1
    assert (stops, interrupted) == (["stop"], interrupts)


@pytest.mark.slow
@in_namespace(LOOPBACK)
def test_a_capture_that_is_killed_leaves_what_can_be_read(tmp_path: pathlib.Path) -> None:
    for victim, codes in (("capture", {1}), ("live", {-signal.SIGKILL})):
        path = tmp_path / f"{victim}.pcapng"
        with Live("-i", "lo", "--json", "-w", path) as live:
            live.begun()
            push(5)
            lines = live.lines_until(is_end_of_connection)
            capture_process = live.capture_process()
            os.kill(capture_process if victim == "capture" else live.process.pid, signal.SIGKILL)
            code, _, err = live.end()
        assert code in codes
        if victim == "capture":
            assert f"{len(contents(path).packets)} packets captured on lo, 0 dropped" in err
            assert "the capture process was ended by SIGKILL" in err, err
        end = time.monotonic() + PATIENCE
        while os.path.exists(f"/proc/{capture_process}") and time.monotonic() < end:
            time.sleep(0.01)
        assert not os.path.exists(f"/proc/{capture_process}")
        code, out = read("--json", path)
        assert code in (0, 3)
        assert out.splitlines(keepends=True)[: len(lines)] == lines


@pytest.mark.slow
@in_namespace(LOOPBACK)
def test_a_capture_stops_at_its_limits(tmp_path: pathlib.Path) -> None:
    for limit in (("-c", "3"), ("-a", "packets:3"), ("-a", "duration:0.2")):
        path = tmp_path / "a.pcapng"
        with Live("-i", "lo", "-q", "-w", path, *limit) as live:
            live.begun()
            if "duration:0.2" not in limit:
                push(5)
            code, out, _ = live.end()
        assert code == 0
        assert out.startswith(f"packets          {len(contents(path).packets)} (")
        assert len(contents(path).packets) == (0 if "duration:0.2" in limit else 3)


@in_namespace(LOOPBACK)
def test_another_tool_captures_and_we_follow_its_pipe() -> None:
    if subprocess.run(["tcpdump", "--version"], capture_output=True, check=False).returncode:
        pytest.skip("tcpdump is not installed")
    # the ring of an engine in immediate mode has room for 32 packets of the loopback interface by default
    command = ["tcpdump", "-i", "lo", "-U", "-Z", "root", "--immediate-mode", "-B", "65536", "-w", "-"]
    tcpdump = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert tcpdump.stdout is not None
    assert tcpdump.stderr is not None
    tcpdump.stderr.readline()
    with Live("-", "--json", stdin=tcpdump.stdout.fileno()) as live:
        tcpdump.stdout.close()
        sent = push(100)
        lines = live.lines_until(is_end_of_connection)
        assert bodies(lines) == sent
        tcpdump.send_signal(signal.SIGINT)
        assert live.end()[0] == 0
    tcpdump.communicate()


@pytest.mark.parametrize("step", [1, 1000])
def test_a_file_is_followed_while_another_process_writes_it(tmp_path: pathlib.Path, step: int) -> None:
    octets, path = PUBSUB.read_bytes(), tmp_path / "a.pcap"
    with Live(path, "--json") as live:
        assert live.process.stderr is not None
        assert b"does not exist yet; waiting for it" in live.process.stderr.readline()
        with path.open("wb", buffering=0) as file:
            for at in range(0, len(octets), step):
                file.write(octets[at : at + step])
            lines = live.lines_until(is_end_of_connection)
            live.interrupt()
        code, rest, err = live.end()
    assert (code, err) == (0, "")
    assert read("--json", path) == (0, "".join(lines) + rest)


def test_keys_added_while_a_file_is_followed_open_later_traffic(tmp_path: pathlib.Path) -> None:
    capture, keys = CAPTURES / "security/curve-with-key-log.pcap", CAPTURES / "security/curve-with-key-log.keys"
    path, log = tmp_path / "a.pcap", tmp_path / "a.keys"
    log.touch(0o600)
    with Live(path, "--json", "--keys", log) as live:
        assert live.process.stderr is not None
        live.process.stderr.readline()  # the file does not exist yet
        log.write_bytes(keys.read_bytes())
        path.write_bytes(capture.read_bytes())
        lines = live.lines_until(is_end_of_connection)
        live.interrupt()
        code, rest, err = live.end()
    assert (code, err) == (0, "")
    assert any('"decrypted":true' in line for line in lines)
    assert read("--json", "--keys", keys, path) == (0, "".join(lines) + rest)


def test_a_packet_that_is_being_written_at_the_stop_is_no_damage(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(PUBSUB.read_bytes()[:-1])
    with Live(path, "--json") as live:
        live.lines_until(is_end_of_connection)
        live.interrupt()
        assert live.end()[::2] == (0, "")
    assert read(path)[0] == 3


def test_a_file_that_was_removed_ends_with_a_sentence(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(PUBSUB.read_bytes())
    with Live(path, "--json") as live:
        live.lines_until(is_end_of_connection)
        path.unlink()
        code, _, err = live.end()
    assert code == 3
    assert err.startswith(f"zmtpscope: {path}: it was removed while it was followed (after packet ")


def test_interfaces_are_listed(zmtpscope: Run) -> None:
    code, out, _ = zmtpscope("live", "-D", "--json")
    assert code == 0
    names = [json.loads(line)["name"] for line in out.splitlines()]
    assert "lo" in names
    text = zmtpscope("live", "-D")[1]
    assert [line.split()[1] for line in text.splitlines()] == names
    assert zmtpscope("live", "-L")[1] == zmtpscope("live", "--list-interfaces")[1] == text


@pytest.mark.parametrize("words", [["-f", "tcp port 5"], ["tcp", "port", "5"], ["tcp port 5"]])
def test_words_behind_the_interface_are_the_capture_filter(words: list[str]) -> None:
    """The syntax is that of tcpdump and tshark."""
    given = {"interfaces": ("lo",), "filter_": "", "files": tuple(words)}
    if words[0] == "-f":
        given |= {"filter_": words[1], "files": ()}
    take_capture_filter(given)
    assert (given["filter_"], given["files"]) == ("tcp port 5", ())


@in_namespace(LOOPBACK)
def test_only_packets_that_match_the_words_behind_the_interface_are_captured(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.pcapng"
    with Live("-i", "lo", "-w", path, "udp", "and", "dst", "port", "9", "-q") as live:
        live.begun()
        push(2)
        send_datagrams(5)
        live.interrupt()
        assert live.end()[0] == 0
    assert len(contents(path).packets) == 5


@in_namespace(LOOPBACK)
def test_an_interface_given_by_its_number_is_named() -> None:
    names = [each.name for each in interfaces()]
    with Live("-i", str(names.index("lo") + 1), "-a", "duration:0.1", "-q") as live:
        err = live.end()[2]
    assert err.splitlines() == [
        "zmtpscope: capturing on lo; Ctrl-C stops",
        "zmtpscope: 0 packets captured on lo, 0 dropped",
    ]


@in_namespace("mount -t tmpfs none /run", "mkdir /run/netns", "ip netns add lab", "ip -n lab link add va type veth")
def test_the_interfaces_of_another_namespace_are_listed() -> None:
    with Live("-D", "--netns", "lab") as live:
        code, out, _ = live.end()
    assert code == 0
    assert sorted(line.split()[1] for line in out.splitlines()) == ["any", "lo", "va", "veth0"]
    with Live("-D", "--netns", "lap") as live:
        code, _, err = live.end()
    assert code == 2
    assert err.startswith("zmtpscope live: no network namespace named lap: did you mean lab?")


@in_namespace(LOOPBACK)
def test_a_filter_that_makes_no_sense_has_a_caret_under_it() -> None:
    with Live("-i", "lo", "-f", "tcp prot 5") as live:
        code, out, err = live.end()
    assert (code, out) == (2, "")
    words, text, caret = err.splitlines()
    assert words.startswith("zmtpscope live: ")
    assert text[caret.index("^") :].startswith("prot")


@as_root
def test_a_user_who_may_not_capture_gets_the_command_to_type() -> None:
    without = ["setpriv", "--bounding-set=-net_raw"]
    done = subprocess.run([*without, *COMMAND, "live", "-i", "lo"], capture_output=True, text=True, check=False)
    sentence, *ways = done.stderr.splitlines()
    assert done.returncode == 2
    assert sentence.startswith("zmtpscope live: capture needs CAP_NET_RAW, which root does not have here")
    assert ways[0] == "  docker run --cap-add NET_RAW ...  (starts the container with this capability)"


def test_the_status_line_shows_progress() -> None:
    state = State(packets=1204, messages=310, connections=1, dropped=0, lag=0.2)
    assert status_text(state, 25.4) == "1,204 packets  310 messages (25/s)  1 connection  0 dropped"
    assert status_text(state._replace(lag=2.04, connections=2), 0).endswith("2 connections  0 dropped  lag 2.0 s")
