"""The cost of payload dissectors: the same commands with `--payload auto` and `--payload off`."""

from __future__ import annotations

from typing import Any

from benchmarks import tools
from benchmarks.captures import Capture, note
from benchmarks.measure import in_turn
from benchmarks.setting import Setting

WAYS = ("auto", "off")


def payloads(setting: Setting) -> dict[str, Any]:
    """Return the costs by capture, command and option. Bodies are text, except in json and large."""
    captures = [
        setting.capture("small", "small", messages=setting.scaled(1_000_000)),
        setting.capture("pubsub", "pubsub", messages=setting.scaled(250_000)),
        setting.capture("json", "json", messages=setting.scaled(200_000)),
        setting.capture("large", "large", messages=setting.scaled(4_000)),
    ]
    return {setting.name(capture): measured(setting, capture) for capture in captures}


def measured(setting: Setting, capture: Capture) -> dict[str, Any]:
    """Measure one capture, all commands in turn."""
    note(f"timing what is inside {capture.name}")
    commands = {
        f"{name} {way}": [*command, "--payload", way]
        for name, command in tools.zmtpscope(capture.path).items()
        for way in WAYS
    }
    return {"messages": capture.truth["messages"], "costs": in_turn(commands, setting.rounds)}
