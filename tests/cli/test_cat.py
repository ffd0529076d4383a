"""`zmtpscope cat`: how messages are written and read, when it ends, and cat talking to cat."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import pty
import select
import subprocess
import time

import pytest

from tests.cli.running import Cat, Run
from tests.libzmq import Libzmq
from tests.waiting import PATIENCE, in_thread


class TestDraftTypes:
    def test_client_and_server(self, cat: Run) -> None:
        with Cat("server", "tcp://:0", "--bind", "--echo", "-c", "2") as server:
            code, out, err = cat("client", server.endpoint(), "-c", 2, stdin=b"one\ntwo\n")
            assert (code, out, err) == (0, "one\ntwo\n", "")
            code, out, _ = server.end()
        assert code == 0
        names, bodies = zip(*(line.split("\t") for line in out.splitlines()), strict=True)
        assert bodies == ("one", "two")
        assert names[0] == names[1]
        assert names[0].startswith("\\x00")

    def test_radio_and_dish(self, cat: Run) -> None:
        with Cat("dish", "tcp://:0", "--bind", "--join", "weather", "--join", "news", "-c", "2") as dish:
            lines = b"weather\tsunny\nsports\t1:0\nnews\tnone\n"
            code, _, err = cat("radio", dish.endpoint(), stdin=lines)
            assert (code, err) == (0, 'zmtpscope: no peer subscribed to "sports": not sent\n')
            assert dish.end() == (0, "weather\tsunny\nnews\tnone\n", "")

    def test_scatter_and_gather(self, cat: Run) -> None:
        with Cat("gather", "tcp://:0", "--bind", "-c", "2") as gather:
            assert cat("scatter", gather.endpoint(), "one", "two") == (0, "", "")
            assert gather.end() == (0, "one\ntwo\n", "")

    def test_channel(self, cat: Run) -> None:
        with Cat("channel", "tcp://:0", "--bind", "--echo", "-c", "1") as other:
            assert cat("channel", other.endpoint(), "hello", "-c", 1) == (0, "hello\n", "")
            assert other.end() == (0, "hello\n", "")

    def test_peer(self, cat: Run) -> None:
        with Cat("peer", "tcp://:0", "--bind") as other:
            arguments = ["--part", "who", "--part", "hello", "--wait", 0.2]
            code, out, err = cat("peer", other.endpoint(), *arguments)
        assert (code, out) == (11, "")
        assert err.startswith('zmtpscope: no peer named "who" connected within 0.2 s: not sent\n')


class TestMessages:
    """Sent messages, as a PULL of libzmq receives them."""

    def sent(self, libzmq: Libzmq, cat: Run, count: int, *arguments: object, stdin: bytes = b"") -> list[list[bytes]]:
        socket, endpoint = libzmq.bound("PULL")
        taking = in_thread(lambda: [socket.recv_multipart() for _ in range(count)])
        assert cat("push", endpoint, *arguments, stdin=stdin) == (0, "", "")
        taken: list[list[bytes]] = taking.result(PATIENCE)
        return taken

    def test_arguments(self, libzmq: Libzmq, cat: Run, tmp_path: pathlib.Path) -> None:
        (tmp_path / "file").write_bytes(b"\0\xff\n")
        sent = self.sent(libzmq, cat, 4, "one", "", f"@{tmp_path}/file", "@@home", "--")
        assert sent == [[b"one"], [b""], [b"\0\xff\n"], [b"@home"]]

    def test_parts(self, libzmq: Libzmq, cat: Run, tmp_path: pathlib.Path) -> None:
        (tmp_path / "file").write_bytes(b"0a")
        parts = ["one", "", f"@{tmp_path}/file", "tab\t"]
        assert self.sent(libzmq, cat, 1, *[each for part in parts for each in ("--part", part)]) == [
            [b"one", b"", b"0a", b"tab\t"]
        ]

    def test_hex(self, libzmq: Libzmq, cat: Run) -> None:
        assert self.sent(libzmq, cat, 2, "--hex", "00 ff", "") == [[b"\0\xff"], [b""]]
        assert self.sent(libzmq, cat, 1, "--hex", "--part", "00", "--part", "01") == [[b"\0", b"\1"]]

    def test_lines(self, libzmq: Libzmq, cat: Run) -> None:
        lines = b"one\n\n@file\r\ntab\tbed\\x00\nlast"
        assert self.sent(libzmq, cat, 5, stdin=lines) == [
            [b"one"], [b""], [b"@file\r"], [b"tab\tbed\\x00"], [b"last"]
        ]  # fmt: skip

    def test_nul_separated(self, libzmq: Libzmq, cat: Run) -> None:
        assert self.sent(libzmq, cat, 3, "-0", stdin=b"a\nb\0\0c") == [[b"a\nb"], [b""], [b"c"]]

    def test_parts_of_lines(self, libzmq: Libzmq, cat: Run) -> None:
        sent = self.sent(libzmq, cat, 2, "--separator", "||", stdin=b"a||b||\nc\n")
        assert sent == [[b"a", b"b", b""], [b"c"]]
        assert self.sent(libzmq, cat, 1, "--separator", "\\x1f", "--hex", stdin=b"00\x1fff\n") == [[b"\0", b"\xff"]]

    def test_a_count_of_messages(self, libzmq: Libzmq, cat: Run) -> None:
        assert self.sent(libzmq, cat, 5, "-c", 5, "a", "b") == [[b"a"], [b"b"], [b"a"], [b"b"], [b"a"]]
        assert self.sent(libzmq, cat, 2, "-c", 2, stdin=b"a\nb\nc\n") == [[b"a"], [b"b"]]

    def test_a_rate(self, libzmq: Libzmq, cat: Run) -> None:
        begin = time.monotonic()
        self.sent(libzmq, cat, 9, "-c", 9, "x", "--rate", 20)
        assert 0.4 <= time.monotonic() - begin < 2

    def test_many_lines_arrive(self, libzmq: Libzmq, cat: Run) -> None:
        count = 50_000
        lines = b"".join(b"%d\n" % number for number in range(count))
        assert self.sent(libzmq, cat, count, stdin=lines) == [[b"%d" % number] for number in range(count)]

    def test_a_message_larger_than_any_buffer(self, libzmq: Libzmq, cat: Run) -> None:
        large = os.urandom(20 << 20).replace(b"\n", b"")
        assert self.sent(libzmq, cat, 1, stdin=large) == [[large]]

    def test_a_line_that_is_too_long(self, libzmq: Libzmq, cat: Run) -> None:
        endpoint = libzmq.endpoint("PULL")
        code, _, err = cat("push", endpoint, stdin=b"short\n" + b"x" * (64 << 20) + b"x\n")
        assert code == 2
        assert err == "zmtpscope: line 2 of standard input is longer than 64 MiB\n"

    def test_standard_input_that_is_closed(self, libzmq: Libzmq) -> None:
        endpoint = libzmq.endpoint("PULL")
        command = f"exec 0<&-; exec {' '.join(map(repr, Cat.command('push', endpoint)))}"
        done = subprocess.run(command, shell=True, env=Cat.environment(), capture_output=True, timeout=PATIENCE)
        assert (done.returncode, done.stderr) == (0, b"")


class TestOutput:
    MESSAGES = ([b"one"], [b"t\tab", b"", b"\xc3\xbc\\", b"\xff\x1b\xc2\x85\n"])

    @pytest.fixture
    def endpoint(self, libzmq: Libzmq) -> str:
        socket, endpoint = libzmq.bound("PUSH")
        in_thread(lambda: [socket.send_multipart(parts) for parts in self.MESSAGES])
        return endpoint

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            (["--output", "text"], "one\nt\\x09ab\t\t\u00fc\\\\\t\\xff\\x1b\\xc2\\x85\\x0a\n"),
            (["--output", "hex"], "6f6e65\n74096162\t\tc3bc5c\tff1bc2850a\n"),
            (["--output", "hex", "--separator", ":", "-0"], "6f6e65\x0074096162::c3bc5c:ff1bc2850a\0"),
        ],
    )
    def test_forms(self, endpoint: str, arguments: list[str], expected: str, cat: Run) -> None:
        assert cat("pull", endpoint, "-c", 2, *arguments) == (0, expected, "")

    def test_raw_is_what_pipes_get(self, endpoint: str) -> None:
        with Cat("pull", endpoint, "-c", "2") as pulling:
            assert pulling.process.communicate(timeout=PATIENCE)[0] == b"\n".join(
                [b"one", b"t\tab\t\t\xc3\xbc\\\t\xff\x1b\xc2\x85\n", b""]
            )

    def test_json(self, endpoint: str, cat: Run) -> None:
        code, out, _ = cat("pull", endpoint, "-c", 2, "--json")
        assert code == 0
        one, two = map(json.loads, out.split("\n")[:2])
        assert list(one) == ["ts_ns", "time", "peer", "parts", "sizes", "bodies", "texts"]
        assert (one["peer"], one["parts"], one["sizes"], one["texts"]) == (None, 1, [3], ["one"])
        assert [base64.b64decode(body) for body in two["bodies"]] == self.MESSAGES[1]
        assert two["texts"] == ["t\tab", "", "\u00fc\\\\", "\\xff\x1b\x85\n"]
        assert abs(two["ts_ns"] / 1e9 - time.time()) < 60

    def test_json_names_the_peer(self, libzmq: Libzmq, cat: Run) -> None:
        socket, endpoint = libzmq.bound("DEALER", routing_id=b"\xffA")
        in_thread(lambda: socket.send(b"hello"))
        code, out, _ = cat("router", endpoint, "-c", 1, "--json")
        assert code == 0
        assert (json.loads(out)["peer"], json.loads(out)["texts"]) == ("\\xffA", ["hello"])

    @pytest.mark.parametrize("arguments", [[], ["--json"]])
    def test_nothing_but_printable_characters_reaches_a_terminal(self, endpoint: str, arguments: list[str]) -> None:
        master, slave = pty.openpty()
        with Cat("pull", endpoint, "-c", "2", *arguments, stdout=slave) as pulling:
            os.close(slave)
            shown = b""
            while piece := on_terminal(master):
                shown += piece
            assert pulling.end()[0] == 0
        os.close(master)
        assert shown.replace(b"\r\n", b"").replace(b"\t", b"").decode().isprintable()
        assert not arguments or shown.isascii()
        assert b"one" in shown


def on_terminal(master: int) -> bytes:
    """Return the next output; empty when no process can write any more."""
    assert select.select([master], [], [], PATIENCE)[0]
    try:
        return os.read(master, 1 << 16)
    except OSError:
        return b""


class TestRunning:
    def test_a_subscriber_shows_each_message_at_once_until_it_is_stopped(self, libzmq: Libzmq) -> None:
        socket, endpoint = libzmq.bound("XPUB")
        with Cat("sub", endpoint, "--subscribe", "weather") as subscribing:
            assert socket.recv() == b"\1weather"
            for text in ("weather 1", "weather 2"):
                socket.send(text.encode())
                assert subscribing.line() == text
            assert subscribing.end(interrupt=True) == (0, "", "")

    def test_a_background_job_is_terminated(self, libzmq: Libzmq, tmp_path: pathlib.Path) -> None:
        socket, endpoint = libzmq.bound("PUSH")
        capture = tmp_path / "out.pcapng"
        with Cat("pull", endpoint, "-w", str(capture)) as pulling:
            socket.send(b"one")
            assert pulling.line() == "one"
            pulling.process.terminate()
            assert pulling.end() == (0, "", "")
        assert b"\0\3one" in capture.read_bytes()

    def test_a_request_that_is_stopped_is_130(self, libzmq: Libzmq) -> None:
        socket, endpoint = libzmq.bound("REP")
        with Cat("req", endpoint, "hello") as asking:
            assert socket.recv() == b"hello"
            assert asking.end(interrupt=True) == (130, "", "")

    def test_a_terminal_that_is_not_answered_does_not_hold_up_the_end(self, libzmq: Libzmq) -> None:
        socket, endpoint = libzmq.bound("PULL")
        with Cat("push", endpoint) as pushing:
            pushing.write_line("hello")
            assert socket.recv() == b"hello"
            pushing.process.send_signal(2)
            assert pushing.process.wait(PATIENCE) == 130

    def test_a_closed_pipe_is_no_error(self, libzmq: Libzmq) -> None:
        socket, endpoint = libzmq.bound("PUSH")
        with Cat("pull", endpoint) as pulling:
            socket.send(b"one")
            assert pulling.line() == "one"
            pulling.process.stdout.close()  # type: ignore[union-attr]
            pulling.process.stdout = None
            socket.send(b"two")
            assert pulling.end() == (0, "", "")

    def test_output_without_a_reader_does_not_delay_the_end(self, libzmq: Libzmq) -> None:
        socket, endpoint = libzmq.bound("PUSH")
        with Cat("pull", endpoint) as pulling:
            for _ in range(20):
                socket.send(bytes(100_000))
            time.sleep(0.3)
            pulling.process.send_signal(2)
            assert pulling.process.wait(PATIENCE) == 0

    def test_names_can_be_typed_back(self, libzmq: Libzmq) -> None:
        with Cat("router", "tcp://:0", "--bind", "--output", "text") as routing:
            endpoint = routing.endpoint()
            sockets = [libzmq.socket("DEALER"), libzmq.socket("DEALER", routing_id=b"caf\xc3\xa9\t\\")]
            for socket in sockets:
                socket.connect(endpoint)
                socket.send(b"hello")
                name, _, message = routing.line().partition("\t")
                assert message == "hello"
                routing.write_line(f"{name}\tand a tab\t")
                assert socket.recv_multipart() == [b"and a tab\t"]
            assert name == "caf\u00e9\\x09\\\\"
            assert routing.end(interrupt=True)[0] == 0

    def test_answers_from_standard_input(self, libzmq: Libzmq) -> None:
        with Cat("rep", "tcp://:0", "--bind") as answering:
            socket = libzmq.socket("REQ")
            socket.connect(answering.endpoint())
            for text in ("one", "two"):
                socket.send(text.encode())
                assert answering.line() == text
                answering.write_line(text.upper())
                assert socket.recv() == text.upper().encode()
            answering.process.stdin.close()  # type: ignore[union-attr]
            answering.process.stdin = None
            assert answering.end() == (0, "", "")

    def test_answers_run_out(self, libzmq: Libzmq, cat: Run, tmp_path: pathlib.Path) -> None:
        endpoint = f"ipc://{tmp_path}/socket"
        socket = libzmq.socket("REQ")
        socket.connect(endpoint)

        def ask() -> list[bytes]:
            answers = []
            for _ in range(2):
                socket.send(b"?")
                answers.append(socket.recv())
            return answers

        asking = in_thread(ask)
        assert cat("rep", endpoint, "--bind", stdin=b"a\nb\n")[:2] == (0, "?\n?\n")
        assert asking.result(PATIENCE) == [b"a", b"b"]

    def test_a_publisher_waits_for_a_subscription(self, libzmq: Libzmq) -> None:
        with Cat("pub", "tcp://:0", "--bind", "weather", "news") as publishing:
            endpoint = publishing.endpoint()
            time.sleep(0.2)
            socket = libzmq.socket("SUB", subscribe=b"")
            socket.connect(endpoint)
            assert [socket.recv(), socket.recv()] == [b"weather", b"news"]
            assert publishing.end() == (0, "", "")

    def test_a_subscriber_returns(self, libzmq: Libzmq) -> None:
        socket, endpoint = libzmq.bound("XPUB")
        with Cat("sub", endpoint) as subscribing:
            socket.recv()
            socket.send(b"one")
            assert subscribing.line() == "one"
            socket.close()
            assert "the other side closed the connection; reconnecting" in subscribing.line(subscribing.process.stderr)
            socket = libzmq.socket("XPUB")
            socket.bind(endpoint)
            assert socket.recv() == b"\1"
            socket.send(b"two")
            assert subscribing.line() == "two"

    def test_the_dialogue_is_shown_as_it_happens(self, libzmq: Libzmq) -> None:
        socket, endpoint = libzmq.bound("XPUB")
        with Cat("sub", endpoint, "--show") as subscribing:
            socket.recv()
            lines = [subscribing.line(subscribing.process.stderr) for _ in range(5)]
            assert "GREETING 3.1 NULL" in lines[0]
            assert lines[4].endswith('SUBSCRIBE "" (everything)')
            socket.send(b"hello")
            assert subscribing.line(subscribing.process.stderr).endswith("message 5 octets  hello")
            code, out, err = subscribing.end(interrupt=True)
        assert (code, out) == (0, "hello\n")
        assert "closed by" in err
