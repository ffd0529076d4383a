"""P15: the records of a connection depend only on its own packets.

Some connections of a capture are read without the packets of all others, and so are some connections of all captures of
a folder that are read as one. Records that compare connections by design, and the numbers of connections, are not
compared.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from struct import unpack
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dissect.workers import NUMBERS
from tests.invariants import COMPARING
from tests.readings import CAPTURE_FILES, EVERY_CAPTURE
from tests.rows_by_hand import values_of
from tests.suites import examples
from zmtpscope.capture import SegmentBlock, open_captures
from zmtpscope.curve_keys import Keys
from zmtpscope.dissect import Analyser, Options
from zmtpscope.payloads.registry import Registry

Record = dict[str, Any]
Pair = frozenset[tuple[str, int]]
"""Two sockets: address and port of each."""

FOLDERS = sorted({path.parent for path in EVERY_CAPTURE})


@cache
def pair_of(key: bytes) -> Pair:
    """Return the sockets of a flow, equal for both directions."""
    size = (len(key) - 4) // 2
    hosts = str(ip_address(key[:size])), str(ip_address(key[size:-4]))
    return frozenset(zip(hosts, unpack(">HH", key[-4:]), strict=True))


def pair_of_record(record: Record) -> Pair:
    return frozenset(((record["src_ip"], record["src_port"]), (record["dst_ip"], record["dst_port"])))


def options_for(paths: list[Path]) -> Options:
    keys = [path.with_suffix(".keys") for path in paths if path.with_suffix(".keys").exists()]
    return Options(frames=True, details=True, show_secrets=True, payloads=Registry(), keys=Keys(keys) if keys else None)


@cache
def blocks_of(*paths: Path) -> list[SegmentBlock]:
    return list(open_captures(list(map(str, paths)), block_size=1 << 16))


def pairs_of(blocks: list[SegmentBlock]) -> list[Pair]:
    return sorted({pair_of(key) for block in blocks for key in (*block.keys, *block.datagrams.keys)}, key=sorted)


def selected(block: SegmentBlock, pairs: set[Pair]) -> SegmentBlock:
    """Return the packets between these sockets, as if there were no others."""
    flows, datagrams = (
        np.array([pair_of(key) in pairs for key in keys], np.bool_) for keys in (block.keys, block.datagrams.keys)
    )
    part = block.select(flows, datagrams=datagrams)
    part.latest = max((*part.times.tolist(), *part.datagrams.times.tolist()), default=0)
    return part


def records_of(paths: tuple[Path, ...], blocks: list[SegmentBlock], last: int) -> dict[str, list[Record]]:
    """Return the records of each connection, in order, except records that compare connections."""
    analyser = Analyser(options_for([*paths]))
    analyser.begin([path.name for path in paths])
    batches = [batch for block in blocks for batch in analyser.feed(block)]
    batches += analyser.finish(last=last)
    found = defaultdict(list)
    for batch in batches:
        for record in values_of(batch, analyser.options):
            compares = record["record"] == "zre_pair" or (
                record["record"] == "finding" and COMPARING.match(record["id"])
            )
            if record["conn_id"] is not None and not compares:
                plain = {name: value for name, value in record.items() if name not in NUMBERS}
                found[record["conn_id"]].append(plain)
    return found


@cache
def whole(*paths: Path) -> dict[str, list[Record]]:
    blocks = blocks_of(*paths)
    return records_of(paths, blocks, last_of(blocks))


def last_of(blocks: list[SegmentBlock]) -> int:
    """Return the end of the capture: records contain how long connections were silent before it."""
    return max((block.latest for block in blocks), default=0)


def assert_apart(paths: tuple[Path, ...], pairs: set[Pair]) -> None:
    blocks = blocks_of(*paths)
    alone = records_of(paths, [selected(block, pairs) for block in blocks], last_of(blocks))
    together = whole(*paths)
    assert alone == {conn_id: records for conn_id, records in together.items() if pair_of_record(records[0]) in pairs}


@pytest.mark.parametrize("path", CAPTURE_FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
@given(data=st.data())
@examples(15)  # of each capture
def test_connections_of_a_capture_are_reported_as_if_they_were_alone(path: Path, data: st.DataObject) -> None:
    pairs = pairs_of(blocks_of(path))
    assert_apart((path,), data.draw(st.sets(st.sampled_from(pairs)) if pairs else st.just(set[Pair]())))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
@given(data=st.data())
@examples(10)
def test_connections_of_many_captures_are_reported_as_if_they_were_alone(folder: Path, data: st.DataObject) -> None:
    paths = tuple(path for path in EVERY_CAPTURE if path.parent == folder)
    pairs = pairs_of(blocks_of(*paths))
    assert_apart(paths, data.draw(st.sets(st.sampled_from(pairs), max_size=20)))
