"""`read`: a shared scan on a few processors of one machine, a shuffle elsewhere; and flows divided evenly."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.capture.containers import Packet, pcap
from tests.readings import PUBSUB
from tests.spark.local import FILES, KEYS, in_any_order, local_rows, rows_of_all_captures
from zmtpscope.spark import planning, read, reading
from zmtpscope.spark.balance import large_flows
from zmtpscope.spark.flows import FlowFilter, of_ports, partitions_of, reverse
from zmtpscope.spark.reading import find_captures
from zmtpscope.spark.settings import ReadSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Conf:
    def __init__(self, master: str) -> None:
        self.master = master

    def get(self, name: str) -> str:
        assert name == "spark.master"
        return self.master


class Session:
    def __init__(self, master: str) -> None:
        self.conf = Conf(master)


def is_scanned(master: str, files: dict[str, int], **options: Any) -> bool:
    return reading._is_scanned(Session(master), files, ReadSettings.parse(options))  # type: ignore[arg-type]


def test_a_few_processors_of_one_machine_read_all_files_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = {"a.pcap": 1 << 20}, {"a.pcap": 1 << 30, "b.pcap": 1 << 30}
    monkeypatch.setattr(planning.os, "cpu_count", lambda: 8)
    assert is_scanned("local[*]", large)
    assert is_scanned("local[2]", small, record="findings")
    assert not is_scanned("local[*]", large, record="findings"), "eight processors compare faster after a shuffle"
    assert not is_scanned("local[*]", small, partitions=9)
    assert not is_scanned("yarn", small)
    assert not is_scanned("local[*]", {"s3://bucket/a.pcap": 1 << 20}), "it would be fetched once per partition"
    monkeypatch.setattr(planning.os, "cpu_count", lambda: 64)
    assert is_scanned("local[*]", small)
    assert not is_scanned("local[*]", large)


@pytest.mark.parametrize(("record", "partitions"), [("messages", 3), ("findings", 1)])
def test_rows_of_a_scan_match_one_run(spark: SparkSession, record: str, partitions: int) -> None:
    frame = read(spark, FILES, record, keys=KEYS, partitions=partitions)
    assert frame.rdd.getNumPartitions() == partitions
    assert in_any_order(frame.drop("time").toArrow().to_pylist()) == rows_of_all_captures(record.removesuffix("s"))


def test_rows_of_a_shuffle_match_one_run(spark: SparkSession) -> None:
    frame = read(spark, PUBSUB, partitions=9)
    assert frame.rdd.getNumPartitions() == 9
    assert in_any_order(frame.drop("time").toArrow().to_pylist()) == in_any_order(local_rows([PUBSUB], ReadSettings()))


def packet(port: int, octets: int) -> bytes:
    ip = bytes((0x45, 0)) + (40 + octets).to_bytes(2, "big") + bytes(4) + b"\x40\x06\0\0" + bytes((10, 0, 0, 1)) * 2
    tcp = port.to_bytes(2, "big") + (5555).to_bytes(2, "big") + bytes(8) + b"\x50\x10" + bytes(6)
    return bytes(12) + b"\x08\x00" + ip + tcp + bytes(octets)


def key_of(port: int) -> bytes:
    return bytes((10, 0, 0, 1)) * 2 + port.to_bytes(2, "big") + (5555).to_bytes(2, "big")


def capture(path: Path, *flows: tuple[int, int]) -> dict[str, int]:
    """A capture of 100 segments of each flow, a port and the octets of a segment, in turn."""
    path.write_bytes(pcap([Packet(packet(port, octets)) for _ in range(100) for port, octets in flows]))
    return find_captures(path).files


@pytest.mark.parametrize("partitions", [2, 4, 5])
def test_twenty_equal_connections_are_divided_evenly(tmp_path: Path, partitions: int) -> None:
    """Ports that follow each other, as a client gets them: hashes put 11 and 9 of these in two partitions."""
    files = capture(tmp_path / "a.pcap", *((port, 500) for port in range(40_000, 40_020)))
    large = large_flows([*files], sum(files.values()), partitions, ())
    counts = [sum(number == partition for number in large.values()) for partition in range(partitions)]
    assert counts == [40 // partitions] * partitions, "two keys for each connection"


def test_a_large_connection_has_a_partition_of_its_own(tmp_path: Path) -> None:
    files = capture(tmp_path / "a.pcap", (40_001, 1400), *((port, 10) for port in range(40_002, 40_012)))
    large = large_flows([*files], sum(files.values()), 2, ())
    assert {port for port in range(40_001, 40_012) if large[key_of(port)] == large[key_of(40_001)]} == {40_001}


def test_both_directions_and_all_partitions_agree_on_a_flow(tmp_path: Path) -> None:
    files = capture(tmp_path / "a.pcap", *((port, 300) for port in range(40_000, 40_003)))
    large = large_flows([*files], sum(files.values()), 3, (of_ports([40_000, 40_001]),))
    assert key_of(40_002) not in large, "nothing reads it"
    keys = [key_of(port) for port in range(40_000, 40_006)]
    numbers = FlowFilter(0, 3, (), large)._partitions_of(keys)
    assert numbers.tolist() == FlowFilter(2, 3, (), large)._partitions_of([reverse(key) for key in keys]).tolist()
    assert numbers[2:].tolist() == partitions_of(keys[2:], 3).tolist()


def test_a_file_that_vanished_or_is_damaged_divides_nothing(tmp_path: Path) -> None:
    (tmp_path / "cut.pcap").write_bytes(PUBSUB.read_bytes()[:30])
    assert large_flows([str(tmp_path / "gone.pcap"), str(tmp_path / "cut.pcap")], 0, 2, ()) == {}
