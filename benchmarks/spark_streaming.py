"""The cost of a streaming query beside one run over the same packets: micro-batches, state, listing the folder.

    python -m benchmarks.spark_streaming [--quick]

A capture is split into files, which are read as a worker reads them: one file per micro-batch, with the state written
after each; in turn with one run over the capture. CPU seconds are those of this process. Only the time of a micro-batch
is measured with Spark: that of its log and its tasks. The page is written to results/.
"""

from __future__ import annotations

import argparse
import struct
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.captures import HERE, Capture, capture
from benchmarks.report import head, table
from benchmarks.run import machine
from benchmarks.setting import QUICK
from zmtpscope.capture import ALWAYS, open_captures
from zmtpscope.dissect import Analyser, Options
from zmtpscope.spark.capture_folder import CaptureFolder, MicroBatch, next_micro_batch
from zmtpscope.spark.flows import FlowFilter
from zmtpscope.spark.partition_state import PartitionState

ROUNDS, QUICK_ROUNDS = 5, 3
FILE_HEADER, RECORD_HEADER = 24, 16
OPTIONS = Options()


def cut(made: Capture, folder: Path, files: int) -> None:
    """Split the packets of a pcap into this many files of about equal size, as a rotating capture does."""
    octets = made.path.read_bytes()
    size = (len(octets) - FILE_HEADER) // files + 1
    begin = end = FILE_HEADER
    number = 0
    while begin < len(octets):
        while end < len(octets) and end - begin < size:
            end += RECORD_HEADER + struct.unpack_from("<I", octets, end + 8)[0]
        (folder / f"{number:05}.pcap").write_bytes(octets[:FILE_HEADER] + octets[begin:end])
        begin, number = end, number + 1


def at_once(made: Capture) -> None:
    """Run over a capture once."""
    for _ in Analyser(OPTIONS).run(open_captures([str(made.path)])):
        pass


def in_batches(folder: Path, state_file: Path) -> list[int]:
    """Run file by file; return the octets of each state."""
    captures = CaptureFolder(str(folder)).captures()
    sizes: list[int] = []
    state: PartitionState | None = None
    following = partial(next_micro_batch, captures=captures, partitions=1, growing=0, most_files=1, finish=False)
    batch = following(MicroBatch())
    while batch is not None:
        if state is None:
            state = PartitionState(Analyser(OPTIONS))
        else:
            state = PartitionState.load(state_file.read_bytes(), OPTIONS)
        for _ in state.take(batch, ALWAYS, FlowFilter(0, 1, ()).select):
            pass
        state_file.write_bytes(state.dump())
        sizes.append(state_file.stat().st_size)
        batch = following(batch)
    return sizes


def cpu(work: Callable[[], object]) -> float:
    """Return the CPU seconds of this process."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def files_beside_one_run(made: Capture, files: int, rounds: int) -> list[str]:
    """Return a row: the cost of the files of a capture beside the whole capture."""
    with tempfile.TemporaryDirectory() as work:
        folder, state = Path(work, "captures"), Path(work, "state")
        folder.mkdir()
        cut(made, folder, files)
        sizes = in_batches(folder, state)
        ratios, loads = [], []
        for _ in range(rounds):
            one, many = cpu(lambda: at_once(made)), cpu(lambda: in_batches(folder, state))
            ratios.append(many / one)
            loads.append(cpu(lambda: PartitionState.load(state.read_bytes(), OPTIONS).dump()))
        connections = made.truth["connections"]
        costs = [f"{median(ratios):.2f}", f"{max(sizes) / 1e3:,.0f} kB", f"{1e3 * median(loads):.1f} ms"]
        return [made.name, f"{connections:,}", f"{files:,}", *costs]


def look(files: int, made: Capture) -> list[str]:
    """Return a row: the cost of listing a folder of this many unchanged files."""
    with tempfile.TemporaryDirectory() as work:
        octets = made.path.read_bytes()[:4096]
        for number in range(files):
            Path(work, f"{number:06}.pcap").write_bytes(octets)
        folder = CaptureFolder(work)
        first = cpu(folder.captures)
        later = min(cpu(folder.captures) for _ in range(5))
        return [f"{files:,}", f"{1e3 * first:,.0f} ms", f"{1e3 * later:.1f} ms"]


def with_spark(made: Capture, files: int) -> str:
    """Return a sentence: the time of a micro-batch of one small file."""
    import zmtpscope.spark

    with tempfile.TemporaryDirectory() as work:
        folder = Path(work, "captures")
        folder.mkdir()
        cut(made, folder, files)
        spark = zmtpscope.spark.session()
        spark.sparkContext.setLogLevel("ERROR")
        reader = spark.readStream.format("zmtp").option("stateLocation", f"{work}/states").option("growing", "0")
        writer = reader.option("maxFilesPerTrigger", "1").load(str(folder)).writeStream.format("noop")
        query = writer.option("checkpointLocation", f"{work}/checkpoint").trigger(availableNow=True).start()
        query.awaitTermination()
        times = [each["durationMs"]["triggerExecution"] for each in query.recentProgress if each["numInputRows"]]
        spark.stop()
        warm = times[len(times) // 2 :]
        return f"{len(times)} micro-batches of a file: the first took {times[0]} ms, later ones {median(warm):.0f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes, fewer rounds")
    quick = parser.parse_args().quick
    scale, rounds = (10, QUICK_ROUNDS) if quick else (1, ROUNDS)
    name = QUICK * quick
    few = capture(f"{name}small", "small", messages=1_000_000 // scale)
    many = capture(f"{name}open", "small", messages=1_000_000 // scale, connections=20_000 // scale, stagger=1e-5)
    results = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "quick": quick, "machine": machine(None)}
    files = [files_beside_one_run(made, files, rounds) for made in (few, many) for files in (10, 100)]
    looks = [look(files // scale, few) for files in (1_000, 10_000)]
    parts = [
        head(results),
        "## A stream beside one run over the same packets",
        table(["capture", "connections", "files", "CPU, times one run", "state", "load and dump"], files),
        "## What a look at the folder costs",
        table(["files in the folder", "first look", "each later one"], looks),
        "## With Spark",
        with_spark(few, 20),
    ]
    text = "\n\n".join(parts) + "\n"
    (HERE / "results" / f"{results['date']}-spark-streaming.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
