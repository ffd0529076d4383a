"""A worker whose Python lacks zmtpscope, or a dependency, fails with one sentence."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from pyspark import cloudpickle

from tests.readings import CAPTURES
from zmtpscope.spark.planning import plan_scan
from zmtpscope.spark.reading import ScanStage, find_captures
from zmtpscope.spark.sending import on_workers
from zmtpscope.spark.settings import ReadSettings
from zmtpscope.spark.source import ZmtpDataSource
from zmtpscope.spark.streaming import StreamReader

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader

PUBSUB = str(CAPTURES / "patterns" / "pubsub.pcap")

WORKER = """
import base64, os, sys
from pyspark import cloudpickle
sys.modules[{missing!r}] = None
try:
    sent = cloudpickle.loads(base64.b64decode({octets!r}))
    sent([]) if callable(sent) else sent
except ModuleNotFoundError as error:
    assert os.environ["SPARK_HIDE_TRACEBACK"] == "1", "Spark shows the sentence alone"
    print(error)
"""


def reader() -> DataSourceReader:
    source = ZmtpDataSource({"path": PUBSUB})
    return source.reader(source.schema())


def stage() -> object:
    settings = ReadSettings()
    return on_workers(ScanStage(plan_scan(find_captures(PUBSUB), settings, settings.column_names())).read)


@pytest.mark.parametrize(
    ("make", "missing"),
    [
        (lambda: ZmtpDataSource({"path": PUBSUB}), "zmtpscope"),
        (reader, "zmtpscope"),
        (stage, "zmtpscope"),
        (lambda: StreamReader({}, ReadSettings().schema()), "zmtpscope"),
        (reader, "numpy"),
    ],
)
def test_a_worker_without_zmtpscope_names_what_to_install(make: Callable[[], object], missing: str) -> None:
    octets = base64.b64encode(cloudpickle.dumps(make()))
    code = WORKER.format(missing=missing, octets=octets)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    expected = (
        f"the Python of this worker, {sys.executable}, has no {missing}: pip install 'zmtpscope[spark]' there, or "
        "set PYSPARK_PYTHON to a Python with it\n"
    )
    assert done.stdout == expected


def test_what_arrives_is_what_was_sent() -> None:
    sent = reader()
    arrived = cloudpickle.loads(cloudpickle.dumps(sent))
    assert type(arrived) is type(sent)
    assert vars(arrived) == vars(sent)
