"""`zmtpscope live` as a process beside real applications, in a network namespace of its own."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

import zmq

from tests.cli.running import COMMAND, ROOT, deadline
from tests.waiting import PATIENCE

Record = dict[str, Any]


class Live:
    """`zmtpscope live`, or another command; killed at the end of the block if it still runs."""

    name = "live"

    def __init__(self, *arguments: object, stdin: int | None = None) -> None:
        command = [*COMMAND, self.name, *map(str, arguments)]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": ""}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.communicate()

    def begun(self) -> Live:
        assert self.process.stderr is not None
        with deadline(self.process):
            line = self.process.stderr.readline().decode()
        assert line.startswith("zmtpscope: capturing on "), line
        return self

    def lines_until(self, is_last: Callable[[str], bool]) -> list[str]:
        """The lines on standard output up to the one that is asked for."""
        assert self.process.stdout is not None
        lines: list[str] = []
        with deadline(self.process):
            while not lines or not is_last(lines[-1]):
                line = self.process.stdout.readline().decode()
                assert line, ("the output ended", self.end(), lines[-3:])
                lines.append(line)
        return lines

    def capture_process(self) -> int:
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def end(self) -> tuple[int, str, str]:
        """Wait for the end; return exit code, and the rest of standard output and error."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        with deadline(self.process):  # not `communicate`, which ignores the buffer of `readline`
            out, err = self.process.stdout.read(), self.process.stderr.read()
            return self.process.wait(), out.decode(), err.decode()


def read(*arguments: object) -> tuple[int, str]:
    """`zmtpscope read`: exit code and standard output."""
    done = subprocess.run([*COMMAND, "read", *map(str, arguments)], stdout=subprocess.PIPE, check=False)
    return done.returncode, done.stdout.decode()


def push(count: int, size: int = 20) -> list[bytes]:
    """Send messages from a PUSH to a PULL on loopback, then close both; return the messages."""
    context = zmq.Context()
    sender, receiver = context.socket(zmq.PUSH), context.socket(zmq.PULL)
    for socket in (sender, receiver):
        socket.linger = 0
        socket.rcvtimeo = PATIENCE * 1000
    receiver.connect(f"tcp://127.0.0.1:{sender.bind_to_random_port('tcp://127.0.0.1')}")
    sent = [b"%0*d" % (size, number) for number in range(count)]
    for body in sent:
        sender.send(body)
    assert [receiver.recv() for _ in sent] == sent
    context.destroy()
    return sent


def bodies(lines: Sequence[str]) -> list[bytes]:
    import base64

    records = [json.loads(line) for line in lines]
    return [base64.b64decode(record["bodies"][0]) for record in records if record["record"] == "message"]


def is_end_of_connection(line: str) -> bool:
    return '"record":"connection"' in line
