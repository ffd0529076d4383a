"""Programs that show a capture in a terminal, and how to measure them there: `tui` and termshark."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from benchmarks.captures import WORK
from benchmarks.live import cpu_of
from benchmarks.tools import PORT, ZMTPSCOPE
from tests.tui.terminal import Terminal, Waited

COLUMNS, LINES = 200, 50
PATIENCE = 300.0
"""Seconds to wait for anything, on a busy machine."""
STILL = 2.0
"""Seconds without a change after which a screen is complete."""


@dataclass(frozen=True)
class Inspector:
    """A program that shows captures."""

    name: str
    command: tuple[str, ...]
    """The command, which the name of a capture follows."""
    row: re.Pattern[str]
    """Pattern of a line that is a row of the list."""
    reading: str
    """Pattern of the screen while the capture loads."""
    filter: str
    """A filter by column for one of several connections."""
    environment: dict[str, str] = field(default_factory=dict)

    def rows(self, screen: str) -> list[str]:
        """Return the first cells of the visible rows, to compare."""
        return [line.split()[0] for line in screen.splitlines() if self.row.match(line)]


def ours() -> Inspector:
    """Return zmtpscope, without a user's settings."""
    row = re.compile(r"\s+\d+\.\d{6}\s")
    settings = {"XDG_CONFIG_HOME": str(WORK / "no-settings")}
    return Inspector("zmtpscope", (ZMTPSCOPE, "tui"), row, "reading", "conn == 3", settings)


def termshark(tshark: str) -> Inspector | None:
    """Return termshark, with the port, without name resolution and TCP reassembly; None if it is not installed."""
    program = shutil.which("termshark")
    if program is None:
        return None
    home = WORK / "termshark"
    settings = home / "termshark" / "termshark.toml"
    if not settings.exists():  # termshark notes there that it has tried tshark: the first start takes seconds longer
        settings.parent.mkdir(parents=True)
        arguments = ["-n", "-d", f"tcp.port=={PORT},zmtp", "-o", "tcp.desegment_tcp_streams:false"]
        options = ["disable-shark-fin = true", "disable-term-helper = true"]
        options += [f"tshark = {tshark!r}", f"tshark-args = {arguments}"]
        settings.write_text("\n".join(["[main]", *options]) + "\n")
    row = re.compile(r"\s*\d+\s+\d+\.\d+\s")
    found = {"XDG_CONFIG_HOME": str(home), "XDG_CACHE_HOME": str(home)}
    return Inspector("termshark", (program, "-r"), row, "<Stop>", "tcp.stream==2", found)


class Opening(NamedTuple):
    """Seconds from the start to the first rows and to the end of loading, and from the end of a filter to its first
    rows; and memory of all processes before the filter, in octets, with shared pages counted once."""

    first_rows: float
    loaded: float
    filtered: float
    memory: int


def open_and_filter(inspector: Inspector, path: Path) -> Opening:
    """Measure one capture."""
    begin = time.monotonic()
    with show(inspector, path) as terminal:
        wait(terminal, lambda screen: bool(inspector.rows(screen)), "rows")
        first_rows = time.monotonic() - begin
        before = set(inspector.rows(wait_until_loaded(inspector, terminal)))
        loaded = time.monotonic() - begin
        memory = memory_of(terminal)
        terminal.press("/")
        time.sleep(0.5)
        terminal.type(inspector.filter)
        wait(terminal, lambda screen: inspector.filter in screen, inspector.filter)
        wait_until_still(terminal)  # termshark thinks about completions, and takes Enter for one of them meanwhile
        begin = time.monotonic()
        terminal.press("Enter")
        wait(terminal, lambda screen: bool(set(inspector.rows(screen)) - before), "rows of the filter")
        return Opening(first_rows, loaded, time.monotonic() - begin, memory)


def show(inspector: Inspector, *captures: Path | str) -> Terminal:
    """A terminal in which a program shows a capture."""
    return Terminal((*inspector.command, *captures), COLUMNS, LINES, inspector.environment)


def wait(terminal: Terminal, holds: Callable[[str], bool], what: str) -> str:
    """Return the screen once a condition holds."""
    return terminal.wait_until(holds, what, PATIENCE)


def wait_until_loaded(inspector: Inspector, terminal: Terminal) -> str:
    """Return the screen once the capture is loaded."""

    def holds(screen: str) -> bool:
        return bool(inspector.rows(screen)) and inspector.reading not in screen

    return wait(terminal, holds, "all rows")


def wait_until_still(terminal: Terminal) -> None:
    """Wait until nothing has changed on the screen for some time."""
    screen, since = terminal.text, time.monotonic()
    while time.monotonic() - since < STILL:
        time.sleep(0.1)
        if (now := terminal.text) != screen:
            screen, since = now, time.monotonic()


def memory_of(terminal: Terminal) -> int:
    """Return the memory of all processes in the terminal in octets; shared pages count once."""
    octets = 0
    for process in terminal.processes():
        try:
            rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
        except OSError:
            continue  # it has ended meanwhile
        found = re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)
        octets += 1024 * int(found[1]) if found else 0
    return octets


def cpu_of_keys(terminal: Terminal, keys: Sequence[str], pause: float) -> float:
    """Return the CPU seconds of the drawing process for each of these keys, pressed with a pause between."""
    before = cpu_of(terminal.pid)
    for key in keys:
        terminal.press(key)
        time.sleep(pause)
    return (cpu_of(terminal.pid) - before) / len(keys)


def key_to_screen(terminal: Terminal, key: str, lines: tuple[int, int], patience: float = 2.0) -> float:
    """Return the seconds from a key until these lines have changed and no row is missing. Raises `Waited`."""
    before = terminal.screen(*lines, styles=True)
    begin = time.perf_counter()
    terminal.press(key)
    while (now := terminal.screen(*lines, styles=True)) == before or any(MISSING in line for line in now):
        if time.perf_counter() - begin > patience:
            raise Waited(f"{key} changed nothing\n{terminal.text}")
        time.sleep(0.0005)
    return time.perf_counter() - begin


MISSING = "  ·"
"""Text of a row that is not loaded yet."""
