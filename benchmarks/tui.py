"""The cost of `zmtpscope tui` in a tmux of 200 times 50, beside termshark 2.4 on the same captures in the same run.

    python -m benchmarks.tui [--quick] [--rounds N] [beside keys reading rows live ...]

The page is printed, and written to results/ if all parts were measured. Times beside termshark are wall time. Programs
run in turn, so that other load affects both; ratios are those of adjacent runs.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles

from benchmarks.captures import HERE, WORK, Capture, note
from benchmarks.inspectors import (
    Opening,
    cpu_of_keys,
    key_to_screen,
    memory_of,
    open_and_filter,
    ours,
    show,
    termshark,
    wait,
    wait_until_loaded,
)
from benchmarks.live import cpu_of
from benchmarks.report import head, table
from benchmarks.run import machine
from benchmarks.setting import Setting
from benchmarks.tools import find_tshark
from tests.tui.terminal import Terminal

ROUNDS, QUICK_ROUNDS = 3, 1
KEYS = 200
PAUSE, SETTLED = 0.05, 0.2
"""Seconds between keys, so that each is drawn by itself, and so that the details follow each."""
FIRST_LINE = 4
"""Line of the first row of the list."""
DIVIDER = "─" * 20
"""Border between the list and the details."""
RATE, LIVE_SECONDS = 100_000, 20
"""Messages per second to add, and for how long."""


# -- beside termshark --------------------------------------------------------------------------------------------------


def beside(setting: Setting) -> str:
    """Measure opening and filtering, both programs in turn."""
    captures = {
        "reqrep, 100,000 packets": setting.capture("reqrep", "reqrep", messages=setting.scaled(50_000)),
        "small, 1 M messages": setting.capture("small", "small", messages=setting.scaled(1_000_000)),
        "JSON, 200,000 messages": setting.capture("json", "json", messages=setting.scaled(200_000)),
    }
    other = termshark(setting.tshark) if setting.tshark else None
    rows = []
    for title, made in captures.items():
        theirs: list[Opening] = []
        taken: list[Opening] = []
        for number in range(setting.rounds):
            note(f"{title}: round {number + 1}")
            if other is not None:
                theirs.append(open_and_filter(other, made.path))
            taken.append(open_and_filter(ours(), made.path))
            note(f"  {theirs[-1:]} {taken[-1]}")
        rows += [[title, *cells] for cells in _compared(theirs, taken)]
    headings = ["capture", "", "termshark", "`tui`", "ratio", "target"]
    return f"## Beside termshark\n\n{table(headings, rows)}"


TARGETS = {"first_rows": 0.6, "loaded": 0.25, "filtered": 0.2, "memory": 0.5}
WORDS = {
    "first_rows": "first rows on the screen",
    "loaded": "all read",
    "filtered": "first rows of a filter by connection",
    "memory": "memory of all processes",
}


def _compared(theirs: list[Opening], taken: list[Opening]) -> list[list[str]]:
    rows = []
    for name, words in WORDS.items():
        shown: Callable[[float], str] = _mib if name == "memory" else _seconds
        one = [float(getattr(each, name)) for each in theirs]
        other = [float(getattr(each, name)) for each in taken]
        ratio = f"{median(b / a for a, b in zip(one, other, strict=True)):.2f}" if one else "-"
        row = [words, shown(median(one)) if one else "-", shown(median(other)), ratio, f"{TARGETS[name]}"]
        rows.append(row)
    return rows


def _seconds(value: float) -> str:
    return f"{value:.2f} s"


def _mib(value: float) -> str:
    return f"{value / 2**20:,.0f} MiB"


# -- keys in a list that is read ---------------------------------------------------------------------------------------


def keys(setting: Setting) -> str:
    """Measure the CPU of the screen's process per key, and memory, with many rows."""
    rows = []
    for count in (setting.scaled(1_000_000), setting.scaled(10_000_000)):
        made = setting.capture(f"small-{count}", "small", messages=count)
        note(f"keys in {count:,} rows")
        with show(ours(), made.path) as terminal:
            wait_until_loaded(ours(), terminal)
            memory = memory_of(terminal)
            details = cpu_of_keys(terminal, _down(KEYS // 2), SETTLED)
            terminal.press("\\")
            time.sleep(SETTLED)
            alone = cpu_of_keys(terminal, _down(KEYS), PAUSE)
            pages = cpu_of_keys(terminal, ["PageDown"] * KEYS, PAUSE)
        cells = [f"{1e3 * seconds:.1f} ms" for seconds in (alone, pages, details)]
        rows.append([f"{count:,}", *cells, f"{memory / count:.0f} octets"])
    headings = ["rows", "next row", "next page", "next row, with details", "memory of all processes a row"]
    return f"## CPU of a key in the list\n\nTargets: 10 ms, 20 with details.\n\n{table(headings, rows)}"


def _down(count: int) -> list[str]:
    return ["j"] * count


# -- keys while a capture is read --------------------------------------------------------------------------------------


def reading(setting: Setting) -> str:
    """Measure the delay from a key to the screen while a capture loads."""
    paging, stepping = ("j", "PageDown", "PageDown", "k", "PageUp"), ("j", "k")
    curve = setting.capture("curve-1m", "curve", messages=setting.scaled(1_000_000))
    captures: list[tuple[str, Capture, tuple[str, ...], tuple[str, ...]]] = [
        ("small", setting.capture("small-10m", "small", messages=setting.scaled(10_000_000)), (), paging),
        ("short", setting.capture("short", "short", connections=setting.scaled(10_000)), (), paging),
        ("JSON", setting.capture("json-1m", "json", messages=setting.scaled(1_000_000)), (), paging),
        ("JSON of 4 MB", _large_json(setting), (), stepping),
        ("CURVE with keys", curve, ("--keys", f"{curve.path}.keys"), paging),
    ]
    rows = []
    for title, made, options, pressed in captures:
        note(f"keys while {title} is read")
        waited = [seconds for _ in range(setting.rounds) for seconds in _waited(made.path, options, pressed)]
        percentiles = quantiles(waited, n=20, method="inclusive")
        cells = (percentiles[9], percentiles[18], max(waited))
        rows.append([title, f"{len(waited)}", *(f"{1e3 * each:.0f} ms" for each in cells)])
    return (
        "## From a key to the screen while a capture is read\n\nTargets: 95 of 100 in 50 ms, all in 250.\n\n"
        + table(["capture", "keys", "half", "95 of 100", "longest"], rows)
    )


def _large_json(setting: Setting) -> Capture:
    return setting.capture("json-4mb", "json", messages=setting.scaled(100), size=4_000_000, connections=2, mss=65_483)


def _waited(path: Path, options: tuple[str, ...], pressed: tuple[str, ...]) -> list[float]:
    """Return the seconds from each key to the screen, until loading ends or as many keys as given were pressed."""
    inspector, waited = ours(), []
    with show(inspector, path, *options) as terminal:
        wait(terminal, lambda screen: len(inspector.rows(screen)) > 1 and DIVIDER in screen, "two rows, and details")
        last = next(place for place, line in enumerate(terminal.screen()) if DIVIDER in line) - 1
        for key in itertools.islice(itertools.cycle(pressed), KEYS):
            if inspector.reading not in terminal.screen(0, 0)[0]:
                break
            waited.append(key_to_screen(terminal, key, (FIRST_LINE, last)))
            time.sleep(PAUSE)
    return waited


# -- rows that come while we look --------------------------------------------------------------------------------------


def live(setting: Setting) -> str:
    """Measure the CPU of both processes while rows are appended to a followed file, with its end on the screen."""
    made = setting.capture("live", "small", messages=RATE * LIVE_SECONDS)
    with tempfile.TemporaryDirectory(dir=WORK) as directory:
        path = Path(directory, "growing.pcap")
        path.touch()
        octets = made.path.read_bytes()
        stop = threading.Event()
        writer = threading.Thread(target=_write, args=(path, octets, stop))
        path.write_bytes(octets[:24])
        with show(ours(), "--follow", path) as terminal:
            writer.start()
            wait(terminal, lambda screen: bool(ours().rows(screen)), "rows")
            terminal.press("G")
            time.sleep(2)
            begin, before = time.monotonic(), _cpu(terminal)
            time.sleep(LIVE_SECONDS / 2)
            seconds, after = time.monotonic() - begin, _cpu(terminal)
            said = terminal.screen(0, 0)[0].strip()
            stop.set()
            writer.join()
    screen, worker = (100 * (b - a) / seconds for a, b in zip(before, after, strict=True))
    rows = [[f"{RATE:,}", f"{screen:.0f} %", f"{worker:.0f} %", f"{screen + worker:.0f} %", said]]
    headings = ["messages a second", "screen", "worker", "both", "it says"]
    return f"## Rows that come\n\nTarget: 20 % of a core.\n\n{table(headings, rows)}"


def _write(path: Path, octets: bytes, stop: threading.Event) -> None:
    """Append the rest of a capture to a file at an even rate."""
    step, at, begin = 0.02, 24, time.monotonic()
    with path.open("ab", buffering=0) as file:
        while at < len(octets) and not stop.is_set():
            end = int(len(octets) * min(1.0, (time.monotonic() - begin) / LIVE_SECONDS))
            file.write(octets[at:end])
            at = max(at, end)
            time.sleep(step)


def _cpu(terminal: Terminal) -> tuple[float, float]:
    screen = cpu_of(terminal.pid)
    return screen, sum(map(cpu_of, terminal.processes())) - screen


PARTS: dict[str, Callable[[Setting], str]] = {"beside": beside, "keys": keys, "reading": reading, "live": live}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes, one round")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all if not given")
    given = parser.parse_args()
    tshark = find_tshark()
    setting = Setting(given.quick, given.rounds or (QUICK_ROUNDS if given.quick else ROUNDS), tshark, None)
    results = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "quick": given.quick, "machine": machine(tshark)}
    parts = [head(results)]
    for name in given.parts or PARTS:
        parts.append(PARTS[name](setting))
        print(parts[-1], end="\n\n", flush=True)
    if not given.parts and not given.quick:
        (HERE / "results" / f"{results['date']}-tui.md").write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
