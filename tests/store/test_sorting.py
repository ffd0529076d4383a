"""Records sorted by a field have the order of its values in `row`; equal ones stay in their order."""

from __future__ import annotations

from functools import cache
from ipaddress import ip_address
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.store.stores import FILES, SMALLEST_BLOCK, opened, options_for
from zmtpscope.filter.checking import operand_of
from zmtpscope.filter.fields import CAPTURE_START, FIELDS, Type
from zmtpscope.store import Store
from zmtpscope.store import sorting as module

NAMES = [
    *(name for name, field in FIELDS.items() if field.alias_of is None and field.type is not Type.MEMBERS),
    "len(topic)",
    "payload.fields.msg_type",
    "bodies[0][0:2]",
    "tcp.stream",
]


@cache
def store_of(path: Path) -> tuple[Store, list[dict[str, Any]]]:
    store, _ = opened(path, options_for(path, frames=len(path.stem) % 2 == 0), block_size=SMALLEST_BLOCK)
    return store, [store.row(row) | {CAPTURE_START: store.first_time} for row in range(len(store))]


def first_value(name: str, record: dict[str, Any]) -> Any:
    operand = operand_of(name)
    value = next(iter(operand.values(record)), None)
    return ip_address(value) if value is not None and operand.type is Type.ADDRESS else value


@pytest.mark.parametrize("path", FILES[::6], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_records_are_sorted_by_any_field(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CONCURRENT", 7)
    store, records = store_of(path)
    random = Random(path.stem)
    for name in random.sample(NAMES, 25):
        rows = np.array(sorted(random.sample(range(len(store)), random.randint(0, min(len(store), 300)))), np.int64)
        values = {row: first_value(name, records[row]) for row in rows.tolist()}
        having = [row for row in rows.tolist() if values[row] is not None]
        others = [row for row in rows.tolist() if values[row] is None]
        for descending in (False, True):
            found = store.sorted(rows, name, descending=descending).tolist()
            expected = sorted(having, key=values.__getitem__, reverse=descending)
            assert found == [*expected, *others], name


def test_keys_of_64_bits_are_sorted_as_well() -> None:
    keys = np.array([2**62, -(2**63), 2**63 - 1, 0, -(2**63), 5])
    assert module._order(keys, descending=False).tolist() == [1, 4, 3, 5, 0, 2]
    assert module._order(keys, descending=True).tolist() == [2, 0, 5, 3, 1, 4]


def test_nothing_is_sorted_as_nothing() -> None:
    store, _ = store_of(FILES[0])
    assert store.sorted(np.empty(0, np.int64), "size").tolist() == []
