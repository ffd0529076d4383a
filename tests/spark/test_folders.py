"""Folders such as `day=2026-11-27` are columns, other files are named, and captures can stay apart."""

from __future__ import annotations

import datetime
import logging
import pathlib
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import DataType, DateType, DoubleType, IntegerType, LongType, StringType

from tests.readings import PUBSUB, REQREP
from tests.spark.local import in_any_order, local_rows
from zmtpscope.capture import CaptureError
from zmtpscope.spark import ingest, read, skipped, tables
from zmtpscope.spark.folders import folder_columns
from zmtpscope.spark.paths import ANY_NAME, Lookup, find_paths
from zmtpscope.spark.planning import plan_scan
from zmtpscope.spark.settings import ReadSettings, SettingsError
from zmtpscope.spark.stream_settings import StreamSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MESSAGES = len(local_rows([PUBSUB], ReadSettings()))
FIRST, SECOND = datetime.date(2026, 11, 26), datetime.date(2026, 11, 27)


@pytest.fixture
def archive(tmp_path: pathlib.Path) -> pathlib.Path:
    """One capture as two days, the second one twice, as of two hosts with equal addresses."""
    root = tmp_path / "archive"
    for folder in ("day=2026-11-26/host=a", "day=2026-11-27/host=a", "day=2026-11-27/host=b%20c"):
        (root / folder).mkdir(parents=True)
        shutil.copy(PUBSUB, root / folder / "eth0.pcap")
    (root / "day=2026-11-26" / "notes.txt").write_text("no capture")
    return root


def scanned(path: object, lookup: Lookup = ANY_NAME, **options: Any) -> list[dict[str, Any]]:
    """Return the rows of a scan of a path, without Spark."""
    found = find_paths([str(path)], lookup)
    settings = ReadSettings.parse_lookup(options).of_captures(found)
    scan = plan_scan(found, settings, settings.column_names())
    return [row for number in range(scan.partitions) for batch in scan.rows(number) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("folders", "type_", "values"),
    [
        (["1", "007", "-3"], IntegerType(), [1, 7, -3]),
        (["1", "20261127103000"], LongType(), [1, 20261127103000]),
        (["1", "99999999999999999999"], DoubleType(), [1.0, 1e20]),
        (["1", ".5"], DoubleType(), [1.0, 0.5]),
        (["2026-11-27"], DateType(), [SECOND]),
        (["2026-11-27", "2026-02-30"], StringType(), ["2026-11-27", "2026-02-30"]),
        (["a%2Fb", "1_0", "٣"], StringType(), ["a/b", "1_0", "٣"]),
        (["1", "__HIVE_DEFAULT_PARTITION__"], IntegerType(), [1, None]),
    ],
)
def test_a_column_has_the_first_type_that_fits_all_folders(
    folders: list[str], type_: DataType, values: list[object]
) -> None:
    columns = folder_columns({f"/x/part={folder}/a.pcap": "/x/" for folder in folders})
    assert columns["part"].type == type_
    assert [*columns["part"].values.values()] == values


def test_folders_below_the_given_directory_are_columns(archive: pathlib.Path) -> None:
    (archive / "day=2026-11-27" / "day2.pcap").write_bytes(PUBSUB.read_bytes())
    rows = scanned(archive, columns="day,topic,host", capture="perFile")
    assert [*rows[0]] == ["day", "topic", "host"]
    assert {(row["day"], row["host"]) for row in rows} == {(FIRST, "a"), (SECOND, "a"), (SECOND, "b c"), (SECOND, None)}
    assert [*scanned(archive)[0]][-2:] == ["day", "host"]
    assert {row["host"] for row in scanned(archive)} == {"a"}, "as one capture these are copies of one connection"
    assert [*scanned(archive, record="connections")[0]][-2:] == ["day", "host"]


def test_folders_of_the_path_itself_are_columns_only_below_the_base(archive: pathlib.Path) -> None:
    """Other sources of Spark do the same."""
    for path in (archive / "day=2026-11-27", f"{archive}/day=2026-11-27/*/*.pcap"):
        below = {"host"} if "*" not in str(path) else set()
        assert {*find_columns(path)} == below
        assert {*find_columns(path, Lookup(base=str(archive)))} == {"day", "host"}
    assert find_columns(archive, Lookup(recursive=True)) == []
    with pytest.raises(CaptureError, match=r"eth0.pcap: is not below /elsewhere/, which the option basePath names$"):
        find_columns(archive, Lookup(base="/elsewhere"))


def find_columns(path: object, lookup: Lookup = ANY_NAME) -> list[str]:
    return [*ReadSettings().of_captures(find_paths([str(path)], lookup)).folders]


def test_a_folder_with_the_name_of_a_column_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "Topic=a").mkdir()
    shutil.copy(PUBSUB, tmp_path / "Topic=a")
    with pytest.raises(SettingsError, match=r"^folder Topic=\.\.\.: messages have a column of this name; rename"):
        find_columns(tmp_path)
    with pytest.raises(SettingsError, match="messages has no column 'dya'"):
        scanned(tmp_path, Lookup(recursive=True), columns="dya")


def test_columns_of_folders_are_columns_of_spark(spark: SparkSession, archive: pathlib.Path) -> None:
    shutil.copy(REQREP, archive / "day=2026-11-27" / "host=b%20c" / "eth0.pcap")
    frame = spark.read.format("zmtp").load(str(archive))
    assert frame.schema["day"].dataType == DateType()
    assert frame.schema["day"].metadata == {"comment": "From the folder day=... of the capture"}
    counts = frame.groupBy("day").count().orderBy("day").collect()
    assert [row["day"] for row in counts] == [FIRST, SECOND]
    declared = spark.read.format("zmtp").schema("host string, topic string").load(str(archive))
    assert declared.where("host = 'b c'").count() > 0
    shuffled = read(spark, archive, columns="day,topic", partitions=9)
    assert shuffled.select("day").distinct().count() == 2


def test_files_that_are_no_captures_are_named(archive: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("_SUCCESS", ".part"):
        (archive / name).write_text("")
    (archive / "empty\n.pcap").touch()
    assert skipped(archive) == {
        f"{archive}/day=2026-11-26/notes.txt": "is not a capture: neither pcap nor pcapng begins with 6e 6f 20 63",
        f"{archive}/empty\n.pcap": "is empty",
    }
    assert skipped([archive], pathGlobFilter="eth*") == {}
    with caplog.at_level(logging.WARNING):
        find_paths([archive]).warn()
    (line,) = caplog.messages
    assert line.startswith("zmtpscope: skipped 2 of 5 files that are not captures: notes.txt, empty")
    assert "\n" not in line


@pytest.mark.parametrize("record", ["messages", "connections", "findings", "requests", "diagnoses"])
@pytest.mark.parametrize("partitions", [1, 2])
def test_captures_stay_apart_on_request(archive: pathlib.Path, record: str, partitions: int) -> None:
    """Rows equal the rows of each file alone; as one capture the connections of these hosts would be one."""
    shutil.copy(REQREP, archive)
    rows = scanned(archive, record=record, capture="perFile", partitions=partitions)
    alone = [row for file in find_paths([archive]).files for row in scanned(file, record=record)]
    assert in_any_order(dict(row, day=None, host=None) for row in rows) == in_any_order(
        dict(row, day=None, host=None) for row in alone
    )
    if record == "connections":
        assert len(rows) > len(scanned(archive, record=record))


def test_captures_that_stay_apart_are_read_and_written_by_spark(spark: SparkSession, archive: pathlib.Path) -> None:
    assert read(spark, archive, capture="perFile").count() == 3 * MESSAGES
    frame = spark.read.format("zmtp").option("capture", "perFile").load(str(archive))
    assert frame.groupBy("file").count().where(f"count = {MESSAGES}").count() == 3
    out = archive.parent / "out"
    written = ingest(spark, archive, out, capture="perFile")
    assert written["messages"].rows == 3 * MESSAGES
    findings = [row for file in find_paths([archive]).files for row in scanned(file, record="findings")]
    assert tables(spark, out)["findings"].count() == written["findings"].rows == len(findings)


def test_the_files_of_a_stream_are_one_capture(tmp_path: pathlib.Path) -> None:
    with pytest.raises(SettingsError, match=r"^option capture: the files of a stream are one capture"):
        StreamSettings.parse({"path": str(tmp_path), "stateLocation": "x", "capture": "perFile"})
    with pytest.raises(SettingsError, match=r"^option capture: 'each' is neither all nor perFile"):
        ReadSettings.parse({"capture": "each"})
