"""Every tool on every capture, after a check that their results agree."""

from __future__ import annotations

import json
import sys
from typing import Any

from benchmarks import tools
from benchmarks.captures import Capture, note
from benchmarks.measure import in_turn, output_of
from benchmarks.setting import Setting

LONG = "long"
"""A capture that tshark 4.4 cannot read: after a segment that ends inside the header of a long frame, it loses the rest
of that side. It finds an eighth of the frames, and is not timed."""

REAL = "real-"
"""Prefix of captures of libzmq, with retransmissions, which the walk in C cannot read."""


def timed(setting: Setting) -> list[Capture]:
    """Return the captures to time every tool on: about 100 MB each, but `clients`, `real-requests` and `large`."""
    scaled, make = setting.scaled, setting.capture
    return [
        make("small", "small", messages=scaled(1_000_000)),
        make("reqrep", "reqrep", messages=scaled(300_000)),
        make("short", "short", connections=scaled(50_000)),
        make("clients", "reqrep", messages=scaled(30_000), connections=scaled(10_000), stagger=0.001),
        make("calls", "calls", messages=scaled(300_000), connections=1000, stagger=0),
        make("pubsub", "pubsub", messages=scaled(1_000_000)),
        make("subscribers", "json", messages=scaled(800_000), connections=1000, stagger=0),
        make("alternating", "small", messages=scaled(1_000_000), connections=3_000, stagger=0),
        make("vary", "pubsub", messages=scaled(1_000_000), jitter=90),
        make("mixed", "small", messages=scaled(1_000_000), jitter=90),
        make(LONG, "small", messages=scaled(500_000), size=300, jitter=250),
        make("large", "large", messages=scaled(4_000)),
        make(f"{REAL}publisher", "publisher", "real_traffic", messages=scaled(1_200)),
        make(f"{REAL}router", "router", "real_traffic", messages=scaled(240)),
        make(f"{REAL}requests", "requests", "real_traffic", connections=scaled(10_000)),
    ]


def speed(setting: Setting) -> dict[str, Any]:
    """Return the costs by capture and tool."""
    captures = timed(setting)
    agreed = [agreement(setting, capture) for capture in captures]
    results = {}
    for capture, words in zip(captures, agreed, strict=True):
        note(f"timing {capture.name}")
        name = setting.name(capture)
        commands = commands_for(setting, capture)
        results[name] = {
            "packets": capture.truth["packets"],
            "frames": capture.frames,
            "rows": capture.truth["messages"],
            "octets": capture.truth["file_bytes"],
            "agreed": words,
            "costs": in_turn(commands, setting.rounds, tools.SLOW),
        }
    return results


def start(setting: Setting) -> dict[str, Any]:
    """Return the cost of starting and ending, by tool."""
    nothing = setting.capture("nothing", "flood", connections=1)
    note("timing the start")
    return in_turn(commands_for(setting, nothing), 2 * setting.rounds)


def commands_for(setting: Setting, capture: Capture) -> dict[str, list[str]]:
    """Return the commands of all installed tools that can read this capture."""
    commands = tools.zmtpscope(capture.path)
    if setting.tshark is not None and setting.name(capture) != LONG:
        commands |= tools.tshark(setting.tshark, capture.path)
    if setting.walk is not None and not setting.name(capture).startswith(REAL):
        commands["walk"] = [setting.walk, str(capture.path)]
    return commands


def agreement(setting: Setting, capture: Capture) -> str:
    """Describe which tools found the same; exit if one found something else."""
    note(f"checking {capture.name}")
    counts = {"zmtpscope": tools.frames_by_zmtpscope(capture)}
    if setting.tshark is not None:
        counts["tshark"] = tools.frames_by_tshark(setting.tshark, capture)
    if setting.walk is not None and not setting.name(capture).startswith(REAL):
        counts["the C program"] = tools.frames_by_walk(setting.walk, capture)
    beyond = ""
    if setting.tshark is not None and setting.name(capture) == LONG:
        beyond = f"tshark loses its way and counts {counts.pop('tshark'):,} frames. "
    wrong = {name: count for name, count in counts.items() if count != capture.frames}
    if wrong:
        sys.exit(f"{capture.name}: {capture.frames} frames were sent, and counted were {wrong}")
    words = f"{beyond}The frame count is right: {', '.join(counts)}."
    if setting.tshark is not None and not beyond:
        forms = " and ".join(rows_like_tshark(setting.tshark, capture))
        words += f" Packet, connection, sender, flags, size and body of each frame equal those of tshark: {forms}."
    return words


def rows_like_tshark(tshark: str, capture: Capture) -> list[str]:
    """Return the formats in which our rows equal those of tshark; exit if they differ."""
    command = [sys.executable, "-m", "benchmarks.rows", "same", str(capture.path), tshark]
    if tools.can_export():
        output_of(tools.export(str(capture.path)))
        command.append(str(tools.EXPORTED))
    found = json.loads(output_of(command))
    for form, differences in found["differences"].items():
        if differences or not found["frames"]:
            sys.exit(f"{capture.name}: rows as {form} differ from those of tshark: {differences or found}")
    return list(found["differences"])
