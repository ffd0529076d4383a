"""Sizes of the blocks in which a capture is read."""

from __future__ import annotations

import pytest

from tests.readings import CAPTURES
from tests.tui.workers import worker_of
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser, Options
from zmtpscope.store import Store
from zmtpscope.tui.requests import Progress
from zmtpscope.tui.worker.loading import MAX_PACKETS, MIN_PACKETS, PART_SECONDS, Loading, Opened, paced


def test_parts_of_blocks_approach_their_duration() -> None:
    assert paced(1000, PART_SECONDS, 1) == 1000
    assert paced(1000, PART_SECONDS / 1.5, 1) == 1500
    assert paced(1000, PART_SECONDS * 1.25, 1) == 800


def test_blocks_change_by_half_or_double_at_most() -> None:
    """One slow part, such as the first of a large message, does not predict the next."""
    assert paced(1000, 100 * PART_SECONDS, 1) == 500
    assert paced(1000, 0.0, 1) == 2000


def test_blocks_are_neither_empty_nor_without_end() -> None:
    assert paced(MIN_PACKETS, 100 * PART_SECONDS, 0) == MIN_PACKETS
    assert paced(MAX_PACKETS, 0.0, 1) == MAX_PACKETS


def test_blocks_with_many_connections_stay_large() -> None:
    """A block has a cost for each of its connections, even with few packets."""
    assert paced(40_000, 100 * PART_SECONDS, 500) == 40_000
    assert paced(1000, 100 * PART_SECONDS, 1000) == 2000
    assert paced(MAX_PACKETS, 100 * PART_SECONDS, 1_000_000) == MAX_PACKETS


@pytest.mark.parametrize("name", ["patterns/pubsub.pcap", "problems/subscription-lost-on-reconnect.pcap"])
def test_a_block_is_read_in_parts_with_the_same_records(name: str) -> None:
    path = str(CAPTURES / name)
    options = Options(index=True)
    whole = Store(options)
    for batch in Analyser(options).run(open_captures([path])):
        whole.append(batch)
    loading = Loading(Opened((path,), lambda: open_captures([path])), options)
    taken = 0
    while not loading.is_done or loading.arrived:
        while loading.arrived:
            assert loading.ongoing is None
            taken += len(loading.arrived.popleft().rows)
        loading.step()
    whole.first_time = loading.store.first_time
    assert taken == len(loading.store) == len(whole)
    assert loading.store.lines(0, taken) == whole.lines(0, taken)


def test_problems_are_notified_unasked() -> None:
    with worker_of("problems/subscription-lost-on-reconnect.pcap") as worker:
        loaded = worker.wait_for(Progress, lambda progress: progress.diagnoses is not None)
        assert loaded.is_done
        assert loaded.diagnosed == loaded.records
        assert loaded.diagnoses == "1 error, 1 note"
