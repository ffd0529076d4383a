"""The lines of scripted and real captures with repeats folded, as time and words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from tests.traffic import Capture, Packet
from zmtpscope.dissect import Analyser
from zmtpscope.export.clock import Clock
from zmtpscope.export.text import Look, TextLines

LINE = re.compile(r" *(?:\S+ )? *(-?[\d.]+)  (?:(c\d+|udp) +)?(.*)\n")

Line = tuple[float, str | None, str]
"""Second, connection and last column, without hints and bodies."""


def lines_of(capture: Any, *, waits: bool = True, folds: bool = True) -> Iterator[Line]:
    analyser = Analyser()
    text = TextLines(Look(Clock("e", lambda: 0), waits=waits, folds=folds), analyser.options)
    for line in [*(line for batch in analyser.run(capture) for line in text.lines(batch)), *text.rest()]:
        found = LINE.fullmatch(line)
        assert found
        yield float(found[1]), found[2], found[3].split("  ")[-1].strip().split(" -> ")[0]


def written(packets: Iterable[Packet], *, waits: bool = True) -> list[Line]:
    """Return the same for packets, which are read one by one if lines do not wait; seconds since the first."""
    ordered = sorted(packets, key=lambda packet: packet.time)
    lines = list(lines_of(Capture(ordered, 1 << 30 if waits else 1), waits=waits))
    return [(time - ordered[0].time / 1e9, conn, what) for time, conn, what in lines]


def words(packets: Iterable[Packet], *, waits: bool = True) -> list[str]:
    return [what for _, _, what in written(packets, waits=waits)]


def repeated(what: str) -> int:
    """Return the number of repeated heartbeats, attempts or gaps that a line reports; 0 for another line."""
    if re.match(r"\d+ gaps? more of", what):
        return int(what.split()[0])
    if what.startswith("retried"):
        return int(what.split()[1]) if " times, " in what else 1
    if what.startswith("PING/PONG"):
        return int(what.split()[1]) if " times " in what else 1
    return 0
