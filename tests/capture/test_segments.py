"""Blocks taken apart by flow, and sent as one table: nothing of them changes but ordinals."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.readings import CAPTURE_FILES
from zmtpscope.capture import SegmentBlock, open_captures
from zmtpscope.capture.segments import ORDINALS


def blocks(path: Path) -> list[SegmentBlock]:
    return list(open_captures([str(path)], block_size=1 << 12))


def described(block: SegmentBlock) -> dict[str, Any]:
    """All of a block, as plain values; packets have the octets of their payloads."""
    columns = ("sequences", "acknowledgments", "flags", "packets", "times", "flows", "starts", "stops")
    plain = {name: getattr(block, name).tolist() for name in columns}
    payloads = [block.data[start:stop] for start, stop in zip(block.starts, block.stops, strict=True)]
    datagrams = [each._replace(row=0) for each in block.datagrams]
    return plain | {
        "keys": block.keys,
        "payloads": payloads,
        "cut": block.cut,
        "datagrams": datagrams,
        "datagram keys": block.datagrams.keys,
        "ordinal": block.ordinal,
        "latest": block.latest,
    }


def segments_of(block: SegmentBlock) -> list[tuple[Any, ...]]:
    """Return each segment without its position in the block."""
    columns = (block.flows, block.sequences, block.acknowledgments, block.flags, block.starts, block.stops)
    return [
        (block.keys[flow], *numbers, block.data[start:stop], packet, time, block.cut.get(index))
        for index, (flow, *numbers, start, stop, packet, time) in enumerate(
            zip(*(column.tolist() for column in (*columns, block.packets, block.times)), strict=True)
        )
    ]


@pytest.mark.parametrize("path", CAPTURE_FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_block_is_the_same_after_it_was_sent_as_rows(path: Path) -> None:
    for block in blocks(path):
        made = SegmentBlock.from_columns(block.data, block.rows(), block.ordinal, block.latest)
        assert described(made) == described(block)


@pytest.mark.parametrize("path", CAPTURE_FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_parts_of_a_block_are_the_block(path: Path) -> None:
    random = Random(path.stem)
    for block in blocks(path):
        parts = np.array([random.randrange(3) for _ in block.keys], np.int64)
        selected = [block.select(parts == number, datagrams=number == 1) for number in range(3)]
        assert sum(map(len, selected)) == len(block)
        for number, part in enumerate(selected):
            chosen = [each for each in segments_of(block) if parts[block.keys.index(each[0])] == number]
            assert segments_of(part) == chosen
            assert list(dict.fromkeys(part.flows.tolist())) == list(range(len(part.keys)))
            assert (part.latest, part.ordinal) == (block.latest, block.ordinal)
        assert [len(part.datagrams) for part in selected] == [0, len(block.datagrams), 0]
        places = dict(zip(block.packets.tolist(), range(len(block)), strict=True))
        in_part = selected[1].packets.tolist()
        for one, other in zip(block.datagrams, selected[1].datagrams, strict=True):
            in_front = [packet for packet in in_part if ORDINALS * places[packet] <= one.ordinal - block.ordinal]
            assert other == one._replace(ordinal=block.ordinal + ORDINALS * (len(in_front) - 1))
