"""A terminal that interprets output, tmux: runs a command, sends keys, and reads the screen.

`tests/cli/terminal.py` has only the octets, which is enough if whole screens are drawn one after another.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from select import select
from types import TracebackType
from typing import IO, Self
from uuid import uuid4

PATIENCE = 60.0
"""Seconds after which a wait fails."""
MARK = "ZMTPSCOPE_TERMINAL"
"""A variable in the environment of every process started here, whose parent may change."""


class Waited(AssertionError):
    """A condition did not become true in time; the text contains the screen."""


class Terminal:
    """A command in a separate tmux of `columns` times `lines`.

    One permanent client controls it, so reading the screen takes less than a millisecond. The server ends with that
    client, even if the tests are killed.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        columns: int = 80,
        lines: int = 24,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        self.columns, self.lines = columns, lines
        self._mark = uuid4().hex
        self._directory = tempfile.TemporaryDirectory(prefix="terminal-")
        settings = Path(self._directory.name, "tmux.conf")
        settings.write_text("set -g remain-on-exit on\nset -g status off\nset -g default-terminal tmux-256color\n")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("TMUX", "NO_COLOR"))}
        wanted = {"COLORTERM": "truecolor", MARK: self._mark} | dict(environment or {})
        settled = [f"-e{name}={value}" for name, value in wanted.items()]
        server = ["tmux", "-u", "-S", str(Path(self._directory.name, "socket")), "-f", str(settings), "-C"]
        place = ["-c", str(directory or Path.cwd()), "-x", str(columns), "-y", str(lines)]
        self._client = subprocess.Popen(
            # without output from the start: set later, tmux 3.3 may hold answers back behind output for ever
            [*server, "new-session", "-f", "no-output", *place, *settled, shlex.join(map(str, command))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=inherited,
        )
        assert self._client.stdin is not None
        assert self._client.stdout is not None
        self._to: IO[bytes] = self._client.stdin
        self._from: IO[bytes] = self._client.stdout
        self._received = bytearray()
        self._answer()
        self._ask("set -g exit-unattached on")
        self.pid = int(self._ask("display-message -p '#{pane_pid}'")[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._to.write(b"kill-server\n")
        self._to.close()
        try:
            self._client.wait(PATIENCE)
        finally:
            self._client.kill()
            self._from.close()
            for pid in self.processes():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._directory.cleanup()

    def press(self, *keys: str) -> None:
        """Press keys, named as in tmux: j, Enter, C-z, PageDown."""
        self._ask("send-keys " + shlex.join(keys))

    def type(self, text: str) -> None:
        self._ask("send-keys -H " + " ".join(f"{octet:x}" for octet in text.encode()))

    def click(self, text: str) -> None:
        line, at = next((line, row.index(text)) for line, row in enumerate(self.screen()) if text in row)
        self.type(f"\x1b[<0;{at + 1};{line + 1}M\x1b[<0;{at + 1};{line + 1}m")

    def resize(self, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines
        self._ask(f"resize-window -x {columns} -y {lines}")

    def screen(self, first: int = 0, last: int | None = None, styles: bool = False) -> list[str]:
        """Return the lines `first..last` of the screen (`last` included); `styles` adds escape sequences."""
        end = self.lines - 1 if last is None else last
        return self._ask(f"capture-pane -p {'-e ' * styles}-S {first} -E {end}")

    @property
    def text(self) -> str:
        return "\n".join(self.screen())

    @property
    def title(self) -> str:
        return self._format("pane_title")

    @property
    def is_taken(self) -> bool:
        return "1" in self._format("alternate_on") + self._format("mouse_any_flag")

    @property
    def clipboard(self) -> str:
        """Return the text that the command copied last (OSC 52)."""
        return "\n".join(self._ask("show-buffer"))

    @property
    def exit_code(self) -> int | None:
        """Return the exit code of the command; None while it runs. Its last output stays on the screen."""
        if self._format("pane_dead") != "1":
            return None
        status, number = self._format("pane_dead_status"), self._format("pane_dead_signal")
        if not (status or number):  # tmux 3.3 may miss the end of a process, and looks again when another one ends
            self._ask("run-shell -b true")
        return int(status) if status else -int(number) if number else None

    def wait_for(self, *texts: str, seconds: float = PATIENCE) -> str:
        return self.wait_until(lambda screen: all(text in screen for text in texts), " ".join(texts), seconds)

    def wait_until(self, holds: Callable[[str], bool], what: str, seconds: float = PATIENCE) -> str:
        """Wait until a condition holds for the screen; return the screen. Raises `Waited`."""
        end = time.monotonic() + seconds
        while not holds(screen := self.text):
            if time.monotonic() > end:
                raise Waited(f"not on the screen after {seconds:.0f} s: {what}\n{screen}")
            time.sleep(0.002)
        return screen

    def wait_for_end(self, seconds: float = PATIENCE) -> int:
        """Wait for the end of the command; return its exit code. Raises `Waited`."""
        self.wait_until(lambda _: self.exit_code is not None, "its end", seconds)
        code = self.exit_code
        assert code is not None
        return code

    def hang_up(self) -> None:
        """Close the terminal of the command, as when an ssh connection breaks; then nothing can be read."""
        self._ask("set -g remain-on-exit off")
        self._to.write(b"kill-server\n")

    def wait_for_processes(self, count: int, seconds: float = PATIENCE) -> bool:
        """Wait for this number of processes; return whether it was reached."""
        end = time.monotonic() + seconds
        while len(self.processes()) != count and time.monotonic() < end:
            time.sleep(0.05)
        return len(self.processes()) == count

    def processes(self) -> list[int]:
        """Return the running processes that were started here, except tmux: the command, its children, and processes
        that they left."""
        return list(processes_marked(self._mark))

    def _format(self, name: str) -> str:
        return self._ask(f"display-message -p '#{{{name}}}'")[0]

    def _ask(self, command: str) -> list[str]:
        self._to.write(f"{command}\n".encode())
        return self._answer()

    def _answer(self) -> list[str]:
        """Return the lines of tmux's answer, between `%begin` and `%end` with equal numbers."""
        lines: list[str] = []
        numbers: str | None = None
        while True:
            line = self._line()
            if numbers is None:
                if line.startswith("%begin "):
                    numbers = line.removeprefix("%begin ")
            elif line == f"%end {numbers}":
                return lines
            elif line == f"%error {numbers}":
                raise ValueError("tmux: " + " ".join(lines))
            else:
                lines.append(line)

    def _line(self) -> str:
        """Return the next line of tmux. Raises `Waited`, and EOFError if tmux has ended."""
        while (end := self._received.find(b"\n")) < 0:
            if not select([self._from], [], [], PATIENCE)[0]:
                raise Waited(f"tmux does not answer for {PATIENCE:.0f} s")
            octets = self._from.read(1 << 16)
            if not octets:
                raise EOFError("tmux has ended")
            self._received += octets
        line = self._received[:end].decode()
        del self._received[: end + 1]
        return line


def processes_marked(mark: str) -> Iterator[int]:
    """Yield all running processes with this value of `MARK` in their environment."""
    wanted = f"{MARK}={mark}".encode()
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            with suppress(OSError):  # it has ended meanwhile, or belongs to another user
                if wanted in (directory / "environ").read_bytes().split(b"\0"):
                    yield int(directory.name)
