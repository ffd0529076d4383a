"""A campaign: run cases by number; reduce, write and count the failing ones."""

from __future__ import annotations

import itertools
import json
import re
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tests.capture.containers import pcap, pcapng
from tests.fuzz.cases import Case, case_of
from tests.fuzz.changes import in_32_bits
from tests.fuzz.checks import CHECKS, Check
from tests.fuzz.faults import Fault
from tests.fuzz.readings import Subject
from tests.fuzz.talks import Talk, real
from tests.fuzz.wire import packets_of

Item = TypeVar("Item")

STUCK = 60.0
"""CPU seconds that one check may take."""
TRIES = 400
"""Number of attempts to leave out a part of a failing case."""
SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Found:
    """A failure of a check. `kind` is equal for faults with the same cause, as far as that can be determined."""

    check: str
    kind: str
    text: str


@dataclass
class Tally:
    """Counts of a worker, which are added up."""

    cases: int = 0
    octets: int = 0
    checks: Counter[str] = field(default_factory=Counter)
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        self.cases += other.cases
        self.octets += other.octets
        self.checks.update(other.checks)
        self.faults.update(other.faults)


class Stuck(BaseException):
    """A check takes too long. Not an `Exception`, which handlers in the code would catch."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `Stuck` if the block takes this much CPU time."""

    def stop(number: int, frame: object) -> None:
        raise Stuck

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a folder for the files of cases, in memory if possible."""
    with tempfile.TemporaryDirectory(
        prefix="zmtpscope-fuzz-", dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    ) as folder:
        yield Path(folder)


def what_fails(subject: Subject, check: Check) -> Found | None:
    """Return the failure of a check, if it fails."""
    try:
        with limited(STUCK):
            check.hold(subject)
    except Fault as fault:
        return Found(check.name, fault.kind, str(fault))
    except Exception as error:
        return Found(check.name, kind_of(error), traceback.format_exc())
    except Stuck as stuck:
        return Found(check.name, "stuck in " + place_of(stuck), traceback.format_exc())
    return None


def kind_of(error: BaseException) -> str:
    """Describe an unexpected exception: its class, and the place in the package that raised it."""
    return f"{type(error).__name__} in {place_of(error)}"


def place_of(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/zmtpscope/" in frame.filename]
    if not frames:
        return "the campaign"
    return f"{frames[-1].filename.rpartition('/zmtpscope/')[2]}, {frames[-1].name}"


def faults_of(case: Case, number: int, checks: Iterable[Check]) -> Iterator[Found | str]:
    """Run checks on a case; yield failures, and the names of the checks that ran."""
    with scratch() as folder:
        subject = Subject(case, folder)
        for check in checks:
            if number % check.every == 0 and (subject.readable or check.unreadable):
                found = what_fails(subject, check)
                yield check.name
                if found is not None:
                    yield found


# -- reduction ---------------------------------------------------------------------------------------------------------


def minimised(case: Case, check: Check, kind: str) -> Case:
    """Return a smaller case that fails in the same way: with fewer options, files and packets, otherwise with fewer
    octets."""

    def fails(changed: Case) -> bool:
        with scratch() as folder:
            subject = Subject(changed, folder)
            found = what_fails(subject, check) if subject.readable or check.unreadable else None
        return found is not None and found.kind == kind

    def simplest(*simpler: Case) -> Case:
        return next((changed for changed in simpler if changed != case and fails(changed)), case)

    case = simplest(*[replace(case, files=(file,)) for file in case.files])
    case = simplest(replace(case, keys="", reading={}), replace(case, keys=""), replace(case, reading={}))
    if len(case.files) > 1:
        return case
    with scratch() as folder:
        path = folder / "case"
        path.write_bytes(case.files[0])
        packets = packets_of(path)
    if fails(replace(case, files=(written(packets),))):
        packets = fewer(packets, lambda some: fails(replace(case, files=(written(some),))))
        return replace(case, files=(written(packets),))
    pieces = [case.files[0][start : start + 4] for start in range(0, len(case.files[0]), 4)]
    pieces = fewer(pieces, lambda some: fails(replace(case, files=(b"".join(some),))))
    return replace(case, files=(b"".join(pieces),))


def written(packets: Sequence[Any]) -> bytes:
    """Return a plain file with these packets: pcap if possible."""
    if packets and {packet.link for packet in packets} == {packets[0].link}:
        return pcap([in_32_bits(packet) for packet in packets], nanoseconds=True)
    return pcapng(packets)


def fewer(items: list[Item], fails: Callable[[list[Item]], bool]) -> list[Item]:
    """Leave out smaller and smaller ranges of items; return the fewest that still fail."""
    size, tries = max(1, len(items) // 2), 0
    while size and tries < TRIES:
        start = 0
        while start < len(items) and tries < TRIES:
            some = items[:start] + items[start + size :]
            tries += 1
            if some and fails(some):
                items = some
            else:
                start += size
        size //= 2
    return items


# -- the campaign ------------------------------------------------------------------------------------------------------


class Plan(NamedTuple):
    """The plan of a campaign: cases `first`, `first + step` and so on, at most `cases` of them, until `deadline`."""

    seed: int
    captures: tuple[Path, ...]
    checks: tuple[Check, ...] = CHECKS
    first: int = 0
    step: int = 1
    cases: int | None = None
    deadline: float | None = None
    """On the clock `time.monotonic`."""
    faults: Path | None = None


def real_talks(captures: Iterable[Path]) -> list[Talk]:
    with scratch() as folder:
        return [talk for path in captures if (talk := real(path, folder)).packets]


def run_campaign(plan: Plan, report: Callable[[int, Case, Found], None]) -> Tally:
    """Run the cases of a plan; call `told` with the first fault of each kind."""
    talks = real_talks(plan.captures)
    tally = Tally()
    for number in itertools.count(plan.first, plan.step):
        over = plan.deadline is not None and time.monotonic() > plan.deadline
        if over or tally.cases == plan.cases:
            break
        tally.cases += 1
        try:
            case = case_of(plan.seed, number, talks)
        except Exception as error:  # a fault of the campaign itself, which must continue
            tally.checks["making a case"] += 1
            tally.faults["making a case", f"{kind_of(error)}: {error}"] += 1
            continue
        tally.octets += case.octets
        for found in faults_of(case, number, plan.checks):
            if isinstance(found, str):
                tally.checks[found] += 1
                continue
            tally.faults[found.check, found.kind] += 1
            if tally.faults[found.check, found.kind] == 1:
                report(number, case, found)
    return tally


def write_down(plan: Plan, number: int, case: Case, found: Found) -> Path:
    """Reduce a fault and write the capture, its keys, the failure, and how to reproduce it."""
    assert plan.faults is not None
    plan.faults.mkdir(parents=True, exist_ok=True)
    check = next(check for check in plan.checks if check.name == found.check)
    small = minimised(case, check, found.kind) if check.shrinks else case
    name = re.sub("[^A-Za-z0-9]+", "-", f"{found.check} {found.kind}")[:80].strip("-")
    for place, octets in enumerate(small.files):
        (plan.faults / f"{name}{f'-{place}' * (len(small.files) > 1)}.pcap").write_bytes(octets)
    if small.keys:
        (plan.faults / f"{name}.keys").write_text(small.keys)
    again = f"python -m tests.fuzz --seed {plan.seed} --number {number} --only {json.dumps(found.check)}"
    words = [again, " <- ".join(reversed(case.made)), f"read with {small.reading}, salt {small.salt}", found.text]
    path = plan.faults / f"{name}.txt"
    path.write_text("\n\n".join(words) + "\n")
    return path
