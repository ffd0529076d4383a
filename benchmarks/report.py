"""The results as Markdown: pure functions of the results of the other modules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any

from benchmarks.tools import NAMES

Costs = Sequence[Sequence[float]]
"""Runs of one command: CPU seconds, wall seconds and peak octets of each."""

TARGETS = (
    ("count", "tshark count", 4.0),
    ("json", "tshark json -e", 2.5),
    ("json", "tshark json", 15.0),
    ("parquet", "tshark fields", 2.5),
)
"""Our command, the other one, and the factor by which ours is to take less CPU."""

INSIDE = 1.25
FLAT = 1.3
MEMORY = 200e6
DEAREST = 100e-6
"""Maximum seconds per packet of an attack."""


def page(results: dict[str, Any]) -> str:
    """Return the page of all results."""
    parts: dict[str, Callable[[Any], str]] = {
        "start": start,
        "speed": speed,
        "curve": curve,
        "payloads": payloads,
        "sockets": sockets,
        "flat": flat,
        "memory": memory,
        "damage": damage,
        "half-open": half_open,
        "crowds": crowds,
        "hostile": hostile,
    }
    blocks = [head(results), *(show(results[name]) for name, show in parts.items() if name in results)]
    return "\n\n".join(blocks) + "\n"


def head(results: dict[str, Any]) -> str:
    """Describe the machine and the versions."""
    machine = results["machine"]
    rows = [[name, str(value)] for name, value in machine.items()]
    size = " (quick: a tenth of the sizes, fewer rounds)" if results["quick"] else ""
    return f"# {results['date']}{size}\n\n{table(['', 'machine'], rows)}"


def start(costs: dict[str, Costs]) -> str:
    """Show the cost of a capture of two packets."""
    rows = [[NAMES[tool], *middles(runs)] for tool, runs in costs.items()]
    return f"## Start\n\nA capture of two packets.\n\n{table(['', *MIDDLES], rows)}"


def speed(captures: dict[str, Any]) -> str:
    """Show the targets over all captures, then a table for each."""
    lines = ["## Speed", "", "Median of the CPU time of tshark divided by that of zmtpscope, in adjacent runs.", ""]
    rows = []
    for ours, theirs, wanted in TARGETS:
        cells = [verdict(captures[name]["costs"], ours, theirs, wanted) for name in captures]
        rows.append([f"{NAMES[ours]} against {NAMES[theirs]}", f"{wanted:g}", *cells])
    lines.append(table(["", "wanted", *captures], rows))
    return "\n".join(lines) + "".join(f"\n\n{one_capture(name, each)}" for name, each in captures.items())


def verdict(costs: dict[str, Costs], ours: str, theirs: str, wanted: float) -> str:
    """Show a ratio, and whether it meets the target."""
    if not (costs.get(ours) and costs.get(theirs)):
        return "not measured"
    found = median(ratios(costs[theirs], costs[ours]))
    return f"**{found:.1f}**" if found >= wanted else f"{found:.1f} (missed by {wanted / found:.2f} times)"


def ratios(theirs: Costs, ours: Costs) -> list[float]:
    """Return the CPU of the other command divided by ours, for each run; a command that ran once is compared with the
    first."""
    return [their[0] / our[0] for their, our in zip(theirs, ours, strict=False)]


def one_capture(name: str, each: dict[str, Any]) -> str:
    """Show the cost of every tool for one capture."""
    counts = [each["packets"], each["frames"], each["rows"]]
    rows = []
    for tool, costs in each["costs"].items():
        cpu = median(cost[0] for cost in costs)
        rows.append([NAMES[tool], *middles(costs), *(f"{cpu / count * 1e9:,.0f}" for count in counts)])
    columns = ["", *MIDDLES, "ns a packet", "ns a frame", "ns a row"]
    words = f"### {name}: {each['packets']:,} packets, {each['frames']:,} frames, {each['rows']:,} messages"
    return f"{words}, {each['octets'] / 1e6:.0f} MB\n\n{each['agreed']}\n\n{table(columns, rows)}"


def curve(captures: dict[str, Any]) -> str:
    """Show the cost of opening boxes per message, beside libsodium."""
    text = (
        "CPU time per message of a CURVE connection, each message in its own box: of our commands, minus the time of "
        "the same command for one message, and of loops that only open the same boxes. Opening is `read -q --keys` "
        "minus `read -q`, in adjacent runs."
    )
    return "\n\n".join(["## Opening CURVE", text, *(_opened(name, each) for name, each in captures.items())])


def payloads(captures: dict[str, Any]) -> str:
    """Show the cost of dissecting payloads."""
    text = (
        "Median of the CPU time of a command with `--payload auto` (the default) divided by that with `--payload off`, "
        f"in adjacent runs. The target for small is at most {INSIDE:g}."
    )
    rows = []
    for name, each in captures.items():
        for command in dict.fromkeys(key.rpartition(" ")[0] for key in each["costs"]):
            auto, off = (each["costs"][f"{command} {way}"] for way in ("auto", "off"))
            more = [(one[0] - other[0]) / each["messages"] * 1e9 for one, other in zip(auto, off, strict=True)]
            cells = [f"{median(ratios(auto, off)):.2f}", f"{median(more):,.0f}", middles(auto)[0], middles(off)[0]]
            rows.append([name, NAMES[command], *cells])
    columns = ["", "", "times as much", "ns a message more", "auto: CPU s (least-most)", "off"]
    return f"## Payloads\n\n{text}\n\n{table(columns, rows)}"


def sockets(rates: dict[str, list[float]]) -> str:
    """Show messages per second through a PUSH and a PULL."""
    text = (
        "Messages of 100 octets per second from a PUSH to a PULL, and their share of pyzmq to pyzmq, in adjacent runs."
    )
    whole = rates["pyzmq to pyzmq"]
    rows = []
    for name, each in rates.items():
        share = median([rate / most for rate, most in zip(each, whole, strict=True)])
        rows.append([name, f"{median(each):,.0f} ({min(each):,.0f}-{max(each):,.0f})", f"{share:.2f}"])
    columns = ["", "messages a second (least-most)", "of pyzmq to pyzmq"]
    return f"## Sockets\n\n{text}\n\n{table(columns, rows)}"


def less(seconds: Sequence[float], others: Sequence[float]) -> list[float]:
    """Subtract other costs, run by run."""
    return [second - other for second, other in zip(seconds, others, strict=True)]


def _opened(name: str, each: dict[str, Any]) -> str:
    costs, count = each["costs"], each["messages"]
    cpu = {tool: ([run[0] for run in runs], [run[0] for run in each["starts"][tool]]) for tool, runs in costs.items()}
    by_tool = {tool: less(*both) for tool, both in cpu.items()}
    seconds = {NAMES[tool]: runs for tool, runs in by_tool.items()}
    if "count keys" in by_tool:
        seconds["opening"] = less(by_tool["count keys"], by_tool["count"])
    seconds |= {NAMES[loop]: runs for loop, runs in each["loops"].items()}
    least = list(seconds.values())[-1]
    rows = [
        [
            what,
            f"{median(runs) / count * 1e9:,.0f}",
            f"{min(runs) / count * 1e9:,.0f}-{max(runs) / count * 1e9:,.0f}",
            f"{median(run / alone for run, alone in zip(runs, least, strict=True)):.2f}",
        ]
        for what, runs in seconds.items()
    ]
    title = f"### {name}: {count:,} messages, {each['octets'] / count:,.0f} octets each, sealed"
    return f"{title}\n\n{table(['', 'ns a message', 'least-most', 'relative to the last row'], rows)}"


MIDDLES = ["CPU s (least-most)", "wall s", "peak MB"]


def middles(costs: Costs) -> list[str]:
    """Return the cells for median CPU and wall time, and peak memory."""
    cpu = [cost[0] for cost in costs]
    spread = f" ({min(cpu):.2f}-{max(cpu):.2f})" if len(cpu) > 1 else ""
    return [
        f"{median(cpu):.2f}{spread}",
        f"{median(cost[1] for cost in costs):.2f}",
        f"{max(cost[2] for cost in costs) / 1e6:.0f}",
    ]


def flat(series: list[dict[str, Any]]) -> str:
    """Show how the cost of one unit changes as their number grows."""
    rows = []
    for each in series:
        points = each["points"]
        factor = median(growth([point["costs"] for point in points]))
        cells = "; ".join(
            f"{point['count']:,}: {median(point['costs']) * 1e9:,.0f} ns, {point['peak'] / 1e6:.0f} MB"
            for point in points
        )
        met = "" if factor <= FLAT else f" (missed: {FLAT} wanted)"
        rows.append([each["what"], NAMES[each["command"]], each["unit"], cells, f"{factor:.2f}{met}"])
    text = (
        "CPU time of one more unit, without the start and other constant costs, and the peak memory. The factor is "
        "the highest cost divided by that of the first point: the median of the rounds."
    )
    columns = ["what grows", "", "unit", "how many: CPU of one, peak memory", "factor"]
    return f"## Flatness\n\n{text}\n\n{table(columns, rows)}"


def growth(points: Sequence[Sequence[float]]) -> list[float]:
    """Return the highest cost divided by that of the first point, for each round."""
    return [max(costs) / costs[0] for costs in zip(*points, strict=True)]


def memory(runs: list[dict[str, Any]]) -> str:
    """Show the peak memory by size and form of the capture."""
    rows = [
        [
            NAMES[run["command"]],
            f"{run['octets'] / 1e6:,.0f}",
            run["way"],
            f"{run['peak'] / 1e6:.0f}" + ("" if run["peak"] < MEMORY else f" (missed: {MEMORY / 1e6:.0f} wanted)"),
            f"{run['cpu']:.1f}",
        ]
        for run in runs
    ]
    return "## Memory\n\n" + table(["", "capture MB", "way", "peak MB", "CPU s"], rows)


def damage(found: list[dict[str, Any]]) -> str:
    """Show what is found in captures with lost, repeated or reordered packets."""
    rows = [
        [
            each["damage"],
            each["tool"],
            *(f"{each[key]:,}" for key in ("sent", "wanted", "found")),
            f"{each['found'] / each['wanted']:.2%}",
            f"{each['invented']:,}" if "invented" in each else "not known",
        ]
        for each in found
    ]
    text = (
        "Every frame without an octet in a missing packet is to be found. For zmtpscope, whole messages with the "
        "bodies that were sent are counted after losses; for tshark all frames, right or wrong."
    )
    return f"## Damage\n\n{text}\n\n{table(['', '', 'sent', 'wanted', 'found', '', 'invented'], rows)}"


def half_open(runs: dict[str, Any]) -> str:
    """Show the cost of connections without data."""
    rows = [
        [
            name,
            NAMES[tool],
            f"{run['connections']:,}",
            f"{run['cpu'] / run['packets'] * 1e9:,.0f}",
            f"{run['peak'] / 1e6:.0f}",
        ]
        for name, tools in runs.items()
        for tool, run in tools.items()
    ]
    return "## Half-open connections\n\n" + table(["", "", "connections", "ns a packet", "peak MB"], rows)


def crowds(crowds: list[dict[str, Any]]) -> str:
    """Show the waiting times of the honest peer in each crowd."""
    rows = []
    for each in crowds:
        times = [f"{each[which]:.2f}" for which in ("least", "median", "most")]
        rows.append([each["crowd"], f"{each['size']:,}", f"{each['messages']:,}", *times])
    text = "Seconds that an honest peer waits for a message, for an answer, or until the application has its message."
    columns = ["crowd", "hostile peers", "messages", "least", "median", "most"]
    return f"## Crowds\n\n{text}\n\n{table(columns, rows)}"


def hostile(series: list[dict[str, Any]]) -> str:
    """Show the cost of each attack as its size grows."""
    rows = []
    for each in series:
        points = each["points"]
        packets = [point["cpu"] / point["packets"] for point in points]
        octets = [point["cpu"] / max(1, point["octets"]) for point in points]
        factor = packets[-1] / packets[0] if packets[0] else 1.0
        rows.append(
            [
                each["attack"],
                ", ".join(f"{point['packets']:,}" for point in points),
                ", ".join(f"{cost * 1e6:.1f}" for cost in packets) + _missed(max(packets) <= DEAREST),
                ", ".join(f"{cost * 1e9:,.0f}" for cost in octets),
                f"{factor:.2f}{_missed(factor <= FLAT)}",
                ", ".join(f"{point['peak'] / 1e6:.0f}" for point in points),
            ]
        )
    text = (
        "CPU time minus that of the smallest attack of its kind. The factor is the cost per packet of the largest "
        f"attack divided by that of the smallest: 1 is linear, 4 quadratic. The targets are at most {FLAT} and "
        f"{DEAREST * 1e6:.0f} us per packet."
    )
    columns = ["attack", "packets", "us a packet", "ns an octet", "factor", "peak MB"]
    return f"## Hostile input\n\n{text}\n\n{table(columns, rows)}"


def _missed(met: bool) -> str:
    return "" if met else " (missed)"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
