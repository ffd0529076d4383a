"""What each capture of a problem is made of: a function over the laboratory, and what is true of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import zmq

from captures.problems.lab import Lab

Run = Callable[[Lab], None]
MADE = f"pyzmq {zmq.__version__}, libzmq {zmq.zmq_version()}"
SCRIPTED = {"made": f"{MADE}, and a peer written by hand"}
"""`facts` of a capture with a side that is not libzmq."""


@dataclass(frozen=True)
class Scenario:
    """One capture. The fields are keys of its truth file (captures/README.md)."""

    run: Run
    what: str
    outcome: str
    diagnosis: list[dict[str, Any]] = field(default_factory=list)
    near_miss_of: str | None = None
    also_true: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    """Other keys, if the capture does not consist of complete handshakes of ZMTP 3.1."""
    logged: bool = True
    """Whether the log of the programs contains everything sent and received."""
    change: Callable[[bytes], bytes] | None = None
    """Change of the capture afterwards."""

    @property
    def name(self) -> str:
        return self.run.__name__.replace("_", "-")


SCENARIOS: dict[str, Scenario] = {}


def problem(rule: str, blames: str, **facts: Any) -> dict[str, Any]:
    """Return an entry of `diagnosis`: the rule, the cause, and further facts."""
    return {"rule": rule, "blames": blames, **facts}


def scenario(what: str, outcome: str, *diagnosis: dict[str, Any], **more: Any) -> Callable[[Run], Run]:
    """Add a function to the table; its name is that of the capture."""

    def enter(run: Run) -> Run:
        entry = Scenario(run, what, outcome, list(diagnosis), **more)
        SCENARIOS[entry.name] = entry
        return run

    return enter
