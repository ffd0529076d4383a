"""A growing store equals the final one: for any batches, with concurrent readers, in few octets."""

from __future__ import annotations

from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import numpy as np
import pytest

from tests.readings import CAPTURES
from tests.store.stores import FILES, SMALLEST_BLOCK, json_lines, opened, options_for
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser, Batch
from zmtpscope.filter import Filter
from zmtpscope.store import OctetsError, Spool, Store, topics
from zmtpscope.store import segment_index as segment_index_module
from zmtpscope.store import store as store_module

MANY = CAPTURES / "patterns" / "many-small.pcap"
MAX_OCTETS = 60
"""A message row, its segments included."""


@pytest.mark.parametrize("path", FILES[::6], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_it_does_not_matter_how_much_arrives_at_a_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = options_for(path)
    whole, _ = opened(path, options)
    for small in (1, 7, 1 << 20):
        monkeypatch.setattr(store_module, "SMALL", small)
        monkeypatch.setattr(segment_index_module, "SMALL", small)
        parts, _ = opened(path, options, block_size=SMALLEST_BLOCK)
        assert json_lines([parts.batch(slice(None))], options) == json_lines([whole.batch(slice(None))], options)
        for row in range(0, len(parts), 9):
            assert parts.detail(row) == whole.detail(row)


def test_others_read_while_it_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "SMALL", 50)
    path = CAPTURES / "patterns" / "pubsub.pcap"
    options = options_for(path)
    batches = list(Analyser(options).run(open_captures([str(path)], block_size=SMALLEST_BLOCK)))
    expected = json_lines(batches, options)
    store, seen = Store(options), []
    failures: list[Any] = []

    def read() -> None:
        random, found = Random(1), Filter("size > 0 or conn == 1")
        while not seen or seen[-1] < len(expected):
            seen.append(count := len(store))
            if not count:
                continue
            row = random.randrange(count)
            (line,) = json_lines([store.batch([row])], options)
            selected = store.select(found)
            if line != expected[row] or (np.diff(selected) <= 0).any() or store.problem is not None:
                failures.append((row, line, store.problem))
                return

    reader = Thread(target=read)
    reader.start()
    for batch in batches:
        store.append(batch)
    reader.join(60)
    assert not reader.is_alive()
    assert failures == []


def test_a_selection_can_be_given_up() -> None:
    store, _ = opened(MANY, options_for(MANY, frames=False))
    steps = store.selecting(Filter("size >= 0"))
    looked_at, found = next(steps)
    steps.close()
    assert 0 < looked_at <= len(store)
    assert (found < looked_at).all()


def test_a_row_takes_few_octets() -> None:
    options = options_for(MANY, frames=False)
    store, _ = opened(MANY, options, block_size=1 << 21)
    assert len(store) > 1000
    assert store.nbytes / len(store) < MAX_OCTETS
    assert store.spool.end < len(store)
    one_by_one, _ = opened(MANY, options, block_size=SMALLEST_BLOCK)
    assert one_by_one.nbytes / len(one_by_one) < MAX_OCTETS


def test_different_topics_do_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "FEW", 0)
    path = CAPTURES / "patterns" / "pubsub.pcap"
    options = options_for(path, frames=False)
    batches = list(Analyser(options).run(open_captures([str(path)])))
    run = max(
        (run for batch in batches for run in batch.by_sender() if run.topics is not None),
        key=lambda run: len(run.first),
    )
    assert run.topics is not None
    run = run.take(np.flatnonzero(run.topics >= 3))
    data = bytearray(run.data)
    for row, frame in enumerate(run.first.tolist()):  # all of them are different
        start = int(run.bodies[frame]) - run.base
        data[start : start + 3] = f"{row:03}".encode()
    run.change(data=bytes(data), has_stars=True)
    store = Store(options)
    store.append(Batch([str(path)], [run]))
    found = store.select(Filter("topic contains '001'"))
    assert [store.row(int(row))["topic"][:3] for row in found] == ["001"]
    assert store.nbytes / len(store) < MAX_OCTETS


def test_the_spool_is_bounded() -> None:
    path = CAPTURES / "patterns" / "pubsub.pcap"
    options = options_for(path, index=False)
    store = Store(options, spool=Spool(100))
    (batch, *_) = Analyser(options).run(open_captures([str(path)]))
    with pytest.raises(OctetsError, match="more than 100 octets are needed"):
        store.append(batch)
    assert len(store) == 0


def test_a_full_disk_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.pwrite", full)
    with pytest.raises(OctetsError, match="No space left on device -> free some space"):
        opened(CAPTURES / "patterns" / "pubsub.pcap")
