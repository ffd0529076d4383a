"""The cost of decrypting CURVE, beside libsodium doing nothing else."""

from __future__ import annotations

import json
import sys
from typing import Any

from benchmarks import tools
from benchmarks.captures import Capture, note
from benchmarks.measure import Cost, Failed, cost_of, output_of
from benchmarks.setting import Setting


def curve(setting: Setting) -> dict[str, Any]:
    """Return the costs by capture: of our commands, of our commands for one message, and of loops that only open the
    same boxes. A quick run uses the same sizes, because the start would hide the cost of fewer messages."""
    captures = [
        setting.capture("curve", "curve", messages=200_000),
        setting.capture("curve-large", "curve", messages=2_000, size=65_536, mss=65_483),
    ]
    one = setting.capture("curve-one", "curve", messages=1)
    if not tools.takes_keys():
        note("zmtpscope takes no keys here: only libsodium is measured")
    return {setting.name(capture): measured(setting, capture, one) for capture in captures}


def measured(setting: Setting, capture: Capture, one: Capture) -> dict[str, Any]:
    """Measure one capture, and `one` for constant costs. Raises `Failed` if a message was not decrypted."""
    check(capture)
    note(f"timing {capture.name}")
    commands, once, loops = tools.opening(capture.path), tools.opening(one.path), tools.loops(capture.path)
    cost_of(commands["count"])
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    starts: dict[str, list[Cost]] = {name: [] for name in commands}
    alone: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(setting.rounds):
        for name, command in commands.items():
            costs[name].append(cost_of(command))
            starts[name].append(cost_of(once[name]))
        for name, command in loops.items():
            alone[name].append(loop(command, capture))
    octets = capture.truth["message_body_bytes"]
    return {"messages": capture.truth["messages"], "octets": octets, "costs": costs, "starts": starts, "loops": alone}


def loop(command: list[str], capture: Capture) -> float:
    """Return the CPU seconds that a loop reports. Raises `Failed` if it did not open every box."""
    found = json.loads(output_of(command))
    if found["opened"] != capture.truth["messages"]:
        raise Failed(f"{' '.join(command)} opened {found['opened']} of {capture.truth['messages']} boxes")
    cpu: float = found["cpu"]
    return cpu


def check(capture: Capture) -> None:
    """Check that all messages sent are found, and decrypted with the key log. Raises `Failed` otherwise."""
    note(f"checking {capture.name}")
    sent = capture.frames
    if (counted := tools.frames_by_zmtpscope(capture)) != sent:
        raise Failed(f"{capture.name}: {sent} frames were sent, and counted were {counted}")
    if tools.takes_keys():
        command = [sys.executable, "-m", "benchmarks.rows", "opened", str(capture.path), f"{capture.path}.keys"]
        if (opened := json.loads(output_of(command))["opened"]) != sent:
            raise Failed(f"{capture.name}: {sent} messages were sealed, and opened were {opened}")
