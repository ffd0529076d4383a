"""Properties of every capture with any contents: tests and campaigns check them for arbitrary octets."""

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
"""Findings that compare connections; all other findings of a connection depend on no other connection."""


def packets_of_capture(octets: bytes) -> list[PacketBlock]:
    """Return the packets of a capture file with these octets, as its container stores them; none if it is no
    capture."""
    with tempfile.NamedTemporaryFile(suffix=".pcap") as file:
        file.write(octets)
        file.flush()
        try:
            return list(read_merged([CaptureFile(file.name)], BLOCK_SIZE, FileReports()))
        except CaptureError:
            return []


def in_blocks(packets: list[PacketBlock], sizes: Iterable[int]) -> Iterator[PacketBlock]:
    """Divide the packets into blocks of these sizes, which do not cross blocks of `packets`."""
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
    """Return the output of a run over these blocks: JSON lines; with `options.details` text lines, trees and hex.
    The last line contains the counts. The analyser may be replaced `between` two blocks. `waits`: text lines are in
    the order of time."""
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
    """Sort counts, because their order depends on the input."""
    if isinstance(counted, dict):
        return sorted((key, _in_order(value)) for key, value in counted.items())
    return sorted(counted) if isinstance(counted, set) else counted


def differs_by_blocks(octets: bytes, options: Callable[[], Options], seed: int = 0) -> str | None:
    """Find lines of a capture that depend on the boundaries of blocks: the first one, and the size of blocks. None if
    one block, single packets and blocks of random sizes have equal output.

    `options` creates options for each run, because keys remember queries.
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
