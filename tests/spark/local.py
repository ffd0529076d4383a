"""Rows of a run on one machine, for comparison with rows of Spark, and captures cut in pieces."""

from __future__ import annotations

import json
import os
import pathlib
import struct
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from tests.readings import CAPTURE_FILES, CAPTURES
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser
from zmtpscope.export.arrow import arrow_batch, held_schema
from zmtpscope.export.tables import by_type
from zmtpscope.filter import Filter
from zmtpscope.records import DERIVED, RECORDS
from zmtpscope.spark.planning import SharedScan
from zmtpscope.spark.reading import find_captures
from zmtpscope.spark.schemas import column_names
from zmtpscope.spark.settings import NUMBERS_OF_CONNECTIONS, ReadSettings
from zmtpscope.spark.shuffle import Run, shuffled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]

FILES = [*CAPTURE_FILES, *(CAPTURES / "problems" / name for name in ("cable-pulled.pcap", "receiver-naps.pcap"))]
"""All captures except the problems, of which one with retransmissions and one with stalls is included."""
READ = [record for record in RECORDS if record not in DERIVED]
"""Types of records that are read from captures; test_derived.py tests the others."""
KEYS = os.pathsep.join(str(path) for path in sorted(CAPTURES.glob("*/*.keys")))


def local_rows(files: Sequence[str | pathlib.Path], settings: ReadSettings) -> list[Row]:
    """Return the rows that `export` writes, with null for the numbers of connections."""
    columns = column_names(settings.record, settings.columns)
    options = settings.dissect_options(column_names(settings.record))
    schema = held_schema(settings.record, columns)
    found: list[Row] = []
    for batch in Analyser(options).run(open_captures(list(map(str, files)))):
        for record, part in by_type(batch):
            if record == settings.record:
                found += arrow_batch(part, record, schema, options).to_pylist()
    return [row | dict.fromkeys(NUMBERS_OF_CONNECTIONS & row.keys()) for row in found]


@cache
def rows_of_all_captures(record: str) -> list[str]:
    """Return the rows of a run over all captures, with their keys, in any order."""
    return in_any_order(local_rows(FILES, ReadSettings.parse({"record": record, "keys": KEYS})))


def scanned_rows(files: Sequence[str | pathlib.Path], settings: ReadSettings) -> list[Row]:
    """Return the rows of all partitions of a shared scan, without Spark."""
    columns = column_names(settings.record, settings.columns)
    sizes = {str(file): os.path.getsize(file) if os.path.exists(file) else 0 for file in files}
    scan = SharedScan.of(sizes, settings, columns)
    if settings.partitions and not settings.needs_one_reader:
        assert scan.partitions == settings.partitions
    return [row for number in range(scan.partitions) for batch in scan.rows(number) for row in batch.to_pylist()]


def shuffled_frame(spark: SparkSession, files: Sequence[str | pathlib.Path], record: str, **options: Any) -> DataFrame:
    """Return the DataFrame of `read` if a shuffle costs less than a shared scan."""
    settings = ReadSettings.parse({"record": record, **options})
    return shuffled(spark, Run.of(spark, find_captures(files).files, settings), column_names(settings.record))


FILTERED = (
    ("message", "topic contains a or size > 1KiB or payload.protocol == jupyter"),
    ("message", "bodies contains 'payload 1'"),
    ("connection", "messages_1 > 2"),
    ("finding", "severity in {error, warn}"),
    ("frame", "more and size < 10"),
)
"""Record types, and filters for them."""


def filtered_rows(files: Sequence[str | pathlib.Path], record: str, filter: str) -> list[Row]:
    rows = local_rows(files, ReadSettings.parse({"record": record}))
    wanted = Filter(filter)
    found = []
    for row in rows:
        payload = row.get("payload")
        fields = None if payload is None or payload["fields"] is None else json.loads(payload["fields"])
        whole = row if payload is None else row | {"payload": payload | {"fields": fields}}
        found += [row] if wanted.holds(whole) else []
    assert 0 < len(found) < len(rows)
    return found


def in_any_order(rows: Iterable[Row]) -> list[str]:
    """Return rows in comparable form: several workers have no order, and `time` is `ts_ns` in a type of Spark."""
    return sorted(repr({name: value for name, value in row.items() if name != "time"}) for row in rows)


def pieces(capture: pathlib.Path, cuts: Iterable[int], folder: pathlib.Path) -> list[pathlib.Path]:
    """Cut a pcap file before these packets (counted from 0), as a tool that rotates files does."""
    octets = capture.read_bytes()
    order = "<" if octets[0] in (0xD4, 0x4D) else ">"
    at, begins = 24, []
    while at + 16 <= len(octets):
        begins.append(at)
        at += 16 + struct.unpack_from(f"{order}I", octets, at + 8)[0]
    edges = sorted({begins[cut % len(begins)] for cut in cuts} | {24})
    made = []
    for number, (begin, end) in enumerate(zip(edges, [*edges[1:], len(octets)], strict=True)):
        made.append(folder / f"{capture.stem}-{number:05}.pcap")
        made[-1].write_bytes(octets[:24] + octets[begin:end])
    return made
