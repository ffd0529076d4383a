"""The parent's side of a capture: starts the capture process, reads its reports, and ends it."""

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
    """A capture cannot start. The text is the reason; each line of `hint` is one remedy."""

    def __init__(self, sentence: str, hint: str | None = None) -> None:
        super().__init__(sentence)
        self.hint = hint


class CaptureFile(NamedTuple):
    """A file of a running capture. Its first `octets`, which are whole blocks, can be read. If `is_complete`, it does
    not grow."""

    path: str
    octets: int
    is_complete: bool


@dataclass
class CaptureStatus:
    """The state of a capture, from the last report of the capture process.

    `engine` captures; `passed_over` are the reasons why earlier engines did not work. `names` are the requested
    interfaces, `interfaces` the interfaces in the file. `packets` and `octets` were written. `kernel_drops` packets did
    not fit into the kernel's buffer, which was full `freezes` times. `unread_drops` packets found no space in unread
    files, or were left in the buffer at the end. All packets up to `known_until` (ns since 1970) are in `files` or
    lost; this time also advances without packets. `notices` are messages for the user, which the caller removes after
    printing; the oldest are discarded. `failure` is the reason if the capture ended early.
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
    """A capture in a separate process. Call `start`, then `wait` until it returns False, then `close`."""

    def __init__(self, settings: CaptureSettings) -> None:
        self.status = CaptureStatus()
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._held: dict[str, int] = {}
        """Directories of a private capture, each with a descriptor whose lock protects it from removal."""
        self._lines = b""
        self._consumed: dict[int, int] = {}

    def start(self) -> None:
        """Start the capture. On return the sockets and the first file are open, and the process has dropped root.

        Raises `CaptureRefused`.
        """
        # -P: import nothing from the working directory, which may belong to another user
        command = [sys.executable, "-P", "-m", PROCESS]
        # its own process group: `close` also kills its children, and the terminal interrupts none of them
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
        """Wait for a report, at most `seconds`. Return False once the capture has ended and everything written was
        reported."""
        if self.status.ended or self._process is None or self._process.stdout is None:
            return False
        ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, seconds))
        if ready:
            self._read_on()
            self._update()
        return True

    def consumed(self, file: int, octets: int) -> None:
        """Report that the file with number `file` was read up to `octets`. When it is read completely, the next file
        has space."""
        self._consumed[file] = octets
        self._release()

    def stop(self) -> None:
        """Stop capturing, and write the received packets. `wait` returns False at the end."""
        self._send("stop")

    def close(self) -> None:
        """Kill the process, and remove the files of a private capture."""
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
        """Lock the directories of the capture process, which `close` removes."""
        for directory in directories:
            if directory not in self._held:
                self._held[directory] = hold(directory)

    def _release(self) -> None:
        for number, octets in list(self._consumed.items()):
            file = self.status.files[number]
            if file.is_complete and octets >= file.octets:
                del self._consumed[number]
                self._send(f"consumed {number} {octets}")

    def _send(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):  # the process has ended; `wait` handles that
                os.write(self._process.stdin.fileno(), line.encode() + b"\n")

    def _read_on(self) -> None:
        """Read more reports of the process, or detect that it has ended."""
        assert self._process is not None
        assert self._process.stdout is not None
        more = os.read(self._process.stdout.fileno(), CHUNK)
        self._lines += more
        if not more:
            self._end_early()

    def _update(self) -> None:
        *lines, self._lines = self._lines.split(b"\n")
        for line in lines:
            values = json.loads(line)
            for number, file in values.pop("files", {}).items():
                del self.status.files[int(number) :]  # a report repeats all files from the first changed one on
                self.status.files.append(CaptureFile(*file))
            self._hold(values.pop("directories", ()))
            self.status.notices.extend(values.pop("notices", ()))
            for name, value in values.items():
                setattr(self.status, name, value)
        self._release()

    def _end_early(self) -> None:
        """Store that the process ended without a last report. Its files remain."""
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
