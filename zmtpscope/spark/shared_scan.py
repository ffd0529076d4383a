"""Plan a scan on the driver: the number of partitions, and the flows or files of each.

Spark plans each query in separate processes that import this module, so it must not import the analyser.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zmtpscope.spark.balance import file_tasks, large_flows
from zmtpscope.spark.flows import FlowFilter, flow_conditions
from zmtpscope.spark.paths import FoundCaptures
from zmtpscope.spark.settings import ReadSettings

if TYPE_CHECKING:
    import pyarrow as pa

OCTETS_OF_A_PARTITION = 32 << 20
"""One partition reads smaller captures faster than two."""
MAX_SCANS = 8
"""Scans unless the user requests more: each of them reads all files."""


@dataclass(frozen=True)
class SharedScan:
    """A scan of which all partitions read the same files, and divide their flows."""

    files: list[str]
    settings: ReadSettings
    columns: list[str]
    partitions: int
    large: dict[bytes, int]
    """Partition of each flow with much data. Other flows are hashed."""

    @staticmethod
    def of(files: Mapping[str, int], settings: ReadSettings, columns: Sequence[str]) -> SharedScan:
        octets = sum(files.values())
        partitions = 1 if settings.needs_one_reader else settings.partitions or min(useful_scans(octets), MAX_SCANS)
        endpoints = flow_conditions(settings.ports, settings.hosts)
        large = large_flows([*files], octets, partitions, endpoints) if partitions > 1 else {}
        return SharedScan([*files], settings, [*columns], partitions, large)

    def rows(self, partition: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition. Raises `CaptureError`."""
        from zmtpscope.spark.scan import scan

        endpoints = flow_conditions(self.settings.ports, self.settings.hosts)
        flows = FlowFilter(partition, self.partitions, endpoints, self.large)
        yield from scan(self.files, self.settings, self.columns, flows)


@dataclass(frozen=True)
class FileScan:
    """A scan of files as separate captures, divided among partitions."""

    files: list[str]
    settings: ReadSettings
    columns: list[str]
    tasks: list[range]

    @staticmethod
    def of(files: Mapping[str, int], settings: ReadSettings, columns: Sequence[str]) -> FileScan:
        tasks = file_tasks([*files.values()], settings.partitions or os.cpu_count() or 1)
        return FileScan([*files], settings, [*columns], tasks)

    @property
    def partitions(self) -> int:
        return len(self.tasks)

    def rows(self, partition: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition. Raises `CaptureError`."""
        from zmtpscope.spark.scan import scan_apart
        from zmtpscope.spark.storage import check_on_worker

        check_on_worker(self.files)
        yield from scan_apart([self.files[index] for index in self.tasks[partition]], self.settings, self.columns)


Scan = SharedScan | FileScan


def plan_scan(captures: FoundCaptures, settings: ReadSettings, columns: Sequence[str]) -> Scan:
    return (FileScan if settings.per_file else SharedScan).of(captures.files, settings, columns)


def useful_scans(octets: int) -> int:
    """Return the partitions with which this machine reads captures of this size fastest."""
    return max(1, min(octets // OCTETS_OF_A_PARTITION, os.cpu_count() or 1))
