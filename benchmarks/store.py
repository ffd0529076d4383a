"""The cost of keeping the records of a capture: opening it, memory per record, filters, and single records.

    python -m benchmarks.store [--quick] [--rounds N]

Opening is a process of its own, in turn with `read -q` of the same capture. The largest store contains the records of a
capture many times. The page is written to results/.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from benchmarks.captures import HERE, Capture, capture
from benchmarks.measure import Cost, cost_of
from benchmarks.report import head, table
from benchmarks.run import machine
from benchmarks.setting import QUICK
from benchmarks.tools import ZMTPSCOPE
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser, Options
from zmtpscope.filter import Filter
from zmtpscope.payloads.registry import Registry
from zmtpscope.store import Store

ROUNDS, QUICK_ROUNDS = 7, 3
TIMES = 10
"""How many times the largest store contains the records of `small`."""
ASKED = 500
"""Number of records to request one by one."""
FILTERS = ("size > 1000", "conn == 3", "socket_type == PUSH", "topic == 'a'", "record == finding")


OPEN = """
import gc, sys
gc.set_threshold(100_000, 20, 50)  # as the command line does
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser, Options
from zmtpscope.payloads.registry import Registry
from zmtpscope.store import Store
options = Options(payloads=Registry(), index=True)
store = Store(options)
for batch in Analyser(options).run(open_captures([sys.argv[1]])):
    store.append(batch)
gc.freeze()
"""
"""Measure a process that only opens a capture."""


def opened(path: str, times: int = 1) -> Store:
    """Return a store that contains the records of a capture this many times."""
    options = Options(payloads=Registry(), index=True)
    store = Store(options)
    for _ in range(times):
        captures = open_captures([path])
        for batch in Analyser(options).run(captures):
            store.append(batch)
    store.first_time = captures.statistics.first_time
    return store


Pairs = list[tuple[Cost, Cost]]


def opening(made: Capture, rounds: int) -> Pairs:
    """Measure a store and `read -q`, in turn."""
    count = [ZMTPSCOPE, "read", "-q", str(made.path)]
    keep = [sys.executable, "-c", OPEN, str(made.path)]
    return [(cost_of(keep), cost_of(count)) for _ in range(rounds)]


def what_it_costs(made: Capture, pairs: Pairs) -> list[str]:
    """Return a row: CPU beside `read -q`, and memory."""
    store = opened(str(made.path))
    return [
        made.name,
        f"{len(store):,}",
        f"{median(each.cpu / other.cpu for each, other in pairs):.2f}",
        f"{store.nbytes / len(store):.1f}",
        f"{median(each.peak - other.peak for each, other in pairs) / len(store):.0f}",
        f"{store.spool.end / len(store):.1f}",
    ]


def seconds(do: Callable[[], object], rounds: int) -> float:
    """Return the least CPU seconds of some rounds."""
    found = []
    for _ in range(rounds):
        begin = time.process_time()
        do()
        found.append(time.process_time() - begin)
    return min(found)


def resident() -> int:
    """Return the memory of this process in octets."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def filters(path: str, times: int, rounds: int) -> tuple[str, list[list[str]]]:
    """Filter the largest store: return a sentence, and a row for each filter."""
    before = resident()
    store = opened(path, times)
    about = (
        f"{len(store):,} records in {store.nbytes / 2**20:,.0f} MiB of columns; the process grew by "
        f"{(resident() - before) / 2**20:,.0f} MiB, libraries included."
    )
    rows = []
    for text in FILTERS:
        found = Filter(text)
        taken = seconds(lambda found=found: store.select(found), rounds)  # type: ignore[misc]
        count = len(store.select(found))
        rows.append([f"`{text}`", f"{count:,}", f"{1e3 * taken:.0f} ms", f"{1e9 * taken / len(store):.1f} ns"])
    return about, rows


def one_by_one(made: Capture) -> list[str]:
    """Return a row: the cost of one record again, anywhere."""
    store = opened(str(made.path))
    rows = [random.Random(1).randrange(len(store)) for _ in range(ASKED)]
    store.line(len(store) - 1)
    ways: list[Callable[[int], object]] = [store.row, store.octets, store.detail]
    found = [f"{1e6 * seconds(lambda way=way: [way(row) for row in rows], 2) / ASKED:.0f} us" for way in ways]  # type: ignore[misc]
    first = min(rows)
    page = seconds(lambda: store.lines(first, first + 50), 2)
    return [made.name, *found, f"{1e3 * page:.1f} ms"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes, fewer rounds")
    parser.add_argument("--rounds", type=int)
    given = parser.parse_args()
    quick = given.quick
    scale, rounds = (10 if quick else 1), given.rounds or (QUICK_ROUNDS if quick else ROUNDS)
    name = QUICK * quick
    small = capture(f"{name}small", "small", messages=1_000_000 // scale)
    short = capture(f"{name}short", "short", connections=10_000 // scale)
    pubsub = capture(f"{name}pubsub", "pubsub", messages=500_000 // scale)
    made = (small, short, pubsub)
    results = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "quick": quick, "machine": machine(None)}
    headings = ["capture", "records", "CPU, times `read -q`", "octets of columns", "memory beside it", "in the spool"]
    pairs = [opening(each, rounds) for each in made]  # before this process is large: theirs count from its fork on
    about, rows = filters(str(small.path), TIMES, rounds)
    parts = [
        head(results),
        "## Opening a capture as a store (octets are those of a record)",
        table(headings, list(map(what_it_costs, made, pairs))),
        "## Filters over many records",
        about,
        table(["filter", "found", "CPU", "a record"], rows),
        "## One record again, anywhere",
        table(["capture", "fields", "octets", "`-V -x`", "50 lines"], [one_by_one(each) for each in made]),
    ]
    text = "\n\n".join(parts) + "\n"
    (HERE / "results" / f"{results['date']}-store.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
