"""Where the time goes: samples of the running code, by stage of the data path.

`make profile` writes benchmarks/results/stages.md.

The innermost function of zmtpscope is noted every millisecond of CPU time (as far as the kernel's clock allows). That
costs next to nothing, so the shares are those of an undisturbed run. A function belongs to the stage of its module.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from benchmarks import tools
from benchmarks.captures import HERE, Capture, capture, note
from benchmarks.measure import environment
from benchmarks.report import table
from benchmarks.run import processor

ROOT = HERE.parent
PAGE = HERE / "results" / "stages.md"
INTERVAL = 0.001
READINGS = 3
MAX_FUNCTIONS = 8

START, COLLECTOR, REST = "start", "garbage collector", "everything else"

STAGES = {
    "reading octets": ("packet", ["capture.source"]),
    "packets of the container": ("packet", ["capture.captures", "capture.merge", "capture.pcap", "capture.pcapng"]),
    "headers": ("packet", ["capture"]),
    "flow table, reassembly": ("packet", ["dissect.tcp"]),
    "connections": (
        "connection",
        ["dissect.stream.negotiation", "zmtp.negotiation", "zmtp.prefix", "dissect.connection.outcome"],
    ),
    "joining, feeding": ("packet", ["dissect.stream", "dissect.connection", "dissect.analyser"]),
    "sessions under way": ("packet", ["dissect.fast_path"]),
    "openings": ("connection", ["dissect.fast_path.openings", "dissect.fast_path.known", "dissect.fast_path.sessions"]),
    "scanner": ("frame", ["zmtp.scanner", "dissect.fast_path.plain_frames"]),
    "careful reader": ("connection", ["zmtp", "findings", "records"]),
    "frames to messages": ("frame", ["dissect.stream.assembly"]),
    "handshakes, findings, records": (
        "connection",
        ["dissect.findings", "dissect.records"],
    ),
    "payloads": ("message", ["payloads", "dissect.records.payload_rows", "dissect.records.row_contents"]),
    "findings of rows": ("message", ["dissect.findings.row_rules"]),
    "order": ("message", ["dissect.records.batch"]),
    "rows": (
        "message",
        ["dissect.records.tables", "dissect.records.message_columns", "dissect.records.row_columns", "export"],
    ),
    "counting by topic, connection, peer": ("message", ["export.top"]),
    "writing": ("message", ["cli"]),
    COLLECTOR: ("connection", [COLLECTOR]),
    START: ("run", [START]),
    REST: ("packet", [""]),
}
"""Each stage, its unit of cost, and its modules; the longest matching name counts."""

UNITS = {"packet": "packets", "connection": "connections", "frame": "message_frames", "message": "messages"}

COMMANDS = ("count", "json", "parquet", "text", "top")

USUAL = {
    "capture": ("pcap.py", "headers.py"),
    "dissect/tcp": ("directions.py",),
    "dissect/fast_path": (
        "fast_path.py",
        "side_states.py",
        "carrying_rows.py",
        "sides.py",
        "segment_runs.py",
        "plain_frames.py",
        "payloads.py",
    ),
    "dissect/records": ("batch.py",),
    "zmtp": ("scanner.py",),
}
"""Code for ordinary packets and frames."""


class Sampled(NamedTuple):
    """Samples of several readings: CPU seconds of one, and the number of samples of each function."""

    cpu: float
    counts: Counter[str]

    def seconds(self, share: int) -> float:
        """Return the CPU time of this many samples."""
        return self.cpu * share / max(1, self.counts.total())


def place_of(frame: FrameType | None) -> str:
    """Return `module.function` of the innermost function of zmtpscope, or that of the start while modules load."""
    while frame is not None:
        module, function = frame.f_globals.get("__name__", ""), frame.f_code.co_name
        if function == _collected.__name__:
            return COLLECTOR
        if module.startswith("importlib."):
            return START
        if module.startswith("zmtpscope.") and function != "<module>":
            return f"{module.removeprefix('zmtpscope.')}.{frame.f_code.co_qualname}"
        frame = frame.f_back
    return START


def _collected(phase: str, _: Mapping[str, int]) -> None:
    """Note a sample that fell due during a garbage collection."""


def sample(arguments: list[str], result: Path) -> None:
    """Run the command line in this process and write the samples."""
    counts: Counter[str] = Counter()

    def seen(_: int, frame: FrameType | None) -> None:
        counts[place_of(frame)] += 1

    signal.signal(signal.SIGPROF, seen)
    gc.callbacks.append(_collected)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)
    from zmtpscope.cli import main

    sys.argv = ["zmtpscope", *arguments]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    signal.setitimer(signal.ITIMER_PROF, 0)
    used = resource.getrusage(resource.RUSAGE_SELF)
    result.write_text(json.dumps([used.ru_utime + used.ru_stime, counts]))


def sampled(command: list[str]) -> Sampled:
    """Return the samples of several readings, each in its own process."""
    total, counts = 0.0, Counter[str]()
    for _ in range(READINGS):
        with tempfile.NamedTemporaryFile() as result:
            words = [sys.executable, "-m", "benchmarks.stages", result.name, *command[1:]]
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
            cpu, seen = json.loads(Path(result.name).read_text())
        total += cpu
        counts.update(seen)
    return Sampled(total / READINGS, counts)


def stage_of(place: str) -> str:
    """Return the stage of a function."""
    fits = [
        (len(name), stage)
        for stage, (_, names) in STAGES.items()
        for name in names
        if not name or place == name or place.startswith(f"{name}.")
    ]
    return max(fits)[1]


def by_stage(samples: Sampled) -> Counter[str]:
    """Count the samples of each stage."""
    counts: Counter[str] = Counter()
    for place, count in samples.counts.items():
        counts[stage_of(place)] += count
    return counts


def stage_table(captures: list[Capture], samples: list[Sampled]) -> str:
    """Return a row for each stage and a column for each capture: nanoseconds per unit, and the share."""
    columns = ["", "cost of a", *(each.name for each in captures)]
    stages = [by_stage(each) for each in samples]
    rows = []
    for stage, (unit, _) in STAGES.items():
        cells = []
        for made, seen, counts in zip(captures, samples, stages, strict=True):
            units = made.truth[UNITS[unit]] if unit in UNITS else 1
            share = f"{counts[stage] / max(1, counts.total()):.0%}"
            cells.append(f"{duration(seen.seconds(counts[stage]) / units)} ({share})" if counts[stage] else "")
        if any(counts[stage] for counts in stages):
            rows.append([stage, unit, *cells])
    rows.append(["**all, CPU s**", "", *(f"{each.cpu:.2f}" for each in samples)])
    return table(columns, rows)


def duration(seconds: float) -> str:
    """Return a duration in a suitable unit."""
    for unit, size in (("ms", 1e-3), ("us", 1e-6)):
        if seconds >= 10 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds * 1e9:,.0f} ns"


def functions(samples: Sampled) -> str:
    """Return the functions that take the most time themselves."""
    total = samples.counts.total()
    return ", ".join(
        f"`{place}` {count / total:.0%}"
        for place, count in samples.counts.most_common(MAX_FUNCTIONS + 1)
        if place != START
    )


def usual() -> str:
    """Return the files of the fast path and their lengths."""
    rows = []
    for folder, names in USUAL.items():
        for name in names:
            lines = (ROOT / "zmtpscope" / folder / name).read_text().count("\n")
            rows.append([f"`{folder}/{name}`", str(lines)])
    rows.append(["together", str(sum(int(row[1]) for row in rows))])
    return table(["file", "lines"], rows)


def page() -> str:
    """Return benchmarks/results/stages.md."""
    captures = [
        capture("small", "small", messages=1_000_000),
        capture("reqrep", "reqrep", messages=50_000),
        capture("short", "short", connections=10_000),
        capture("pubsub", "pubsub", messages=250_000),
        capture("large", "large", messages=4_000),
    ]
    load = f"a load of {os.getloadavg()[1]:.0f} on {os.cpu_count()} processors (other load increases costs)"
    parts = [HEAD, f"Python {platform.python_version()}, {processor()}, {load}.", sizes(captures)]
    for name in COMMANDS:
        if name == "parquet" and not tools.can_export():
            continue
        note(f"sampling {tools.NAMES[name]}")
        samples = [sampled(tools.zmtpscope(each.path)[name]) for each in captures]
        busiest = f"Most time on `small` is spent in {functions(samples[0])}."
        parts.append(f"## {tools.NAMES[name]}\n\n{stage_table(captures, samples)}\n\n{busiest}")
    parts.append(f"{USUAL_HEAD}\n\n{usual()}")
    return "\n\n".join(parts) + "\n"


def sizes(captures: list[Capture]) -> str:
    """Describe each capture."""
    rows = [
        [each.name, *(f"{each.truth[count]:,}" for count in UNITS.values()), f"{each.truth['file_bytes'] / 1e6:.0f}"]
        for each in captures
    ]
    return table(["capture", *(count.replace("_", " ") for count in UNITS.values()), "MB"], rows)


HEAD = """\
# Where the time goes

Measured by `make profile`, which writes this page. Each cell is the CPU time of one unit, and its share of the total.
Costs per packet, frame or message are meaningful in captures with many of them: in `short` every connection is short,
so the cost per connection dominates. Compiled code ([compiled.md](../../docs/decisions/compiled.md)) counts for the
stage that calls it. [Other benchmarks](../README.md) compare with other programs and with larger captures."""

USUAL_HEAD = """\
## Code on the fast path

Ordinary packets and frames pass only through these files."""


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sample(sys.argv[2:], Path(sys.argv[1]))
    else:
        PAGE.write_text(page())
