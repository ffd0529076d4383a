"""Make the captures of this folder: real sockets get into the trouble that `zmtpscope check` is to find.

    python -m captures.problems.make [NAME ...]

Each capture is made in network namespaces of its own (root; ip, unshare and tcpdump), takes a few seconds, and gets its
truth file from what the programs logged. Without NAME all are made again, in about five minutes. They are committed, so
nobody has to run this to use them.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from captures.problems.lab import Lab, captured
from captures.problems.scenario import MADE, SCENARIOS, Scenario
from captures.problems.scenarios import ALL as ALL

HERE = pathlib.Path(__file__).parent
INSIDE = "--inside"
UNSHARE = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
LONGEST = 60
"""Maximum seconds of a scenario."""


def truth_of(scenario: Scenario, lab: Lab) -> dict[str, object]:
    """Return the truth file: the facts in the table, and the log of the programs."""
    log = lab.logged()
    truth: dict[str, object] = {"what": scenario.what, "made": MADE, "outcome": scenario.outcome}
    truth |= {"exit": 0, "versions": ["3.1"], "start_captured": True, "handshake": "complete", "whole": True}
    if scenario.logged:
        truth["sent"] = [message for kind, message in log if kind == "sent"]
        truth["received"] = [message for kind, message in log if kind == "received"]
        asked = {(kind, message[0]) for kind, message in log if kind in ("subscribe", "cancel")}
        if asked:
            truth["subscriptions"] = sorted(asked)
    truth |= scenario.facts
    truth["diagnosis"] = scenario.diagnosis
    if scenario.near_miss_of:
        truth["near_miss_of"] = scenario.near_miss_of
    if scenario.also_true:
        truth["also_true"] = scenario.also_true
    return truth


def make_inside(scenario: Scenario) -> None:
    """Make one capture; this process has a network namespace of its own."""
    with tempfile.TemporaryDirectory() as folder:
        lab, path = Lab(pathlib.Path(folder, "log")), pathlib.Path(folder, "capture")
        lab.start_network()
        try:
            with captured(path):
                scenario.run(lab)
                lab.stop()
        finally:
            lab.end()
        octets = path.read_bytes()
        (HERE / f"{scenario.name}.pcap").write_bytes(scenario.change(octets) if scenario.change else octets)
        if lab.keys:
            (HERE / f"{scenario.name}.keys").write_text("".join(lab.keys))
        truth = truth_of(scenario, lab)
    lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in truth.items())
    (HERE / f"{scenario.name}.truth.json").write_text("{\n" + lines + "\n}\n")


def main(names: list[str]) -> None:
    if names[:1] == [INSIDE]:
        make_inside(SCENARIOS[names[1]])
        sys.stdout.flush()
        os._exit(0)  # threads of libzmq may wait for peers that are gone
    for name in names or SCENARIOS:
        command = [*UNSHARE, sys.executable, "-m", "captures.problems.make", INSIDE, name]
        subprocess.run(command, timeout=LONGEST, check=True)
        print(f"{name}: {(HERE / f'{name}.pcap').stat().st_size} octets", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
