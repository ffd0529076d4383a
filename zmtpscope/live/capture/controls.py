"""The two pipes between the capture process and its parent: commands are lines of words, reports are JSON lines."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

from zmtpscope.live.capture.settings import CaptureSettings

CHUNK = 1 << 16


class Controls:
    """The capture process's ends of the two pipes to its parent. Only `settings` and `send_last` block."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self.incoming = incoming
        self._outgoing = outgoing
        self._input = b""
        self._output = b""
        self.is_gone = False
        self.is_stopped = False

    def stop(self) -> None:
        """Make `commands` return `stop`, after a signal that the parent did not send."""
        self.is_stopped = True

    def settings(self) -> CaptureSettings:
        """Read the settings from the first line of the parent. Raises `EOFError` if the input ends before it."""
        while b"\n" not in self._input:
            more = os.read(self.incoming, CHUNK)
            if not more:
                raise EOFError
            self._input += more
        line, _, self._input = self._input.partition(b"\n")
        os.set_blocking(self.incoming, False)
        os.set_blocking(self._outgoing, False)
        return CaptureSettings.from_json(line)

    def commands(self) -> list[list[str]]:
        """Return the commands that arrived since the last call, each as a list of words."""
        with contextlib.suppress(BlockingIOError):
            more = os.read(self.incoming, CHUNK)
            self.is_gone = self.is_gone or not more
            self._input += more
        *lines, self._input = self._input.split(b"\n")
        return [line.decode().split() for line in lines]

    def send(self, values: dict[str, Any]) -> bool:
        """Send a report to the parent. If the parent has not read the previous one, send nothing and return False."""
        if not self._flush():
            return False
        self._output = json.dumps(values).encode() + b"\n"
        self._flush()
        return True

    def send_last(self, values: dict[str, Any]) -> None:
        os.set_blocking(self._outgoing, True)
        self.send(values)

    def _flush(self) -> bool:
        """Write the rest of the last report to the pipe. Return whether the pipe took all of it."""
        try:
            while self._output:
                self._output = self._output[os.write(self._outgoing, self._output) :]
        except BlockingIOError:
            return False
        except BrokenPipeError:
            self._output, self.is_gone = b"", True
        return True
