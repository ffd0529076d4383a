"""A stream without a Spark: its reader, called as Spark calls it."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

from tests.readings import CAPTURES
from tests.spark.local import READ
from tests.spark.rotation import packets_of, rotate
from zmtpscope.capture import CaptureError
from zmtpscope.spark.partition_state import PartitionState
from zmtpscope.spark.schemas import column_names
from zmtpscope.spark.settings import SettingsError
from zmtpscope.spark.source import ZmtpDataSource
from zmtpscope.spark.streaming import StreamReader

Row = str
Read = Callable[[Any], list[Any]]


def all_rows(batches: Any) -> list[Any]:
    return [row for batch in batches for row in batch.to_pylist()]


class Query:
    """A streaming query: offsets are logged before each batch, and the batch is logged after it."""

    def __init__(self, folder: Path, states: Path, **options: Any) -> None:
        self.options = {"path": str(folder), "stateLocation": str(states)} | options
        self.offsets: list[str] = []
        self.done = 0
        self.rows: dict[int, list[Any]] = {}
        self.start()

    def start(self) -> None:
        made = ZmtpDataSource({name: str(value) for name, value in self.options.items()})
        source = cloudpickle.loads(cloudpickle.dumps(made))
        self.reader: StreamReader = source.streamReader(source.schema())

    def offset(self, batch: int) -> Any:
        return json.loads(self.offsets[batch - 1]) if batch else json.loads(json.dumps(self.reader.initialOffset()))

    def plan(self) -> bool:
        """Log a batch, unless one is to be done again or there is nothing new."""
        if len(self.offsets) == self.done:
            start = self.offset(self.done)
            end = self.reader.latestOffset(
                start, ReadMaxFiles(1) if self.options.get("maxFilesPerTrigger") else ReadAllAvailable()
            )
            if end == start:
                return False
            self.offsets.append(json.dumps(end))
        return True

    def batch(self, read: Callable[[Any], list[Any]] = all_rows) -> bool:
        """Run one batch, whose rows replace those of an earlier attempt; `read` takes the rows of partitions."""
        if not self.plan():
            return False
        partitions = self.reader.partitions(self.offset(self.done), self.offset(self.done + 1))
        taken = self.rows[self.done] = []
        for partition in partitions:
            reader = cloudpickle.loads(cloudpickle.dumps(self.reader))
            taken += read(reader.read(cloudpickle.loads(cloudpickle.dumps(partition))))
        self.done += 1
        return True

    def commit(self) -> None:
        self.reader.commit(self.offset(self.done))

    def run(self, read: Callable[[Any], list[Any]] = all_rows, *, again: bool = False) -> Query:
        """Return all batches; with `again`, the query restarts after each."""
        while self.batch(read):
            self.commit()
            if again:
                self.start()
        return self

    def found(self) -> Counter[str]:
        return counted(row for number in self.rows for row in self.rows[number])


def counted(found: Any) -> Counter[str]:
    return Counter(repr(row) for row in found)


def in_one_run(folder: Path, record: str) -> Counter[str]:
    source = ZmtpDataSource({"path": str(folder), "record": record, "partitions": "1"})
    reader = source.reader(source.schema())
    return counted(all_rows(reader.read(reader.partitions()[0])))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six files of a rotating capture."""
    folder = tmp_path_factory.mktemp("rotating")
    path = CAPTURES / "patterns" / "reconnect-after-restart.pcap"
    count = len(packets_of(path))
    rotate(path, folder, range(0, count, count // 6 + 1))
    assert len(os.listdir(folder)) == 6
    return folder


@pytest.mark.parametrize("record", READ)
def test_a_stream_that_starts_again_at_every_file_has_the_rows_of_one_run(
    folder: Path, tmp_path: Path, record: str
) -> None:
    query = Query(folder, tmp_path, record=record, maxFilesPerTrigger=1, finish="true", partitions=2)
    assert query.run(again=True).found() == in_one_run(folder, record)
    assert len(query.rows) == 6


@pytest.mark.parametrize(("record", "compares"), [("messages", False), ("findings", True)])
def test_a_stream_compares_connections_where_the_record_needs_it(
    folder: Path, tmp_path: Path, record: str, compares: bool
) -> None:
    """Its first state compares connections, and later ones keep this."""
    query = Query(folder, tmp_path, record=record, maxFilesPerTrigger=1)
    query.run(again=True)
    (state,) = tmp_path.rglob("*-0.state")
    options = query.reader.settings.read.dissect_options(column_names(query.reader.settings.read.record))
    assert (PartitionState.load(state.read_bytes(), options).analyser.comparison is not None) == compares


def test_a_batch_that_is_done_again_gives_the_same_rows(folder: Path, tmp_path: Path) -> None:
    """Done to its end, state and all, and not logged: Spark was killed in between."""
    query = Query(folder, tmp_path, maxFilesPerTrigger=1, finish="true", partitions=2)
    while query.batch():
        before = query.rows[query.done - 1]
        query.done -= 1
        query.start()
        query.batch()
        assert query.rows[query.done - 1] == before
        query.commit()
    assert query.found() == in_one_run(folder, "message")


def test_a_batch_may_be_read_partly_or_not_at_all(folder: Path, tmp_path: Path) -> None:
    """`limit` stops a task, and a foreachBatch may leave a batch alone."""
    query = Query(folder, tmp_path, maxFilesPerTrigger=1, finish="true", partitions=2)

    def half(batches: Any) -> list[Any]:
        return next(batches, pa.RecordBatch.from_pylist([])).to_pylist()[:1]

    query.batch(half)
    query.batch(lambda batches: [])
    query.batch(lambda batches: [])
    query.commit()
    query.rows.clear()
    query.run()
    later = Query(folder, tmp_path / "all", maxFilesPerTrigger=1, finish="true", partitions=2)
    later.run()
    assert query.found() == counted(row for number in range(3, 6) for row in later.rows[number])


def test_a_state_cannot_be_made_again_of_files_that_are_gone(tmp_path: Path) -> None:
    path = CAPTURES / "patterns" / "many-small.pcap"
    files = rotate(path, tmp_path, [100, 200])
    query = Query(tmp_path, tmp_path / "states", maxFilesPerTrigger=1)
    query.batch(lambda batches: [])
    files[0].unlink()
    with pytest.raises(
        CaptureError, match=r"many-small-00000.pcap: is gone, and the state behind it was not kept, since"
    ):
        query.batch()


def test_a_damaged_file_is_read_and_its_name_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = rotate(CAPTURES / "patterns" / "many-small.pcap", tmp_path, [300, 600])
    files[1].write_bytes(files[1].read_bytes()[:-10])
    query = Query(tmp_path, tmp_path / "states", maxFilesPerTrigger=1, growing=0, partitions=2).run()
    assert len(query.rows) == 3
    (record,) = caplog.records
    assert record.message.startswith(f"zmtpscope: batch 2: {files[1]}: the file ends inside a packet")
    query = Query(tmp_path, tmp_path / "findings", maxFilesPerTrigger=1, growing=0, record="findings").run()
    damaged = [
        (number, row["file"]) for number in query.rows for row in query.rows[number] if row["id"] == "CAPTURE-02"
    ]
    assert damaged == [(1, str(files[1]))]
    query = Query(tmp_path, tmp_path / "strict", maxFilesPerTrigger=1, growing=0, onError="fail")
    query.batch()
    with pytest.raises(CaptureError, match=r"many-small-00001.pcap, octet \d+: the file ends inside"):
        query.batch()


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_file_that_is_gone_when_it_is_read_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_replaced: bool
) -> None:
    files = rotate(CAPTURES / "patterns" / "many-small.pcap", tmp_path, [300, 600])
    query = Query(tmp_path, tmp_path / "states", maxFilesPerTrigger=1, growing=0)
    query.plan()
    if is_replaced:
        files[0].write_bytes(files[2].read_bytes())
    else:
        files[0].unlink()
    query.run()
    what = "another file replaced it" if is_replaced else "no such file"
    assert [record.message.partition(": ")[2].partition(" (")[0] for record in caplog.records] == [
        f"batch 1: {files[0]}: {what}"
    ]


def test_a_file_may_be_compressed_at_any_time(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "captures")
    query = Query(tmp_path / "captures", tmp_path / "states", maxFilesPerTrigger=2, finish="true")
    while query.plan():
        for file in query.reader._state_folder(query.offset(query.done + 1)).batch(query.done + 1).files:
            Path(f"{file.path}.gz").write_bytes(gzip.compress(Path(file.path).read_bytes()))
            os.unlink(file.path)
        query.batch()
        query.commit()
    (tmp_path / "captures").rename(tmp_path / "compressed")
    shutil.copytree(folder, tmp_path / "captures")
    assert query.found() == in_one_run(tmp_path / "captures", "message")


def test_states_do_not_grow_in_number(folder: Path, tmp_path: Path) -> None:
    query = Query(folder, tmp_path, maxFilesPerTrigger=1, growing=0, partitions=3)
    query.run()
    names = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
    assert names == ["6-0.state", "6-1.state", "6-2.state", "6.json"]


def test_a_folder_may_be_empty_at_first(tmp_path: Path) -> None:
    query = Query(tmp_path, tmp_path / "states")
    assert not query.batch()
    assert not (tmp_path / "states").exists()


def test_available_now_is_what_was_there_at_the_start(tmp_path: Path) -> None:
    files = rotate(CAPTURES / "patterns" / "many-small.pcap", tmp_path, [100, 200])
    octets = files[2].read_bytes()
    files[2].unlink()
    query = Query(tmp_path, tmp_path / "states", growing=0, maxFilesPerTrigger=1)
    query.reader.prepareForTriggerAvailableNow()
    files[2].write_bytes(octets)
    query.run()
    assert [json.loads(offset)["files"] for offset in query.offsets] == [1, 2]


def test_other_partitions_are_refused(folder: Path, tmp_path: Path) -> None:
    query = Query(folder, tmp_path, maxFilesPerTrigger=1, partitions=2)
    query.batch()
    query.options["partitions"] = 3
    query.start()
    with pytest.raises(
        SettingsError, match="option partitions: this query began with 2 and cannot go on with 3 -> give 2"
    ):
        query.batch()


def test_the_folder_of_states_has_to_be_the_same(folder: Path, tmp_path: Path) -> None:
    query = Query(folder, tmp_path / "here", maxFilesPerTrigger=1)
    query.batch()
    query.options["stateLocation"] = str(tmp_path / "there")
    query.start()
    with pytest.raises(
        SettingsError, match=r"option stateLocation: .*there.* does not have batch 1, where the checkpoint"
    ):
        query.batch()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"stateLocation": ""},
            "option stateLocation is missing: name a folder of your own for the state of the query",
        ),
        ({"growing": "-1"}, "option growing: '-1' is not a number of files; use 0 or more"),
        ({"maxFilesPerTrigger": "0"}, "option maxFilesPerTrigger: '0' is not a number of files; use 1 or more"),
        ({"finish": "yes"}, "option finish: 'yes' is neither true nor false"),
        ({"growin": "1"}, "no option named 'growin'"),
    ],
)
def test_a_wrong_option_is_one_sentence(tmp_path: Path, options: dict[str, str], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        Query(tmp_path, tmp_path, **options)
