"""The cost of hostile input as its size grows: n, 2n and 4n of each attack.

    python -m benchmarks.hostile [--quick] [NAME ...]       attacks whose names contain one of the words

An attack on reading is a function in `attacks.py` that writes a capture. An attack on sockets is a function in
`peers.py` that runs it. Other attacks provide their `Work`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmarks import peers, report
from benchmarks.attacks import ATTACKS
from benchmarks.captures import WORK, note
from benchmarks.measure import cost_of, output_of
from benchmarks.setting import Setting
from benchmarks.tools import ZMTPSCOPE

TIMES = (1, 2, 4)
QUICK_SHARE = 10
"""Factor by which a quick run is smaller."""


class Work(NamedTuple):
    """A command, and the packets and octets that it processes."""

    command: Sequence[str]
    packets: int
    octets: int


class Series(NamedTuple):
    """An attack: the smallest size (n), and a function that returns the work for any size."""

    least: int
    work: Callable[[int], Work]


def reading(name: str, count: int) -> Work:
    """Return the work of reading the capture of an attack."""
    WORK.mkdir(exist_ok=True)
    path = WORK / "hostile.pcap"
    made = output_of([sys.executable, "-m", "benchmarks.attacks", name, str(count), str(path)])
    packets, octets = map(int, made.split())
    program, *options = (ZMTPSCOPE, *ATTACKS[name].options)
    return Work([program, *options, str(path)], packets, octets)


def of_capture(name: str) -> Series:
    """Return the series of an attack on reading."""
    return Series(ATTACKS[name].least, lambda size: reading(name, size))


def talking(name: str, count: int) -> Work:
    """Return the work of an attack on a socket of ours."""
    command = [sys.executable, "-m", "benchmarks.peers", name, str(count)]
    return Work(command, *map(int, output_of(command).split()))


def of_peers(name: str) -> Series:
    """Return the series of an attack on a socket."""
    return Series(peers.ATTACKS[name].least, lambda size: talking(name, size))


SERIES: dict[str, Series] = {
    **{name: of_capture(name) for name in ATTACKS},
    **{name: of_peers(name) for name in peers.ATTACKS},
}


def hostile(setting: Setting, words: Sequence[str] = ("",)) -> list[dict[str, Any]]:
    """Measure each series whose name contains one of the words at n, 2n and 4n."""
    return [
        grown(name, series.least // QUICK_SHARE if setting.quick else series.least, series.work)
        for name, series in SERIES.items()
        if any(word in name for word in words)
    ]


def grown(name: str, count: int, work: Callable[[int], Work]) -> dict[str, Any]:
    """Return the CPU seconds of each size beyond the smallest, and the peak memory."""
    note(name)
    cost_of(work(1).command)  # the first run of all compiles
    start = cost_of(work(1).command).cpu
    points = []
    for times in TIMES:
        command, packets, octets = work(times * count)
        cost = cost_of(command)
        points.append({"packets": packets, "octets": octets, "cpu": max(0.0, cost.cpu - start), "peak": cost.peak})
    return {"attack": name, "points": points}


def main() -> None:
    """Run the selected series and print the page."""
    parser = argparse.ArgumentParser(prog="benchmarks.hostile", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("words", nargs="*", metavar="NAME", default=[""])
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes")
    given = parser.parse_args()
    print(report.hostile(hostile(Setting(given.quick, 1, None, None), given.words or [""])))


if __name__ == "__main__":
    main()
