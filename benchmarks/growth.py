"""Whether cost and memory stay the same as captures grow."""

from __future__ import annotations

from typing import Any, NamedTuple

from benchmarks import tools
from benchmarks.captures import Capture, compressed, is_room_for, note
from benchmarks.measure import Cost, cost_of
from benchmarks.setting import Setting

ENOUGH = 500_000
"""Minimum number of frames or packets of a run. Smaller captures are read several times."""

MAX_READINGS, MAX_QUICK_READINGS = 10, 3

BIG = 5_000_000
TIMES = 4
SHARE = 280
"""Octets per message of `big` on disk: plain, and compressed."""

FEW = 20
"""Number of messages of the captures that show the costs that do not depend on size."""

UNITS = {"frame": "message_frames", "connection": "connections"}


AT_ONCE = "connections at once, as many frames over all"


class Point(NamedTuple):
    """A capture, and one without what grows: their difference in cost is divided by their difference in size."""

    full: Capture
    base: Capture


def flat(setting: Setting) -> list[dict[str, Any]]:
    """Measure the cost of one unit as their number grows."""
    make = setting.capture
    frames = (100_000, 500_000) if setting.quick else (100_000, 1_000_000, BIG)
    connections = (100, 1_000, 5_000) if setting.quick else (100, 1_000, 10_000, 50_000)
    few, one = make("few", "big", messages=FEW), make("one-few", "big", messages=FEW, connections=1)
    short = make("one-short", "short", connections=1)
    at_once = setting.scaled(1_000_000)
    series = [
        ("the file, 20 connections", "frame", [Point(make(f"big-{n}", "big", messages=n), few) for n in frames]),
        (
            "one connection",
            "frame",
            [Point(make(f"one-{n}", "big", messages=n, connections=1), one) for n in frames],
        ),
        (
            "connections one after another",
            "connection",
            [Point(make(f"short-{n}", "short", connections=n), short) for n in connections],
        ),
        (
            AT_ONCE,
            "frame",
            [
                Point(
                    make(f"at-once-{n}", "small", messages=at_once, connections=n, stagger=0),
                    make(f"at-once-{n}-few", "small", messages=n, connections=n, stagger=0),
                )
                for n in (20, 300, 3_000)
            ],
        ),
    ]
    commands = ("count",) if setting.quick else ("count", "json")
    return [grown(setting, *each, command) for each in series for command in commands]


def grown(setting: Setting, what: str, unit: str, points: list[Point], command: str) -> dict[str, Any]:
    """Measure the cost of one more `unit` at each point, in each round, and the peak memory."""
    note(f"{what}: {tools.NAMES[command]}")
    costs: list[list[float]] = [[] for _ in points]
    peaks = [0] * len(points)
    for _ in range(setting.rounds):
        read: dict[Capture, tuple[float, int]] = {}
        for place, point in enumerate(points):
            for capture in point:
                if capture not in read:
                    read[capture] = mean_cost(setting, capture, command)
            units = count_of(point.full, unit) - count_of(point.base, unit)
            costs[place].append((read[point.full][0] - read[point.base][0]) / units)
            peaks[place] = max(peaks[place], read[point.full][1])
    counted = [
        {"count": count_of(point.full, "connection" if what == AT_ONCE else unit), "costs": cost, "peak": peak}
        for point, cost, peak in zip(points, costs, peaks, strict=True)
    ]
    return {"what": what, "command": command, "unit": unit, "points": counted}


def count_of(capture: Capture, unit: str) -> int:
    """Return the number of units in a capture."""
    return capture.truth[UNITS[unit]]


def mean_cost(setting: Setting, capture: Capture, command: str) -> tuple[float, int]:
    """Return CPU time and peak memory of reading a capture; a small one is read several times."""
    size = max(capture.frames, capture.truth["packets"], 1)
    readings = min(MAX_QUICK_READINGS if setting.quick else MAX_READINGS, max(1, ENOUGH // size))
    runs = [cost_of(tools.zmtpscope(capture.path)[command]) for _ in range(readings)]
    return sum(run.cpu for run in runs) / readings, max(run.peak for run in runs)


def memory(setting: Setting) -> list[dict[str, Any]]:
    """Measure the peak memory for `big` and multiples of it: as a file, through a pipe, and compressed."""
    count = setting.scaled(BIG)
    captures = [setting.capture(f"big-{count}", "big", messages=count)]
    if is_room_for(TIMES * count * SHARE):
        captures.append(setting.capture(f"big-{TIMES * count}", "big", messages=TIMES * count))
    else:
        note(f"the disk has no room for {TIMES} times that")
    return [run for capture in captures for run in memory_of(capture)]


def memory_of(capture: Capture) -> list[dict[str, Any]]:
    """Measure one capture in all three forms."""
    note(f"memory of {capture.name}")
    read = tools.zmtpscope("-")["count"]
    runs: dict[tuple[str, str], Cost] = {}
    for name, command in tools.zmtpscope(capture.path).items():
        if name != "text":
            runs[name, "file"] = cost_of(command)
    runs["count", "pipe"] = cost_of(read, capture.path)
    small = compressed(capture)
    runs["count", "gzip"] = cost_of(tools.zmtpscope(small)["count"])
    runs["count", "gzip through a pipe"] = cost_of(read, small)
    return [
        {"command": name, "capture": capture.name, "octets": capture.truth["file_bytes"], "way": way}
        | {"peak": cost.peak, "cpu": cost.cpu}
        for (name, way), cost in runs.items()
    ]


def half_open(setting: Setting) -> dict[str, Any]:
    """Measure connections without data: a SYN flood and a port scan."""
    results: dict[str, Any] = {}
    for profile in ("flood", "scan"):
        count = setting.scaled(1_000_000)
        capture = setting.capture(f"{profile}-{count}", profile, connections=count)
        note(f"reading {capture.name}")
        commands = {"count": tools.zmtpscope(capture.path)["count"]}
        if setting.tshark is not None:
            commands["tshark count"] = tools.tshark(setting.tshark, capture.path)["tshark count"]
        runs = {name: cost_of(command) for name, command in commands.items()}
        results[profile] = {
            name: {"connections": count, "packets": 2 * count, "cpu": cost.cpu, "peak": cost.peak}
            for name, cost in runs.items()
        }
    return results
