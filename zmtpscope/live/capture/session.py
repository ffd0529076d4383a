"""The parent's side of a capture: starts the capture process, follows what it says, and ends it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from zmtpscope.live.capture.private_folders import hold
from zmtpscope.live.capture.settings import CaptureSettings

PROCESS = "zmtpscope.live.capture.process"
CHUNK = 1 << 16


class CaptureRefused(Exception):
    """A capture that does not begin: `sentence` says why, `hint` what to do, if anything is known; each line of it
    is a way."""

    def __init__(self, sentence: str, hint: str | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.hint = hint


class CaptureFile(NamedTuple):
    """A file of a capture; `octets` of it, whole blocks, can be read. A complete one gets no more."""

    path: str
    octets: int
    is_complete: bool


@dataclass
class CaptureStatus:
    """What the capture process has done, as far as it has said.

    `engine` takes the packets, and `passed_over` says why those before it do not. `names` are the interfaces that were
    asked for, `interfaces` the names of those in the file. `packets` were written, with so many captured `octets`.
    `kernel_drops` did not fit into the kernel's buffer, which was full `freezes` times; `unread_drops` had no place in
    the files since those were not read yet, or were left in the buffer at the end. All packets up to `known_until`,
    nanoseconds since the epoch, are in what the files are said to hold, or lost; it goes on where nothing comes.
    `notices` are sentences for people, which whoever shows them removes; the oldest are forgotten. `failure`, a
    sentence, is why the capture ended early.
    """

    engine: str = ""
    passed_over: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    interfaces: list[str] = field(default_factory=list)
    packets: int = 0
    octets: int = 0
    known_until: int = 0
    kernel_drops: int = 0
    freezes: int = 0
    unread_drops: int = 0
    files: list[CaptureFile] = field(default_factory=list)
    notices: deque[str] = field(default_factory=lambda: deque(maxlen=100))
    failure: str | None = None
    ended: bool = False


class CaptureSession:
    """A capture in a process of its own: `start`, `wait` again and again until it says False, `close`."""

    def __init__(self, settings: CaptureSettings) -> None:
        self.status = CaptureStatus()
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._held: dict[str, int] = {}
        """Directories of a private capture, each with a descriptor that keeps it from being removed by others."""
        self._lines = b""
        self._consumed: dict[int, int] = {}

    def start(self) -> None:
        """The process runs, its sockets and its first file are open, and it is no longer root.

        Raises `CaptureRefused`.
        """
        # -P: nothing of the working directory is imported, which is not always ours
        command = [sys.executable, "-P", "-m", PROCESS]
        # a process group of its own: `close` ends it with whatever it runs, and the terminal interrupts none of them
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
        )
        self._process = process
        self._send(self._settings.to_json())
        while b"\n" not in self._lines and not self.status.ended:
            self._read_on()
        line, _, self._lines = self._lines.partition(b"\n")
        answer = json.loads(line or b"{}")
        if "refused" in answer or not line:
            failure = self.status.failure or answer["refused"]
            self.close()
            raise CaptureRefused(failure, answer.get("hint"))
        self.status.engine = answer["engine"]
        self._hold(answer["directories"])
        self.status.passed_over, self.status.names = answer["passed_over"], answer["names"]
        self._update()

    def wait(self, seconds: float) -> bool:
        """Wait for something new, at most so long. False once the capture has ended and all it wrote was announced."""
        if self.status.ended or self._process is None or self._process.stdout is None:
            return False
        ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, seconds))
        if ready:
            self._read_on()
            self._update()
        return True

    def consumed(self, file: int, octets: int) -> None:
        """File number `file` was read so far. A file that was read to its end gives its place to the next one."""
        self._consumed[file] = octets
        self._release()

    def stop(self) -> None:
        """Take no more packets, write those that came, and end; `wait` says when that is done."""
        self._send("stop")

    def close(self) -> None:
        """End the process, whatever it does, and remove a private capture."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        self.status.ended = True
        for directory, descriptor in self._held.items():
            shutil.rmtree(directory, ignore_errors=True)
            os.close(descriptor)
        self._held.clear()

    def _hold(self, directories: Iterable[str]) -> None:
        """Keep these, and remove them at the end."""
        for directory in directories:
            if directory not in self._held:
                self._held[directory] = hold(directory)

    def _release(self) -> None:
        """Tell the process of files that were read to their end."""
        for number, octets in list(self._consumed.items()):
            file = self.status.files[number]
            if file.is_complete and octets >= file.octets:
                del self._consumed[number]
                self._send(f"consumed {number} {octets}")

    def _send(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):  # it has ended, which `wait` finds or has found
                os.write(self._process.stdin.fileno(), line.encode() + b"\n")

    def _read_on(self) -> None:
        """Read what the process says, or learn that it has ended."""
        assert self._process is not None
        assert self._process.stdout is not None
        more = os.read(self._process.stdout.fileno(), CHUNK)
        self._lines += more
        if not more:
            self._end_early()

    def _update(self) -> None:
        """Take over what the process has said."""
        *lines, self._lines = self._lines.split(b"\n")
        for line in lines:
            values = json.loads(line)
            for number, file in values.pop("files", {}).items():
                del self.status.files[int(number) :]  # it repeats all from the first one on that has changed
                self.status.files.append(CaptureFile(*file))
            self._hold(values.pop("directories", ()))
            self.status.notices.extend(values.pop("notices", ()))
            for name, value in values.items():
                setattr(self.status, name, value)
        self._release()

    def _end_early(self) -> None:
        """The process has ended and did not say so: what it wrote is there."""
        assert self._process is not None
        _, errors = self._process.communicate()
        code = self._process.returncode
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"failed (status {code})"
        last = errors.decode(errors="replace").strip().rpartition("\n")[2]
        self.status.failure = f"the capture process {how}" + (f": {last}" if last and code >= 0 else "")
        self.status.ended = True
        for number, file in enumerate(self.status.files):
            if not file.is_complete:
                with contextlib.suppress(OSError):
                    self.status.files[number] = CaptureFile(file.path, os.stat(file.path).st_size, True)
