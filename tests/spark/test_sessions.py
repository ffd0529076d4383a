"""Sessions of ours, and sessions of other programs."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyspark
import pytest

from tests.readings import CAPTURES, PUBSUB
from zmtpscope.spark import session
from zmtpscope.spark.sessions import installed_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PLAIN = """
from pyspark.sql import SparkSession
from zmtpscope.spark import read, session

plain = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
assert session() is plain and session() is plain
print(plain.read.format("zmtp").load({path!r}).count(), read(plain, {path!r}).count())
assert plain.conf.get("spark.sql.python.filterPushdown.enabled") == "false"
"""


def test_a_session_that_is_there_is_used(spark: SparkSession) -> None:
    assert session() is spark


def test_filters_of_queries_are_left_to_spark(spark: SparkSession) -> None:
    """Spark would keep the pushed filters of one query for the next one."""
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "false"


def test_workers_import_the_pyspark_that_is_installed(spark: SparkSession) -> None:
    """Workers do not import the copy in a zip file, which each process compiles anew."""

    def imported(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyspark

        yield from (pa.record_batch({"path": [pyspark.__file__]}) for _ in batches)

    assert spark.range(1).mapInArrow(imported, "path string").collect() == [(pyspark.__file__,)]


@pytest.mark.slow
def test_workers_of_a_plain_session_run_the_python_of_the_script(spark: SparkSession) -> None:
    """The first python3 on PATH is another one, which has neither Spark nor zmtpscope."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")}
    environment |= {"PATH": os.defpath, "PYTHONPATH": str(CAPTURES.parent), "SPARK_LOCAL_IP": "127.0.0.1"}
    script = PLAIN.format(path=str(PUBSUB))
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["19", "19"]


def test_an_installation_without_the_copy_of_pyspark_is_made_once(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    homes = []
    for _ in range(2):
        with installed_pyspark():
            homes.append(pathlib.Path(os.environ["SPARK_HOME"]))
        assert "SPARK_HOME" not in os.environ, "it is for the session that starts"
    first, second = homes
    assert first == second
    assert (first / "bin" / "spark-submit").exists()
    assert not (first / "python").exists()


@pytest.mark.parametrize("writable", [True, False])
def test_spark_starts_unchanged_if_no_installation_is_possible(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, writable: bool
) -> None:
    """Others can change the cache, or the user has named another installation."""
    home = None if writable else "/opt/spark"
    tmp_path.chmod(0o777 if writable else 0o700)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("SPARK_HOME", home)
    with installed_pyspark():
        assert os.environ.get("SPARK_HOME") == home
    assert os.environ.get("SPARK_HOME") == home
