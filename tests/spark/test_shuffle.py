"""The shuffle: rows are those of one run, whatever the files, their order in time and the partitions."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.capture.containers import ETHERNET, Packet, pcapng
from tests.capture.test_fragments import fragments
from tests.invariants import packets_of_capture
from tests.readings import CAPTURES
from tests.spark.local import Row, in_any_order, local_rows
from zmtpscope.capture.packets import PacketBlock
from zmtpscope.records import RECORDS
from zmtpscope.spark import read, schema
from zmtpscope.spark.chunks import ORDER
from zmtpscope.spark.filters import COMPARING
from zmtpscope.spark.schemas import column_names
from zmtpscope.spark.settings import ReadSettings
from zmtpscope.spark.shuffle import AnalyserStage, Run, SplitStage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = sorted(CAPTURES.glob("*/*.pcap*"))
KEYS = os.pathsep.join(str(path) for path in sorted(CAPTURES.glob("*/*.keys")))


def ordered_chunks(run: Run) -> pa.RecordBatch:
    """The chunks of all files as the shuffle hands them out, with all partitions one after the other."""
    tasks = pa.record_batch([pa.array(range(len(run.tasks)))], names=["id"])
    chunks = pa.Table.from_batches(SplitStage(run).read([tasks]))
    return chunks.sort_by([(name, "ascending") for name in ORDER]).combine_chunks().to_batches()[0]


def shuffled_rows(files: Sequence[str | Path], settings: ReadSettings) -> list[Row]:
    """The rows of both stages, without Spark around them."""
    paths = list(map(str, files))
    half = len(paths) // 2
    run = Run(paths, [range(half), range(half, len(paths))], settings.partitions or 1, settings)
    chunks = ordered_chunks(run)
    assert set(chunks["partition"].to_pylist()) == set(range(run.partitions))
    columns = column_names(settings.record, settings.columns)
    return [row for batch in AnalyserStage(run).read([chunks], columns) for row in batch.to_pylist()]


@pytest.mark.parametrize("record", RECORDS)
def test_rows_of_all_captures_are_those_of_one_run(record: str) -> None:
    """All captures at once: they overlap in time, and some have the same sockets."""
    local = in_any_order(local_rows(FILES, ReadSettings.parse({"record": record, "keys": KEYS})))
    for partitions in (1,) if record in COMPARING else (1, 2, 8):
        settings = ReadSettings.parse({"record": record, "keys": KEYS, "partitions": partitions})
        assert in_any_order(shuffled_rows(FILES, settings)) == local


@pytest.mark.parametrize(("record", "partitions"), [("messages", 3), ("findings", 1)])
def test_rows_in_spark_are_those_of_one_run(spark: SparkSession, record: str, partitions: int) -> None:
    frame = read(spark, FILES, record, keys=KEYS, partitions=partitions)
    assert frame.schema == schema(record)
    assert frame.rdd.getNumPartitions() == partitions
    local = local_rows(FILES, ReadSettings.parse({"record": record, "keys": KEYS}))
    assert in_any_order(frame.toArrow().to_pylist()) == in_any_order(local)


SMALL = [path for path in FILES if path.stat().st_size <= 100_000]


@given(
    path=st.sampled_from(SMALL),
    record=st.sampled_from(list(RECORDS)),
    files=st.integers(1, 5),
    partitions=st.integers(1, 5),
    overlapping=st.booleans(),
    fragmented=st.booleans(),
    random=st.randoms(use_true_random=False),
)
def test_how_a_capture_is_spread_over_files_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    path: Path,
    record: str,
    files: int,
    partitions: int,
    overlapping: bool,
    fragmented: bool,
    random: Random,
) -> None:
    """Its files follow one another, or overlap; IP datagrams may be fragments, in any of them."""
    packets = [packet for block in packets_of_capture(path.read_bytes()) for packet in each_packet(block)]
    if fragmented:
        packets = [part for packet in packets for part in fragments_of(packet, random)]
    parts: list[list[Packet]] = [[] for _ in range(files)]
    cuts = sorted(random.randrange(len(packets) + 1) for _ in range(files - 1))
    for number, packet in enumerate(packets):
        parts[random.randrange(files) if overlapping else bisect_right(cuts, number)].append(packet)
    folder = tmp_path_factory.mktemp("rotated")
    paths = [str(folder / f"{number}.pcapng") for number in range(files)]
    for name, part in zip(paths, parts, strict=True):
        Path(name).write_bytes(pcapng(part))
    settings = ReadSettings.parse({"record": record, "partitions": 1 if record in COMPARING else partitions})
    assert in_any_order(shuffled_rows(paths, settings)) == in_any_order(local_rows(paths, settings))


def each_packet(block: PacketBlock) -> Iterator[Packet]:
    spans = zip(block.starts.tolist(), block.stops.tolist(), block.missing.tolist(), strict=True)
    for (start, stop, missing), time, link in zip(spans, block.times.tolist(), block.links.tolist(), strict=True):
        yield Packet(block.data[start:stop], time, link, stop - start + missing)


ETHERNET_HEADER, IPV4_HEADER = 14, 20


def fragments_of(packet: Packet, random: Random) -> list[Packet]:
    """Some packets of IPv4 as fragments, in any order."""
    header, ip = packet.octets[:ETHERNET_HEADER], packet.octets[ETHERNET_HEADER:]
    is_plain = (
        packet.link == ETHERNET
        and header[-2:] == b"\x08\x00"
        and ip[0] == 0x45
        and packet.original == len(packet.octets)
    )
    if not is_plain or random.random() < 0.5 or len(ip) < 60 or len(ip) != int.from_bytes(ip[2:4], "big"):
        return [packet]
    parts = fragments(ip, [random.randrange(1, 1 + len(ip) // 8) for _ in range(2)], random.randrange(1 << 16))
    if random.random() < 0.3:
        random.shuffle(parts)
    return [Packet(header + part, packet.time, packet.link) for part in parts]
