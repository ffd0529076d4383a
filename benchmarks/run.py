"""Measure zmtpscope beside tshark and a walk in C, and write dated results: `make bench`, or `make bench QUICK=1`.

Correctness comes first: if the tools count different frames, or our rows differ from those of tshark, the run ends with
the difference.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import zmtpscope
from benchmarks import report, tools
from benchmarks.captures import HERE, note
from benchmarks.crowds import crowds
from benchmarks.damage import damage
from benchmarks.growth import flat, half_open, memory
from benchmarks.hostile import hostile
from benchmarks.measure import Failed
from benchmarks.opening import curve
from benchmarks.payloads import payloads
from benchmarks.setting import Setting
from benchmarks.sockets import sockets
from benchmarks.speed import speed, start

PARTS = {
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
RESULTS = HERE / "results"
ROUNDS, QUICK_ROUNDS = 5, 2
BUSY = 0.5
"""Load above which the machine is not quiet."""


def main() -> None:
    """Run the selected parts, print the page, and write it with its figures."""
    parser = argparse.ArgumentParser(prog="make bench", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} [all]")
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes, fewer rounds")
    parser.add_argument("--rounds", type=int)
    given = parser.parse_args()
    unknown = set(given.parts) - set(PARTS)
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    load = os.getloadavg()[0]
    if load > BUSY:
        note(f"this machine is busy (load {load:.1f}): the figures will be noisy")
    tshark, walk = tools.find_tshark(), tools.build_walk()
    if tshark is None:
        note("no tshark that knows ZMTP (4.4 does; see get_tshark.sh): nothing to compare with")
    if walk is None:
        note("no cc: no walk in C")
    if not tools.can_export():
        note("zmtpscope cannot export Parquet here: not measured")
    rounds = given.rounds or (QUICK_ROUNDS if given.quick else ROUNDS)
    setting = Setting(given.quick, rounds, tshark, walk)
    results: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "quick": given.quick,
        "rounds": rounds,
        "machine": machine(tshark) | {"load at the start": f"{load:.1f}"},
    }
    for name, part in PARTS.items():
        if not given.parts or name in given.parts:
            try:
                results[name] = part(setting)
            except Failed as failure:
                sys.exit(f"{name}: {failure}")
    page = report.page(results)
    print(page)
    RESULTS.mkdir(exist_ok=True)
    name = "-".join([results["date"], *given.parts, *["quick"] * given.quick])
    (RESULTS / f"{name}.md").write_text(page)
    (RESULTS / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n")


def machine(tshark: str | None) -> dict[str, str]:
    """Describe the machine, without names."""
    return {
        "zmtpscope": f"{zmtpscope.__version__} ({revision()})",
        "Python": platform.python_version(),
        "tshark": tools.version_of_tshark(tshark) if tshark else "none",
        "processor": f"{processor()}, {os.cpu_count()} cores",
        "kernel": f"{platform.system()} {platform.release().partition('-')[0]}",
    }


def revision() -> str:
    """Return the measured commit."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE)
    return done.stdout.strip() or "no commit"


def processor() -> str:
    """Return the model of the processor."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


if __name__ == "__main__":
    main()
