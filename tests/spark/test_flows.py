"""Partitions by flow: analysers of the parts of a run report the same records of each connection as one analyser."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.invariants import COMPARING
from tests.readings import CAPTURE_FILES
from zmtpscope.capture import SegmentBlock, open_captures
from zmtpscope.curve_keys import Keys
from zmtpscope.dissect import Analyser, Batch, Options
from zmtpscope.export.json_lines import text_of
from zmtpscope.payloads.registry import Registry
from zmtpscope.spark.flows import FlowFilter, partitions_of

keys = st.one_of(st.binary(min_size=12, max_size=12), st.binary(min_size=36, max_size=36))


def reverse(key: bytes) -> bytes:
    size = (len(key) - 4) // 2
    return key[size : 2 * size] + key[:size] + key[-2:] + key[-4:-2]


@given(keys=st.lists(keys, max_size=20), partitions=st.integers(1, 300))
def test_both_directions_of_a_connection_are_in_one_partition(keys: list[bytes], partitions: int) -> None:
    numbers = partitions_of(keys, partitions)
    assert ((numbers >= 0) & (numbers < partitions)).all()
    assert (numbers == partitions_of([reverse(key) for key in keys], partitions)).all()
    assert (numbers == [partitions_of([key], partitions)[0] for key in keys]).all()


@pytest.mark.parametrize("partitions", [2, 8, 100])
def test_flows_that_differ_in_little_are_spread(partitions: int) -> None:
    """A client's ports, and hosts of one network: no partition has half as much again as its share."""
    ports = [
        bytes((10, 0, 0, 1, 10, 0, 0, 2)) + port.to_bytes(2, "big") + b"\x15\xb3" for port in range(40_000, 60_000)
    ]
    hosts = [bytes((10, 0, 0, 1, 10, 0, *divmod(host, 256))) + b"\xc0\0\x15\xb3" for host in range(20_000)]
    for each in (ports, hosts):
        counts = np.bincount(partitions_of(each, partitions), minlength=partitions)
        assert counts.min() > 0.5 * 20_000 / partitions
        assert counts.max() < 1.5 * 20_000 / partitions


def test_the_number_is_the_same_in_every_process() -> None:
    keys = [bytes(range(12)), bytes(range(36)), bytes(12)]
    code = f"from zmtpscope.spark.flows import partitions_of; print(partitions_of({keys!r}, 1000).tolist())"
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert outputs == [f"{partitions_of(keys, 1000).tolist()}\n"] * 2


def records(blocks: Iterable[SegmentBlock], path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the records of each connection, in order, without comparisons with others."""
    own = path.with_suffix(".keys")
    options = Options(frames=True, payloads=Registry(), keys=Keys([own]) if own.exists() else None)
    analyser = Analyser(options)
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def add(batches: Iterable[Batch]) -> None:
        for batch in batches:
            for line in b"".join(text_of(batch, options)).splitlines():
                record = json.loads(line)
                if record["record"] != "zre_pair" and not COMPARING.match(record.get("id", "")):
                    found[record["conn_id"]].append({name: record[name] for name in record if name != "conn"})

    analyser.begin([str(path)])
    for block in blocks:
        add(analyser.feed(block))
    add(analyser.finish())
    return found


@pytest.mark.parametrize("path", CAPTURE_FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_parts_of_a_run_report_each_connection_as_one_run_does(path: Path) -> None:
    blocks = list(open_captures([str(path)], block_size=1 << 14))
    whole = records(deepcopy(blocks), path)  # an analyser puts the times of its blocks in order
    for partitions in (2, 8):
        parts: dict[str, list[dict[str, Any]]] = {}
        for partition in range(partitions):
            part = records(map(FlowFilter(partition, partitions, ()).select, blocks), path)
            assert parts.keys().isdisjoint(part)
            parts |= part
        assert parts == whole
