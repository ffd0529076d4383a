"""Findings about the capture: dropped packets, unreadable files, clocks set back.

They belong to the whole run, because the affected connections are unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zmtpscope.capture import CaptureProblem
from zmtpscope.capture.clock import SetBack
from zmtpscope.capture.errors import STDIN_NAME
from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.records.batch import RANKS, Record
from zmtpscope.dissect.records.record_writer import AT_THE_END
from zmtpscope.dissect.records.sink import Sink
from zmtpscope.findings import FINDINGS
from zmtpscope.records import empty_own
from zmtpscope.words import duration

PACKETS_DROPPED = "CAPTURE-01"
FILE_DAMAGED = "CAPTURE-02"
CLOCK_WENT_BACK = "CAPTURE-03"

NO_CONNECTION = 1 << 63
"""A sort key after all connections and datagrams."""

MAX_NAMED = 8


def put_drops(sink: Sink, drops: Mapping[str, int], end: Arrival) -> None:
    """Report packets that were lost during capture, by interface; `end` is the end of the capture."""
    if drops:
        _put(sink, PACKETS_DROPPED, end, by_interface(drops), sum(drops.values()))


def put_problems(sink: Sink, problems: Iterable[CaptureProblem], end: Arrival) -> None:
    """Report each file that could not be read to its end; `packet` is the last packet read."""
    for problem in sorted(problems, key=lambda each: (each.file or "", each.offset)):
        name = (problem.file or STDIN_NAME).encode("utf-8", "backslashreplace").decode()
        _put(sink, FILE_DAMAGED, end, f"{name}: {problem.text}", 1, file=problem.file, packet=problem.packet or None)


def put_set_back(sink: Sink, set_back: SetBack | None, end: Arrival) -> None:
    """Report that the clock of a capture was set back, at the packet with the largest step."""
    if set_back is not None:
        detail = f"packet {set_back.packet} is stamped {duration(set_back.ns)} before an earlier one"
        detail += f", and {set_back.times - 1} more by at most that much" if set_back.times > 1 else ""
        at = end._replace(time=set_back.time)
        _put(sink, CLOCK_WENT_BACK, at, detail, set_back.times, file=set_back.file, packet=set_back.packet)


def _put(
    sink: Sink,
    id_: str,
    end: Arrival,
    detail: str,
    count: int,
    *,
    file: str | None = None,
    packet: int | None = None,
) -> None:
    kind = FINDINGS[id_]
    sink.summary.count_finding((kind.severity, kind.id), 1, kind.hint)
    if not sink.options.records:
        return
    own = empty_own("finding")
    own.update(
        id=kind.id,
        severity=kind.severity,
        text=f"{kind.text}: {detail}",
        section=kind.section,
        hint=kind.hint,
        refs=[],
        count=count,
    )
    order = (end.ordinal, NO_CONNECTION, 0, 0, AT_THE_END, RANKS["finding"])
    sink.put(Record("finding", order, None, end.time, file, packet, own))


def by_interface(drops: Mapping[str, int]) -> str:
    """Format dropped packets by interface: `12 on eth0, 1 on lo`, largest number first."""
    ordered = sorted(drops.items(), key=lambda each: -each[1])
    named = [f"{count} on {name}" for name, count in ordered[:MAX_NAMED]]
    rest = ordered[MAX_NAMED:]
    return ", ".join([*named, *([f"{sum(count for _, count in rest)} on {len(rest)} more"] if rest else [])])
