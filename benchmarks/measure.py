"""The cost of a command, from the accounting of the operating system.

The memory of a process counts from its fork on, so only a small process may call this: the runner loads the standard
library only, and everything that needs memory is a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple


class Cost(NamedTuple):
    """CPU (user and system) and wall time in seconds, and the largest resident memory in octets.

    Children that the command has waited for are in its CPU time; of their memory only the largest counts.
    """

    cpu: float
    wall: float
    peak: int


class Failed(Exception):
    """A measured command failed."""


def cost_of(command: Sequence[str], piped: Path | None = None) -> Cost:
    """Run a command once without its output; `piped` is a file to feed through a pipe.

    Raises `Failed` if it does not exit with 0.
    """
    with ExitStack() as stack:
        complaints = stack.enter_context(tempfile.TemporaryFile())
        source = None
        if piped is not None:
            feeder = stack.enter_context(subprocess.Popen(["cat", str(piped)], stdout=subprocess.PIPE))
            source = feeder.stdout
        begin = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=source or subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=complaints, env=environment()
        )
        if source is not None:
            source.close()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            complaints.seek(0)
            words = complaints.read().decode(errors="replace").strip()[-500:]
            raise Failed(f"{' '.join(command)} ended with {process.returncode}: {words}")
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * 1024)


def output_of(command: Sequence[str]) -> str:
    """Return the output of a command. Raises `Failed` if it does not exit with 0."""
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    if done.returncode:
        raise Failed(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def in_turn(commands: Mapping[str, Sequence[str]], rounds: int, once: Sequence[str] = ()) -> dict[str, list[Cost]]:
    """Run A, B, C, A, B, C ...

    in this many rounds; those named in `once` only in the first. The first command runs once before, to warm up.
    """
    cost_of(next(iter(commands.values())))
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for number in range(rounds):
        for name, command in commands.items():
            if number == 0 or name not in once:
                costs[name].append(cost_of(command))
    return costs


def environment() -> dict[str, str]:
    """Return the environment of measured commands: Python caches compiled modules, as in an installation."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
