"""Packets that the capture says it lost: one finding of the whole run, since nobody knows on which connections."""

from __future__ import annotations

from collections.abc import Mapping

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.batch import RANKS, Record
from zmtpscope.dissect.sink import Sink
from zmtpscope.dissect.tell import AT_THE_END
from zmtpscope.findings import FINDINGS
from zmtpscope.records import SCHEMA, empty

PACKETS_DROPPED = "CAPTURE-01"

NO_CONNECTION = 1 << 63
"""Where it stands among the connections: behind all of them, and behind datagrams."""

MOST_NAMED = 8
"""So many interfaces are named."""


def put_drops(sink: Sink, drops: Mapping[str, int], end: Arrival, telling: bool) -> None:
    """Add the finding that so many packets were dropped, by interface, if any were; `end` is the end of the capture."""
    if not drops:
        return
    kind = FINDINGS[PACKETS_DROPPED]
    sink.summary.findings[kind.severity, kind.id] += 1
    sink.summary.hints[kind.severity, kind.id] = {kind.hint} if kind.hint else set()
    if not telling:
        return
    values = empty("finding")
    values.update(
        schema=SCHEMA,
        record="finding",
        ts_ns=end.time,
        id=kind.id,
        severity=kind.severity,
        text=f"{kind.text}: {by_interface(drops)}",
        section=kind.section,
        hint=kind.hint,
        refs=[],
        count=sum(drops.values()),
    )
    order = (end.ordinal, NO_CONNECTION, 0, 0, AT_THE_END, RANKS["finding"])
    sink.put(Record("finding", order, values))


def by_interface(drops: Mapping[str, int]) -> str:
    """`12 on eth0, 1 on lo`, those that lost most first."""
    ordered = sorted(drops.items(), key=lambda each: -each[1])
    named = [f"{count} on {name}" for name, count in ordered[:MOST_NAMED]]
    rest = ordered[MOST_NAMED:]
    return ", ".join([*named, *([f"{sum(count for _, count in rest)} on {len(rest)} more"] if rest else [])])
