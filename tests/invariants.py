"""What holds for every capture, whatever is in it: properties that tests and campaigns ask of octets of any origin."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from itertools import repeat
from random import Random

from zmtpscope.capture.captures import BLOCK_SIZE, Segmenter
from zmtpscope.capture.errors import CaptureError
from zmtpscope.capture.files import CaptureFile
from zmtpscope.capture.merge import read_merged
from zmtpscope.capture.packets import PacketBlock
from zmtpscope.capture.statistics import FileReports
from zmtpscope.dissect import Analyser, Batch, Options
from zmtpscope.export.clock import Clock
from zmtpscope.export.json_lines import text_of
from zmtpscope.export.text import Look, TextLines

COMPARING = re.compile("ZRE|ZAP|ZMTP-DOWNGRADE-01|EXPAIR-01|ZMTP3X-META-15|CURVE-1[59]|ZMTP-CONN-(09|1[0456])")
"""Findings that compare connections; all others of a connection depend on no other."""


def packets_of_capture(octets: bytes) -> list[PacketBlock]:
    """The packets of a capture file with these octets, as its container has them; none where it is no capture."""
    with tempfile.NamedTemporaryFile(suffix=".pcap") as file:
        file.write(octets)
        file.flush()
        try:
            return list(read_merged([CaptureFile(file.name)], BLOCK_SIZE, FileReports()))
        except CaptureError:
            return []


def in_blocks(packets: list[PacketBlock], sizes: Iterable[int]) -> Iterator[PacketBlock]:
    """The same packets, so many in each block as `sizes` says, which do not reach over blocks of `packets`."""
    each = iter(sizes)
    for block in packets:
        begin = 0
        while begin < len(block):
            size = next(each)
            yield block[begin : begin + size]
            begin += size


def lines_of(
    packets: Iterable[PacketBlock],
    options: Options,
    between: Callable[[Analyser], Analyser] = lambda analyser: analyser,
    *,
    waits: bool = False,
) -> list[str]:
    """What a run over these blocks writes: JSON lines; with `options.details` the lines for people, trees and hex. Last
    comes what it counted. `between` two blocks the analyser may be replaced. `waits`: lines for people are in the order
    of time."""
    clock = Clock("e", lambda: 0)
    text = TextLines(Look(clock, waits=waits, chat=True, tree=options.details, hex=options.details), options)
    lines: list[str] = []

    def add(batches: Iterable[Batch]) -> None:
        for batch in batches:
            if options.details:
                lines.extend("".join(text.lines(batch)).splitlines())
            else:
                lines.extend(b"".join(text_of(batch, options)).decode().splitlines())

    analyser, segmenter = Analyser(options), Segmenter()
    analyser.begin([None])
    for block in packets:
        add(analyser.feed(segmenter.feed(block)))
        analyser = between(analyser)
    segmenter.finish()
    add(analyser.finish())
    lines.extend("".join(text.rest()).splitlines())
    counted = asdict(analyser.summary)
    return [*lines, str({name: _in_order(each) for name, each in counted.items()})]


def _in_order(counted: object) -> object:
    """What was counted, whatever was met first."""
    if isinstance(counted, dict):
        return sorted((key, _in_order(value)) for key, value in counted.items())
    return sorted(counted) if isinstance(counted, set) else counted


def differs_by_blocks(octets: bytes, options: Callable[[], Options], seed: int = 0) -> str | None:
    """Where the lines of a capture depend on where blocks end: the first that do, and the size of blocks. None where
    all in one block, packet by packet and blocks of random sizes say the same.

    `options` makes them anew for each run: keys remember what they were asked.
    """
    packets = packets_of_capture(octets)
    random = Random(seed)
    most = random.choice((3, 10, 50))
    groups: dict[str, Iterable[int]] = {
        "packet by packet": repeat(1),
        f"blocks of up to {most}": iter(lambda: random.randint(1, most), 0),
    }
    whole = lines_of(packets, options())
    for name, sizes in groups.items():
        lines = lines_of(in_blocks(packets, sizes), options())
        if lines != whole:
            at = next(
                (at for at, (one, other) in enumerate(zip(whole, lines, strict=False)) if one != other), len(lines)
            )
            return (
                f"{name}, line {at + 1} of {len(lines)} and {len(whole)}:\n{lines[at : at + 1]}\n{whole[at : at + 1]}"
            )
    return None
