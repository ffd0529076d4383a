"""The traffic of sockets that the commands open: `--show` prints it as `read` does, and `-w` records it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.parameters import OUTPUT
from zmtpscope.cli.terminal import notify

if TYPE_CHECKING:
    from zmtpscope.curve_keys import KeyLine
    from zmtpscope.dissect import Batch
    from zmtpscope.live.recording.recording import Recording


TRAFFIC_OPTIONS = (
    OUTPUT.flag("--show", help="Print the conversation to standard error, in the format of zmtpscope read."),
    OUTPUT.option(
        "-w",
        "recorded",
        metavar="FILE",
        help="Record the conversation to FILE, as pcapng; CURVE keys are written to FILE.keys.",
    ),
    OUTPUT.flag("--force", help="Overwrite the FILE of -w."),
)


class OwnTraffic:
    """Prints and records connections, according to `TRAFFIC_OPTIONS`.

    `recording` is None without these options. Call `finish` when all connections have closed. Raises `click.UsageError`
    if the file cannot be created. A later write error is reported and stored in `failed`, and the connections continue.
    """

    def __init__(self, given: dict[str, Any]) -> None:
        self.recording: Recording | None = None
        self.failed = False
        self._file: _File | None = None
        self._shown: _Shown | None = None
        if given["force"] and given["recorded"] is None:
            raise click.UsageError("--force needs -w FILE")
        shows = given["show"] and sys.stderr is not None
        if given["recorded"] is None and not shows:
            return
        from zmtpscope.live.recording.recording import Recording

        sinks: list[_File | _Shown] = []
        if given["recorded"] is not None:
            self._file = _File(Path(given["recorded"]), force=given["force"], failed=self._fail)
            sinks.append(self._file)
        if shows:
            self._shown = _Shown()
            sinks.append(self._shown)
        self.recording = Recording([each.write for each in sinks], [each.write_key for each in sinks])

    def finish(self) -> None:
        if self._shown is not None:
            self._shown.live.finish()
        if self._file is not None:
            self._file.close()

    def _fail(self, problem: object) -> None:
        self.failed = True
        notify(f"zmtpscope: {problem}; recording stopped")


class _File:
    """The capture file of `-w`, and its key log, which is created with the first key."""

    def __init__(self, path: Path, *, force: bool, failed: Callable[[object], None]) -> None:
        from zmtpscope.live.keys.key_log import KeyLog, KeyLogError
        from zmtpscope.live.recording.recording import COMMENT, CaptureFile

        self._path = path
        self._failed = failed
        self._key_log = KeyLog
        self._keys: KeyLog | None = None
        self._problems = (OSError, KeyLogError)
        try:
            self._capture: CaptureFile | None = CaptureFile(path, COMMENT, force=force)
        except FileExistsError:
            raise click.UsageError(f"-w {path}: exists; use --force to overwrite it") from None
        except OSError as error:
            raise click.UsageError(f"-w {path}: {(error.strerror or str(error)).lower()}") from None

    def write(self, time: int, packets: Sequence[bytes]) -> None:
        if self._capture is not None:
            try:
                self._capture.write(time, packets)
            except OSError as error:
                self._give_up(f"{self._path}: {error.strerror}")

    def write_key(self, line: KeyLine) -> None:
        if self._capture is not None:
            try:
                if self._keys is None:
                    self._keys = self._key_log.beside(self._path)
                self._keys.add(line)
            except self._problems as error:
                self._give_up(error)

    def close(self) -> None:
        if self._keys is not None:
            self._keys.close()
        if self._capture is not None:
            try:
                self._capture.close()
            except OSError as error:
                self._give_up(f"{self._path}: {error.strerror}")

    def _give_up(self, problem: object) -> None:
        self._capture = None
        self._failed(problem)


class _Shown:
    """Prints the lines of `read` on standard error as soon as they are known."""

    def __init__(self) -> None:
        from zmtpscope.cli.terminal import painter, terminal_width
        from zmtpscope.curve_keys import HandedLines, Keys
        from zmtpscope.dissect import Options
        from zmtpscope.export.clock import Clock
        from zmtpscope.export.styles import STYLES
        from zmtpscope.export.text import Look, TextLines
        from zmtpscope.live.recording.dissection import LiveDissection
        from zmtpscope.payloads.registry import Registry

        handed = HandedLines()
        payloads = Registry()
        payloads.asked()  # loads them now: this is slow, and would delay output later
        options = Options(payloads=payloads, keys=Keys([], handed))
        paint = painter(STYLES, "auto", sys.stderr)
        self.live = LiveDissection(options, self._write_lines)
        self.write_key = handed.add
        clock = Clock("r", lambda: self.live.statistics.first_time)
        self._text = TextLines(Look(clock, paint, terminal_width(sys.stderr)), options)
        self._advancing = False

    def write(self, time: int, packets: Sequence[bytes]) -> None:
        """Dissect packets and print their lines. Packets that follow immediately are dissected together with them."""
        self.live.feed(time, packets)
        if not self._advancing:
            self._advancing = True
            import asyncio

            asyncio.get_running_loop().call_soon(self._advance)

    def _advance(self) -> None:
        self._advancing = False
        self.live.advance()

    def _write_lines(self, batch: Batch) -> None:
        with suppress(OSError):  # a closed standard error changes nothing, as with `notify`
            sys.stderr.write("".join(self._text.lines(batch)))
            sys.stderr.flush()
