"""The shuffle: rows equal the rows of one run for any files, order of times and partitions."""

from __future__ import annotations

import gzip
import pickle
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, cycle
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow.fs import FileSystem, LocalFileSystem, SubTreeFileSystem

from tests.capture.containers import ETHERNET, Packet, pcapng
from tests.capture.test_fragments import fragments
from tests.invariants import packets_of_capture
from tests.readings import CAPTURES, PUBSUB
from tests.spark.local import (
    FILES,
    FILTERED,
    KEYS,
    READ,
    Row,
    filtered_rows,
    in_any_order,
    local_rows,
    rows_of_all_captures,
    shuffled_frame,
)
from zmtpscope.capture import CaptureError
from zmtpscope.capture.decoder import Fragment
from zmtpscope.capture.packets import PacketBlock
from zmtpscope.spark import comparing, read, schema, shuffle, splitting, storage
from zmtpscope.spark.chunks import ORDER, chunks_of
from zmtpscope.spark.paths import Lookup
from zmtpscope.spark.schemas import column_names
from zmtpscope.spark.settings import ReadSettings, SettingsError
from zmtpscope.spark.shuffle import AnalyserStage, ComparisonStage, Run, SplitStage
from zmtpscope.spark.splitting import FragmentPartitions
from zmtpscope.spark.storage import find_stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def shuffled(batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Return the output of a shuffle, all partitions one after the other."""
    chunks = pa.Table.from_batches(batches).sort_by([(name, "ascending") for name in ORDER])
    batches = chunks.combine_chunks().to_batches(max_chunksize=3)
    return batches


def shuffled_rows(files: Sequence[str | Path], settings: ReadSettings) -> list[Row]:
    """Return the rows of all stages, without Spark."""
    paths = list(map(str, files))
    half = len(paths) // 2
    run = Run(paths, [range(half), range(half, len(paths))], settings.partitions or 1, settings)
    tasks = pa.record_batch([pa.array(range(len(run.tasks)))], names=["id"])
    chunks = shuffled(SplitStage(run).read([tasks]))
    assert {number for batch in chunks for number in batch["partition"].to_pylist()} == set(range(run.partitions))
    columns = column_names(settings.record, settings.columns)
    if settings.compares:
        reported = shuffled(AnalyserStage(run).report(chunks, columns))
        batches = ComparisonStage(run).read(reported, columns)
    else:
        batches = AnalyserStage(run).read(chunks, columns)
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize(("record", "partitions"), list(zip(READ, cycle((8, 1, 2)), strict=False)))
def test_rows_of_all_captures_match_one_run(record: str, partitions: int) -> None:
    """All captures at once: they overlap in time, some have the same sockets, and there are fragments."""
    local = rows_of_all_captures(record)
    settings = ReadSettings.parse({"record": record, "keys": KEYS, "partitions": partitions})
    assert in_any_order(shuffled_rows(FILES, settings)) == local


@pytest.mark.parametrize("record", ["connections", "findings"])
def test_the_capture_ends_for_all_partitions_when_its_tool_stopped(record: str) -> None:
    """After the last request 12 s pass without packets, as the interface statistics show."""
    path = CAPTURES / "problems/reported/rep-hangs-quiet.pcapng"
    settings = ReadSettings.parse({"record": record, "partitions": 3})
    rows = shuffled_rows([path, PUBSUB], settings)
    assert in_any_order(rows) == in_any_order(local_rows([str(path), str(PUBSUB)], settings))
    alone = ReadSettings.parse({"record": record, "partitions": 2})
    assert in_any_order(shuffled_rows([path], alone)) == in_any_order(local_rows([str(path)], alone))


@pytest.mark.parametrize(("record", "filter"), FILTERED)
def test_workers_leave_out_what_a_filter_does_not_hold_of(record: str, filter: str) -> None:
    settings = ReadSettings.parse({"record": record, "filter": filter, "partitions": 3})
    assert in_any_order(shuffled_rows(FILES, settings)) == in_any_order(filtered_rows(FILES, record, filter))


@pytest.mark.parametrize(("record", "partitions"), [("messages", 3), ("findings", 3)])
def test_rows_in_spark_match_one_run(spark: SparkSession, record: str, partitions: int) -> None:
    frame = shuffled_frame(spark, FILES, record, keys=KEYS, partitions=partitions)
    assert frame.schema == schema(record)
    assert frame.rdd.getNumPartitions() == partitions + (record == "findings")
    assert in_any_order(frame.toArrow().to_pylist()) == rows_of_all_captures(record.removesuffix("s"))


def test_a_worker_holds_few_chunks_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of a file are handed on when they have many octets, or when there are many small ones."""
    monkeypatch.setattr(splitting, "SMALLEST_CHUNK", 500)
    monkeypatch.setattr(splitting, "LARGEST_CHUNK", 500)
    monkeypatch.setattr(shuffle, "OCTETS_IN_A_BATCH", 1200)
    monkeypatch.setattr(shuffle, "CHUNKS_IN_A_BATCH", 7)
    run = Run([str(PUBSUB)], [range(1)], 20, ReadSettings())
    batches = list(SplitStage(run).read([pa.record_batch([pa.array([0])], names=["id"])]))
    octets = [[len(chunk.octets) + len(chunk.table) for chunk in chunks_of([batch])] for batch in batches]
    assert all(sum(some[:-1]) < 1200 and len(some) <= 7 for some in octets)
    assert max(map(len, octets)) == 7
    assert max(map(sum, octets)) >= 1200


@pytest.mark.parametrize(("record", "compares"), [("messages", False), ("connections", False), ("findings", True)])
def test_facts_are_kept_for_records_that_compare_connections(
    record: str, compares: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise facts are not consumed, and would fill a worker's memory."""
    kept = []

    def dumps(*values: object) -> bytes:
        kept.append(values)
        return pickle.dumps(*values)

    monkeypatch.setattr(comparing, "pickle", SimpleNamespace(dumps=dumps, loads=pickle.loads, HIGHEST_PROTOCOL=5))
    shuffled_rows([PUBSUB], ReadSettings.parse({"record": record}))
    assert bool(kept) == compares


SMALL = [path for path in FILES if path.stat().st_size <= 100_000]


@given(
    path=st.sampled_from(SMALL),
    record=st.sampled_from(READ),
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
    """Its files follow one another, or overlap; IP datagrams may be fragments, in any of them. Only within one file
    may an identification be reused before its datagram is complete (limitations.md, Spark)."""
    packets = [packet for block in packets_of_capture(path.read_bytes()) for packet in each_packet(block)]
    if fragmented:
        identifications = (random.randrange(1 << 16) if files == 1 else number for number in count())
        packets = [
            part
            for packet, identification in zip(packets, identifications, strict=False)
            for part in fragments_of(packet, identification, random)
        ]
    parts: list[list[Packet]] = [[] for _ in range(files)]
    cuts = sorted(random.randrange(len(packets) + 1) for _ in range(files - 1))
    for number, packet in enumerate(packets):
        parts[random.randrange(files) if overlapping else bisect_right(cuts, number)].append(packet)
    folder = tmp_path_factory.mktemp("rotated")
    paths = [str(folder / f"{number}.pcapng") for number in range(files)]
    for name, part in zip(paths, parts, strict=True):
        Path(name).write_bytes(pcapng(part))
    settings = ReadSettings.parse({"record": record, "partitions": partitions})
    assert in_any_order(shuffled_rows(paths, settings)) == in_any_order(local_rows(paths, settings))


def each_packet(block: PacketBlock) -> Iterator[Packet]:
    spans = zip(block.starts.tolist(), block.stops.tolist(), block.missing.tolist(), strict=True)
    for (start, stop, missing), time, link in zip(spans, block.times.tolist(), block.links.tolist(), strict=True):
        yield Packet(block.data[start:stop], time, link, stop - start + missing)


ETHERNET_HEADER, IPV4_HEADER = 14, 20


def fragments_of(packet: Packet, identification: int, random: Random) -> list[Packet]:
    """Split some IPv4 packets into fragments, in any order."""
    header, ip = packet.octets[:ETHERNET_HEADER], packet.octets[ETHERNET_HEADER:]
    is_plain = (
        packet.link == ETHERNET
        and header[-2:] == b"\x08\x00"
        and ip[0] == 0x45
        and packet.original == len(packet.octets)
    )
    if not is_plain or random.random() < 0.5 or len(ip) < 60 or len(ip) != int.from_bytes(ip[2:4], "big"):
        return [packet]
    parts = fragments(ip, [random.randrange(1, 1 + len(ip) // 8) for _ in range(2)], identification)
    if random.random() < 0.3:
        random.shuffle(parts)
    return [Packet(header + part, packet.time, packet.link) for part in parts]


def failures(frame: DataFrame) -> str:
    with pytest.raises(Exception, match=":") as raised:
        frame.toArrow()
    return str(raised.value)


@pytest.mark.slow
def test_bad_input_is_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    """Missing files are reported before a job starts; files that disappear later, and damage that ends the job, from
    the job."""
    for path, sentence in (
        (tmp_path / "no.pcap", "no such file"),
        (Path(__file__), "is not a capture"),
        (tmp_path, "captures"),
    ):
        with pytest.raises(CaptureError, match=sentence):
            read(spark, path)
    with pytest.raises(SettingsError, match="no option named 'bodys'; did you mean body"):
        read(spark, FILES[0], bodys="none")
    with pytest.raises(SettingsError, match="no column"):
        read(spark, FILES[0], columns="topics")
    octets = FILES[0].read_bytes()
    gone, cut = tmp_path / "gone.pcap", tmp_path / "cut.pcap"
    gone.write_bytes(octets)
    cut.write_bytes(octets[:-5])
    alone, both = read(spark, gone), read(spark, [gone, cut])
    failing = read(spark, cut, onError="fail")
    gone.unlink()
    assert "gone.pcap: no such file on this worker" in failures(alone)
    assert "Traceback" not in failures(alone)
    assert "cut.pcap" in failures(failing)
    assert in_any_order(both.toArrow().to_pylist()) == in_any_order(local_rows([cut], ReadSettings()))


def test_files_that_vanished_or_are_damaged_are_findings(tmp_path: Path) -> None:
    gone, cut = str(tmp_path / "gone.pcap"), tmp_path / "cut.pcap"
    cut.write_bytes(PUBSUB.read_bytes()[:-5])
    rows = shuffled_rows([gone, cut, PUBSUB], ReadSettings.parse({"record": "findings", "partitions": 2}))
    assert sorted(row["file"] for row in rows if row["id"] == "CAPTURE-02") == [str(cut), gone]


def test_captures_are_read_from_a_store_of_objects(store: str, tmp_path: Path) -> None:
    """`read` finds them by name, pattern or folder, and the rows equal the rows of files; also for compressed ones."""
    found = {uri: find_stored(f"{store}/{uri}") for uri in ("day", "day/*.pcap", "day/pubsub.pcap", "*/pub*.pcap.gz")}
    assert [len(captures.files) for captures in found.values()] == [3, 2, 1, 1]
    assert [*found["day"].skipped] == [f"{store}/day/note.txt"]
    assert len(find_stored(store, Lookup(recursive=True, names="*.pcap")).files) == 3
    below = find_stored(store)
    assert [*below.files] == [f"{store}/host=a/pubsub.pcap"]
    assert [*ReadSettings().of_captures(below).folders] == ["host"]
    for error, uri in (
        ("is not a capture", "day/note.txt"),
        ("no such file", "day/x.pcap"),
        ("cannot be listed", "night/*"),
    ):
        with pytest.raises(CaptureError, match=error):
            find_stored(f"{store}/{uri}")
    for uri in ("day/pubsub.pcap", "day/pubsub.pcap.gz"):
        rows = shuffled_rows([f"{store}/{uri}"], ReadSettings())
        assert {row["file"] for row in rows} == {f"{store}/{uri}"}
        local = [row | {"file": f"{store}/{uri}"} for row in local_rows([PUBSUB], ReadSettings())]
        assert in_any_order(rows) == in_any_order(local)
    assert shuffled_rows([f"{store}/day/gone.pcap", f"{store}/day/reqrep.pcap"], ReadSettings())


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a store that pyarrow makes of a folder: `subtree` of the local file system, which behaves as all stores
    do."""
    folder = tmp_path / "bucket" / "day"
    folder.mkdir(parents=True)
    (folder / "pubsub.pcap").write_bytes(PUBSUB.read_bytes())
    (folder / "pubsub.pcap.gz").write_bytes(gzip.compress(PUBSUB.read_bytes()))
    (folder / "reqrep.pcap").write_bytes(PUBSUB.with_name("reqrep.pcap").read_bytes())
    (folder / "note.txt").write_text("no capture")
    (folder.parent / "host=a").mkdir()
    (folder.parent / "host=a" / "pubsub.pcap").write_bytes(PUBSUB.read_bytes())
    local = SubTreeFileSystem(str(tmp_path), LocalFileSystem())

    class Stores:
        @staticmethod
        def from_uri(uri: str) -> tuple[FileSystem, str]:
            return local, uri.removeprefix("s3://")

    monkeypatch.setattr(storage, "FileSystem", Stores)
    return "s3://bucket"


def test_a_datagram_of_which_all_partitions_have_a_part_goes_to_all_of_them() -> None:
    """Otherwise a part that waits in vain is joined with the next datagram with that identification, of another
    connection."""
    key = bytes([127, 0, 0, 1]) * 2 + bytes([6]) + bytes(2)
    one, another = (port.to_bytes(2, "big") + bytes([21, 179]) for port in (40_001, 40_000))
    of_one, of_another = (Fragment(0, key, begins, False, 0, 8, 0) for begins in (one, another))
    middle, end = Fragment(0, key, None, False, 8, 8, 0), Fragment(0, key, None, True, 16, 4, 0)
    partitions = FragmentPartitions(2)
    in_order, end_first = [of_one, end, middle], [end, of_one, middle]
    numbers = [partitions.partition(each) for each in (*in_order, *end_first, of_another, middle, end)]
    assert numbers == [0, 0, 0, None, None, None, 1, 1, 1]
