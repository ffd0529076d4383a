"""The cost of reading captures with Spark: `python -m benchmarks.spark [--quick] [--rounds N] [CAPTURE ...]`.

One session of two threads runs in this process. CPU of the Python workers and of the JVM is read from /proc. Beside
each job, one run on this machine over the same capture makes the same rows as Arrow, or writes them as Parquet. The
peak of a worker is the largest so far; for the flow of `large` it is also measured in separate sessions.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from benchmarks.captures import HERE, Capture, capture, note
from benchmarks.report import head, table
from benchmarks.run import machine
from benchmarks.setting import QUICK
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser
from zmtpscope.spark import ingest, session
from zmtpscope.spark.reading import find_captures
from zmtpscope.spark.rows import RowBatches
from zmtpscope.spark.schemas import column_names
from zmtpscope.spark.settings import ReadSettings
from zmtpscope.spark.shuffle import Run, shuffled

PROFILES = {"small": 1_000_000, "pubsub": 500_000, "short": 250_000, "large": 8000}
"""Number of messages; a quick run has a fifth."""
THREE = "conn_id,ts_ns,topic"
ALONE = ("shared scan, 2 partitions", "shuffle, 8 partitions", "ingest, 8 partitions")
"""Captures for which the memory of a worker is measured separately."""
TICK = os.sysconf("SC_CLK_TCK")
LOCAL, EXPORT = "one run, rows as Arrow", "zmtpscope export --format parquet"


class Cost(NamedTuple):
    """CPU seconds of Python and of the JVM, wall seconds, peak memory of a worker and shuffled octets; None if not
    measured."""

    python: float
    java: float = 0.0
    wall: float = 0.0
    peak: int = 0
    shuffled: int = 0


def main() -> None:
    """Measure, print the page and write it to results/."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("captures", nargs="*", default=list(PROFILES), choices=PROFILES, metavar="CAPTURE")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    found: dict[str, Any] = {}
    results = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "quick": given.quick, "machine": machine(None), "spark": found}
    spark = session({"spark.master": "local[2]", "spark.driver.memory": "2g", "spark.log.level": "ERROR"})
    try:
        for name in given.captures:
            share = 5 if given.quick else 1
            made = capture(f"{QUICK * given.quick}{name}", name, messages=PROFILES[name] // share)
            note(f"measuring {name}")
            ways = ways_of(spark, made)
            costs: dict[str, list[Cost]] = {way: [] for way in ways}
            for number in range(given.rounds + 1):
                for way, run in ways.items():
                    cost = run()
                    if number:  # the first warms caches and the JVM
                        costs[way].append(cost)
            payload = made.truth["tcp_payload_bytes"]
            found[name] = {"rows": made.truth["messages"], "payload": payload, "costs": costs}
            if name == "large":
                found[name]["alone"] = {way: peak_alone(way, made) for way in ALONE}
    finally:
        spark.stop()
    text = f"{head(results)}\n\n{page(found)}\n".replace("a tenth of the sizes", "a fifth of the messages")
    target = HERE / "results" / f"{results['date']}-spark"
    target.with_suffix(".md").write_text(text)
    target.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
    print(text)


def ways_of(spark: SparkSession, made: Capture) -> dict[str, Callable[[], Cost]]:
    """Compare all jobs on a capture, by name."""
    path = str(made.path)

    def scanned(**options: str) -> Cost:
        return cost_of(spark, lambda: drain(spark.read.format("zmtp").options(**options).load(path)))

    return {
        LOCAL: lambda: local(path),
        "shared scan, 2 partitions": lambda: scanned(partitions="2"),
        "shared scan, 8 partitions": lambda: scanned(partitions="8"),
        "shuffle, 8 partitions": lambda: cost_of(spark, lambda: drain(shuffled_rows(spark, path))),
        "one run, three columns": lambda: local(path, THREE),
        "shared scan, three columns": lambda: scanned(partitions="1", columns=THREE),
        EXPORT: lambda: exported(path),
        "ingest, 8 partitions": lambda: ingested(spark, path),
    }


def peak_alone(way: str, made: Capture) -> int:
    """Return the peak memory of a worker in octets, in a session of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_peak_alone, way, made).result()


def _peak_alone(way: str, made: Capture) -> int:
    spark = session({"spark.master": "local[2]", "spark.driver.memory": "2g", "spark.log.level": "ERROR"})
    try:
        return ways_of(spark, made)[way]().peak
    finally:
        spark.stop()


def page(captures: dict[str, Any]) -> str:
    """Return a table for each capture."""
    parts = []
    for name, found in captures.items():
        costs: dict[str, list[Cost]] = found["costs"]
        rows, payload = found["rows"], found["payload"]
        lines = []
        beside = LOCAL
        for way, some in costs.items():
            beside = way if way == EXPORT or way.startswith("one run") else beside
            if way.startswith(("shared scan, 2", "shared scan, 8", "shuffle")):
                beside = LOCAL
            python = median(cost.python for cost in some)
            whole = median(cost.python + cost.java for cost in some)
            base = median(cost.python for cost in costs[beside])
            java = median(cost.java for cost in some)
            shuffled = median(cost.shuffled for cost in some)
            lines.append(
                [
                    way,
                    f"{python:.2f}",
                    f"{python / base:.2f}",
                    f"{java:.2f}",
                    f"{1e6 * java / rows:.1f}",
                    f"{whole / base:.2f}",
                    f"{median(cost.wall for cost in some):.1f}",
                    f"{max(cost.peak for cost in some) >> 20}",
                    f"{shuffled / payload:.2f}" if shuffled else "",
                ]
            )
        columns = ["", "Python: CPU s", "times one run", "JVM: CPU s", "us a message", "both, times one run", "wall s"]
        columns += ["worker: peak MiB", "shuffled, times the payload"]
        parts.append(f"## {name}: {rows:,} messages, {payload / 1e6:.0f} MB of payload\n\n{table(columns, lines)}")
        if "alone" in found:
            peaks = [[way, f"{peak / 1e6:.0f}"] for way, peak in found["alone"].items()]
            parts.append(table(["in a session of its own", "worker: peak MB"], peaks))
    return "\n\n".join(parts)


def drain(frame: DataFrame) -> None:
    """Make all rows, and discard them in the JVM."""
    frame.write.format("noop").mode("overwrite").save()


def shuffled_rows(spark: SparkSession, path: str) -> DataFrame:
    """Return the result of `read` on a cluster."""
    run = Run.of(spark, find_captures(path).files, ReadSettings.parse({"partitions": 8}))
    return shuffled(spark, run, column_names("message"))


def local(path: str, columns: str | None = None) -> Cost:
    """Make all rows of a capture as Arrow, in this process."""
    settings = ReadSettings.parse({} if columns is None else {"columns": columns})
    names = column_names("message", settings.columns)
    begin, wall = time.process_time(), time.perf_counter()
    rows = RowBatches(settings, names)
    for _ in rows.convert(Analyser(rows.options).run(open_captures([path], block_size=1 << 20))):
        pass
    return Cost(time.process_time() - begin, wall=time.perf_counter() - wall)


def exported(path: str) -> Cost:
    """Write all tables as Parquet with the command."""
    with TemporaryDirectory(dir=HERE / "work") as folder:
        command = [sys.executable, "-m", "zmtpscope", "export", path, "-o", f"{folder}/out", "--format", "parquet"]
        wall = time.perf_counter()
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
        return Cost(usage.ru_utime + usage.ru_stime, wall=time.perf_counter() - wall, peak=usage.ru_maxrss << 10)


def ingested(spark: SparkSession, path: str) -> Cost:
    """Write the same with `ingest`."""
    folder = Path(HERE / "work" / "ingested")
    try:
        return cost_of(spark, lambda: ingest(spark, path, folder, mode="overwrite", partitions=8))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def cost_of(spark: SparkSession, run: Callable[[], object]) -> Cost:
    """Measure a job in the workers and in the JVM of the session."""
    before, first, wall = processes(), next_stage(spark), time.perf_counter()
    run()
    wall = time.perf_counter() - wall
    after = processes()
    python, java = (after[kind].cpu - before[kind].cpu for kind in ("python", "java"))
    return Cost(python, java, wall, after["python"].peak, shuffled_octets(spark, range(first, next_stage(spark))))


class Usage(NamedTuple):
    """Return the CPU seconds so far, and the peak memory of one live process."""

    cpu: float
    peak: int


def processes() -> dict[str, Usage]:
    """Return the processes below this one by kind; ended ones count for the process that waited for them."""
    parents = {int(path.name): stat_of(path) for path in Path("/proc").iterdir() if path.name.isdigit()}
    under = {os.getpid()}
    while more := {pid for pid, stat in parents.items() if stat and int(stat[1]) in under} - under:
        under |= more
    found = {"python": Usage(0.0, 0), "java": Usage(0.0, 0)}
    for pid in under - {os.getpid()}:
        stat = parents[pid]
        kind = "java" if "java" in name_of(pid) else "python"
        own, ended = slice(11, 13), slice(13, 15)  # utime and stime, and those of children that were waited for
        for whose, ticks in ((kind, stat[own]), ("python", stat[ended])):  # the JVM waits for nothing but Python
            usage = found[whose]
            found[whose] = Usage(usage.cpu + sum(map(int, ticks)) / TICK, usage.peak)
        found[kind] = found[kind]._replace(peak=max(found[kind].peak, peak_of(pid)))
    return found


def stat_of(path: Path) -> Sequence[str]:
    """Return the fields of /proc/PID/stat after the name."""
    try:
        return (path / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ()


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


def peak_of(pid: int) -> int:
    """Return the peak resident memory of a process in octets."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM")), 0)


def next_stage(spark: SparkSession) -> int:
    """Return the number of the next stage of a job."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().nextStageId())


def shuffled_octets(spark: SparkSession, stages: range) -> int:
    """Return the octets that these stages wrote for others."""
    store = spark.sparkContext._jsc.sc().statusStore()
    total = 0
    for stage in stages:
        try:
            total += int(store.lastStageAttempt(stage).shuffleWriteBytes())
        except Exception:  # one that was left out, since what it makes was there already
            continue
    return total


if __name__ == "__main__":
    main()
