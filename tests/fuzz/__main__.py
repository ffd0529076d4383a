"""`make fuzz`: run a campaign and print what it found. docs/fuzzing.md has more."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from multiprocessing.queues import SimpleQueue
from pathlib import Path

from tests.fuzz.campaign import Found, Plan, Tally, run_campaign, write_down
from tests.fuzz.cases import Case
from tests.fuzz.checks import CHECKS

ROOT = Path(__file__).parent.parent.parent


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long [10]")
    parser.add_argument("--cases", type=int, help="how many cases, instead of a time")
    parser.add_argument("--seed", type=int, default=0, help="another seed gives other cases [0]")
    parser.add_argument("--number", type=int, help="only the case with this number")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="side by side [all processors]")
    parser.add_argument("--only", action="append", choices=[check.name for check in CHECKS], help="only this check")
    parser.add_argument("--faults", type=Path, default=ROOT / "fuzz-faults", help="where faults go [fuzz-faults]")
    parser.add_argument("captures", nargs="*", type=Path, help="begin with these captures [captures/*/*]")
    given = parser.parse_args()
    checks = tuple(
        check._replace(every=1) if given.number is not None else check
        for check in CHECKS
        if not given.only or check.name in given.only
    )
    captures = tuple(sorted(given.captures or (ROOT / "captures").glob("*/*.pcap*")))
    if given.number is not None:
        given.cases, given.processes = 1, 1
    plan = Plan(given.seed, captures, checks, given.number or 0, given.processes, faults=given.faults)
    tally = Tally()
    began = time.monotonic()
    queue: SimpleQueue[Tally] = multiprocessing.SimpleQueue()
    workers = []
    for place in range(given.processes):
        part = plan._replace(first=plan.first + place)
        if given.cases is None:
            part = part._replace(deadline=began + 60 * given.minutes)
        else:
            part = part._replace(cases=given.cases // given.processes + (place < given.cases % given.processes))
        workers.append(multiprocessing.Process(target=work, args=(part, queue)))
    for worker in workers:
        worker.start()
    died = 0
    for _ in workers:
        while queue.empty() and any(worker.is_alive() for worker in workers):
            time.sleep(0.1)
        if queue.empty():
            died += 1
        else:
            tally.add(queue.get())
    for worker in workers:
        worker.join()
    print_table(tally, time.monotonic() - began)
    if died:
        print(f"{died} processes died")
    return bool(tally.faults or died)


def work(plan: Plan, queue: SimpleQueue[Tally]) -> None:
    def report(number: int, case: Case, found: Found) -> None:
        print(f"case {number}: {found.check}: {found.kind} -> {write_down(plan, number, case, found)}", flush=True)

    queue.put(run_campaign(plan, report))


def print_table(tally: Tally, seconds: float) -> None:
    """Octets, cases, checks, and the faults of each."""
    rate = tally.cases / seconds if seconds else 0
    print(f"{tally.cases} changed captures of {tally.octets} octets in {seconds:.0f} s, {rate:.1f} a second")
    for name, count in tally.checks.items():
        kinds = {kind: number for (check, kind), number in tally.faults.items() if check == name}
        print(f"  {name:<16} {count:>8} times, {sum(kinds.values())} faults")
        for kind, number in kinds.items():
            print(f"    {number:>6}  {kind}")


if __name__ == "__main__":
    sys.exit(main())
