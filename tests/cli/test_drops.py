"""Packets that a capture lost, as people and scripts see them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.capture.containers import enhanced, pcap, section
from tests.capture.test_drops import IF_DROP, PACKETS, UNITS, named, statistics
from tests.cli.running import Run


def test_read_reports_what_the_capture_lost_and_ends_with_3(zmtpscope: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    packets = b"".join(enhanced(packet, UNITS) for packet in PACKETS)
    path.write_bytes(section() + named("eth0") + packets + statistics(0, {IF_DROP: 12}))
    code, out, err = zmtpscope("read", path)
    assert code == 3
    label = "the capture  "
    line = next(line for line in out.splitlines() if label in line)
    assert "warn CAPTURE-01 The capture dropped packets: 12 on eth0 -> " in line
    assert "zmtpscope: 12 packets were dropped while they were captured: 12 on eth0\n" in err

    code, out, err = zmtpscope("read", "-q", path)
    assert code == 3
    assert "damage           12 packets dropped while captured: 12 on eth0" in out
    assert "1 x warn  CAPTURE-01 The capture dropped packets -> " in out

    code, out, err = zmtpscope("read", "--json", path)
    assert code == 3
    assert out.count("\n") == 1
    assert '"conn":null,"conn_id":null,"side":null' in out
    assert '"packet":null,"src_ip":null' in out
    assert '"id":"CAPTURE-01"' in out
    assert '"count":12' in out


def test_a_file_that_is_cut_short_is_a_finding(zmtpscope: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(PACKETS)[:-1])
    code, out, _ = zmtpscope("read", "--json", path)
    assert code == 3
    assert f'"file":"{path}","packet":{len(PACKETS) - 1},' in out
    assert '"conn":null,"conn_id":null' in out
    assert '"id":"CAPTURE-02","severity":"warn"' in out
    assert f'"text":"The capture file could not be read to its end: {path}: the file ends inside a packet' in out


def test_a_capture_that_lost_nothing_reports_nothing(zmtpscope: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    path.write_bytes(section() + named("eth0") + enhanced(PACKETS[0], UNITS) + statistics(0, {IF_DROP: 0}))
    assert zmtpscope("read", "--json", path)[:2] == (0, "")
    path.write_bytes(pcap(PACKETS))
    assert zmtpscope("read", "--json", path)[:2] == (0, "")


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_tables_have_the_finding(zmtpscope: Run, tmp_path: Path, form: str) -> None:
    path = tmp_path / "a.pcapng"
    path.write_bytes(section() + named("eth0") + enhanced(PACKETS[0], UNITS) + statistics(0, {IF_DROP: 12}))
    code, _, err = zmtpscope("export", path, "-o", tmp_path / "out", "--format", form)
    assert code == 3
    assert "findings" in err
    if form != "parquet":
        assert "CAPTURE-01" in (tmp_path / "out" / f"findings.{form}").read_text()
