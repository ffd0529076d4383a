"""A fault in captures or options is one sentence, and a damaged file does not end a job."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, PythonException

from tests.readings import CAPTURES, PUBSUB, REQREP
from tests.spark.local import local_rows, scanned_rows
from zmtpscope.capture import CaptureError
from zmtpscope.spark.paths import ANY_NAME, Lookup, find_paths, given_paths
from zmtpscope.spark.settings import ReadSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CUT = CAPTURES / "damage" / "cut-file.pcap"


def load(spark: SparkSession, path: object, declared: str | None = None, **options: str) -> DataFrame:
    reader = spark.read.format("zmtp").options(**options)
    return (reader if declared is None else reader.schema(declared)).load(str(path))


def what_is_seen(error: BaseException) -> str:
    """Return the sentence in an error of Spark, which prints only the kind of error besides."""
    match = re.fullmatch(r"[^\n]*[:\n ] ?zmtpscope[\w.]+: (.*?)(\n SQLSTATE: 38000)?\n?", str(error))
    assert match is not None, str(error)
    return match[1]


@pytest.mark.parametrize(
    ("path", "options", "sentence"),
    [
        ("none.pcap", {}, "none.pcap: no such file"),
        (CAPTURES / "README.md", {}, f"{CAPTURES}/README.md: is not a capture: neither pcap nor pcapng begins with"),
        (PUBSUB, {"recrod": "messages"}, "no option named 'recrod'; did you mean record?"),
        (PUBSUB, {"record": "mesages"}, "option record: no table named 'mesages'; did you mean messages?"),
        (PUBSUB, {"columns": "topik"}, "option columns: messages has no column 'topik'; did you mean topic?"),
    ],
)
def test_mistakes_are_a_sentence_of_load(
    spark: SparkSession, path: object, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(AnalysisException) as error:
        load(spark, path, **options)
    assert what_is_seen(error.value).startswith(sentence)


def test_a_table_of_the_catalog_is_refused_with_what_works(spark: SparkSession) -> None:
    """Spark passes neither the path nor the options of a table to a source in Python."""
    works = r"use CREATE TEMPORARY VIEW name USING zmtp OPTIONS \(path '...'\), or write Parquet with .*ingest$"
    for table in (f"using zmtp options (path '{PUBSUB}')", f"using zmtp location '{PUBSUB}'"):
        with pytest.raises(AnalysisException) as error:
            spark.sql(f"create table captured {table}")
        assert re.match(f"CREATE TABLE: .*{works}", what_is_seen(error.value))
    spark.sql(
        f"create table captured (topic string) using zmtp options (path '{PUBSUB}')"
    )  # Spark does not ask the source
    try:
        with pytest.raises(AnalysisException) as error:
            spark.table("captured").count()
        assert re.match(f"load: no path was given; .* a table of the catalog: .*{works}", what_is_seen(error.value))
    finally:
        spark.sql("drop table captured")
    assert PUBSUB.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("declared", "sentence"),
    [
        ("topik string", "schema: messages has no column 'topik'; did you mean topic?"),
        ("ts_ns string", "schema: the column 'ts_ns' of messages is bigint, not string"),
        ("ts_ns bigint not null", "schema: the column 'ts_ns' of messages may be null"),
    ],
)
def test_a_schema_that_does_not_fit_is_a_sentence(spark: SparkSession, declared: str, sentence: str) -> None:
    frame = load(spark, PUBSUB, declared)
    with pytest.raises(AnalysisException) as error:
        frame.count()
    assert what_is_seen(error.value) == sentence


def test_an_unknown_column_of_a_query_is_an_error_of_spark(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match=r"with name `topik` cannot be resolved. Did you mean .*`topic`"):
        load(spark, PUBSUB).select("topik")


@pytest.mark.slow
def test_a_damaged_file_ends_the_job_where_that_is_asked_for(spark: SparkSession) -> None:
    frame = load(spark, CUT, columns="topic", onError="fail")
    with pytest.raises(PythonException) as error:
        frame.count()
    assert what_is_seen(error.value) == f"{CUT}, octet 4436: the file ends inside a packet, after 62 octets of it"


def test_readable_rows_of_a_damaged_file_are_returned_with_the_others(tmp_path: pathlib.Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(REQREP.read_bytes()[: REQREP.stat().st_size * 2 // 3])
    rows = scanned_rows([cut, PUBSUB], ReadSettings.parse({"partitions": 2}))
    assert 0 < sum(row["file"] == str(cut) for row in rows) < len(local_rows([REQREP], ReadSettings()))
    assert len(rows) == len(local_rows([cut, PUBSUB], ReadSettings()))
    findings = scanned_rows([cut, PUBSUB], ReadSettings.parse({"record": "findings"}))
    assert [row["file"] for row in findings if row["id"] == "CAPTURE-02"] == [str(cut)]


def test_a_file_that_vanishes_or_grows_meanwhile_is_no_end_of_the_others(tmp_path: pathlib.Path) -> None:
    gone, growing = tmp_path / "gone.pcap", tmp_path / "growing.pcap"
    octets = PUBSUB.read_bytes()
    growing.write_bytes(octets + octets[24:60])  # a record under way
    files = [str(gone), str(growing)]
    assert len(scanned_rows(files, ReadSettings())) == len(local_rows([PUBSUB], ReadSettings()))
    findings = scanned_rows(files, ReadSettings.parse({"record": "findings"}))
    assert [row["file"] for row in findings if row["id"] == "CAPTURE-02"] == files
    with pytest.raises(CaptureError, match=r"gone.pcap: no such file$"):
        scanned_rows(files, ReadSettings.parse({"onError": "fail"}))
    growing.unlink()
    with pytest.raises(CaptureError, match="no such file on this worker; captures must lie where"):
        scanned_rows(files, ReadSettings())


def found(paths: list[object], lookup: Lookup = ANY_NAME) -> list[str]:
    return [*find_paths(map(str, paths), lookup).files]


def test_paths_are_files_globs_directories_and_uris(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    for name in ("2.pcap", "1.pcap"):
        shutil.copy(PUBSUB, folder / name)
    (folder / "notes.txt").write_text("no capture")
    (tmp_path / "empty").mkdir()
    both = [f"{folder}/1.pcap", f"{folder}/2.pcap"]
    assert found([folder]) == found([f"{folder}/*"]) == found([f"{tmp_path}/*"]) == both
    assert found([f"{folder}/2.pcap", folder]) == both[::-1]
    assert found([(folder / "1.pcap").as_uri(), f"file:{folder}/2.pcap"]) == both
    assert found([f"file://localhost{folder}/1.pcap".replace(" ", "%20"), f"FILE:{folder}/2.pcap"]) == both


def test_files_are_found_in_folders_of_folders_and_by_their_names(tmp_path: pathlib.Path) -> None:
    deep = tmp_path / "site" / "day=1"
    deep.mkdir(parents=True)
    paths = [shutil.copy(PUBSUB, tmp_path / "a[1].pcap"), shutil.copy(PUBSUB, deep / "b.pcap")]
    (deep / "notes.txt").write_text("no capture")
    assert found([tmp_path]) == [str(paths[0])]
    assert found([tmp_path], Lookup(recursive=True)) == sorted(map(str, paths))
    assert found([tmp_path], Lookup(recursive=True, names="b*")) == [str(paths[1])]
    assert found([f"{tmp_path}/*.pcap"], Lookup(names="a*")) == [str(paths[0])]
    with pytest.raises(CaptureError, match=r"none of the 1 file names matches x\*"):
        find_paths([tmp_path], Lookup(names="x*"))
    with pytest.raises(CaptureError, match=r"is a directory without captures; none of its 1 files is a capture$"):
        find_paths([tmp_path], Lookup(recursive=True, names="*.txt"))


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("{}/none.pcap", "{}/none.pcap: no such file"),
        ("{}", "{}: is a directory without captures; it is empty; subdirectories are not searched"),
        ("{}/*.pcap", "{}/*.pcap: nothing matches"),
        (f"{CAPTURES}/*.md", f"{CAPTURES}/*.md: none of the 1 matching files is a capture"),
        (
            "s3a://bucket/a.pcap",
            's3a://bucket/a.pcap: s3a: is not supported; zmtpscope.spark.read(spark, "s3a://bucket/a.pcap") reads URIs '
            "of s3, s3a, s3n, gs, gcs, abfs, abfss, hdfs, viewfs",
        ),
        (
            "dbfs:/a.pcap",
            "dbfs:/a.pcap: dbfs: is not a known file system; name the path where it is mounted, /dbfs/x for "
            "dbfs:/x, or a URI of file, s3, s3a, s3n, gs, gcs, abfs, abfss, hdfs, viewfs",
        ),
        (
            "file://elsewhere/a.pcap",
            "file://elsewhere/a.pcap: is not a file of this host; name a path, or a URI such as file:///captures",
        ),
        ("-", "standard input: workers cannot read it; write the capture to a file first"),
    ],
)
def test_paths_that_name_no_capture_are_a_sentence(tmp_path: pathlib.Path, path: str, sentence: str) -> None:
    with pytest.raises(CaptureError) as error:
        find_paths([path.replace("{}", str(tmp_path))])
    assert str(error.value) == sentence.replace("{}", str(tmp_path))


def test_a_load_without_a_path_is_a_sentence() -> None:
    with pytest.raises(CaptureError, match=r"^load: no path was given; name captures"):
        given_paths({"record": "messages"})


def test_keys_that_vanish_meanwhile_are_a_sentence(tmp_path: pathlib.Path) -> None:
    keys = tmp_path / "some.keys"
    keys.touch()
    settings = ReadSettings.parse({"keys": str(keys)})
    os.remove(keys)
    with pytest.raises(ValueError, match=r"^option keys: .*some.keys: "):
        scanned_rows([PUBSUB], settings)
