"""A partition that is saved and loaded after every batch has the records of one run over all files."""

from __future__ import annotations

import zlib
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

from tests.readings import CAPTURE_FILES
from tests.rows_by_hand import values_of
from tests.spark.rotation import packets_of, rotate, write
from tests.test_captures_in_blocks import options_for
from zmtpscope.capture import ALWAYS, open_captures
from zmtpscope.dissect import Analyser, Batch, Options
from zmtpscope.dissect.state import StateError
from zmtpscope.export.values import as_base64
from zmtpscope.spark.capture_folder import CaptureFolder, MicroBatch, next_micro_batch
from zmtpscope.spark.flows import FlowFilter
from zmtpscope.spark.partition_state import PartitionState

Lines = Counter[bytes]


def lines(batches: list[Batch], options: Options) -> Lines:
    """The records as lines, without the numbers of connections, and how often each is there."""
    found: list[dict[str, Any]] = []
    for batch in batches:
        found += values_of(batch, options)
    for record in found:
        for name in ("conn", "conn_0", "conn_1"):
            record.pop(name, None)
    return Counter(orjson.dumps(record, default=as_base64) for record in found)


def in_one_run(folder: Path, options: Options) -> Lines:
    """Return the records of `zmtpscope export` for a folder."""
    return lines(list(Analyser(options).run(open_captures([str(folder)]))), options)


def in_batches(folder: Path, make_options: Any, *, partitions: int = 1, **how: Any) -> Lines:
    """Return the same batch by batch; after each one every partition is saved and loaded."""
    options = make_options()
    states = [PartitionState(Analyser(options)) for _ in range(partitions)]
    captures, found = CaptureFolder(str(folder)), Lines()
    batch: MicroBatch | None = MicroBatch()
    how = {"partitions": partitions, "growing": 1, "most_files": 1, "finish": True} | how
    while (batch := next_micro_batch(batch, captures.captures(), **how)) is not None:
        for number, state in enumerate(states):
            select = FlowFilter(number, partitions, ()).select
            found += lines(list(state.take(batch, ALWAYS, select)), options)
            options = make_options()
            states[number] = PartitionState.load(state.dump(), options)
    return found


NAMES = [f"{path.parent.name}/{path.stem}" for path in CAPTURE_FILES]
COMPARED = (b'"record":"finding"', b'"record":"zre_pair"')


@pytest.mark.parametrize("path", CAPTURE_FILES, ids=NAMES)
def test_batches_have_the_records_of_one_run(path: Path, tmp_path: Path) -> None:
    random, packets = Random(path.stem), len(packets_of(path))
    rotate(path, tmp_path, [random.randint(1, packets) for _ in range(4 if packets else 0)])
    if packets:
        found = in_batches(tmp_path, lambda: options_for(path, details=False))
        assert found == in_one_run(tmp_path, options_for(path, details=False))


SOME = [path for path in CAPTURE_FILES if path.parent.name in ("network", "patterns", "damage")]


@pytest.mark.parametrize("path", SOME, ids=[f"{path.parent.name}/{path.stem}" for path in SOME])
def test_the_records_of_several_partitions_match_one_run(path: Path, tmp_path: Path) -> None:
    """Packets of two interfaces, each with its own files, which overlap."""
    random = Random(path.stem)
    sides = [[], []]
    for packet in packets_of(path):
        random.choice(sides).append(packet)
    for name, side in zip("ab", sides, strict=True):
        write(side, tmp_path / f"{name}.pcap")
        cuts = [random.randint(1, len(side)) for _ in range(3 if side else 0)]
        rotate(tmp_path / f"{name}.pcap", tmp_path, cuts)
        (tmp_path / f"{name}.pcap").unlink()
    if all(sides):
        found = in_batches(tmp_path, lambda: options_for(path, details=False), partitions=3)
        whole = in_one_run(tmp_path, options_for(path, details=False))
        assert without_compared(found) == without_compared(whole)


def without_compared(found: Lines) -> Lines:
    return Lines({line: count for line, count in found.items() if not any(each in line for each in COMPARED)})


@pytest.mark.parametrize("place", [40, -1])
def test_a_state_that_was_changed_is_refused(place: int) -> None:
    """The change is in the analyser's part, or in the rest."""
    octets = bytearray(zlib.decompress(PartitionState(Analyser()).dump()))
    octets[place] ^= 1
    with pytest.raises(StateError, match=r"is damaged|this is no state"):
        PartitionState.load(zlib.compress(octets), Options())
