"""How much of a capture is read in one step."""

from __future__ import annotations

from tests.tui.workers import worker_of
from zmtpscope.tui.requests import Progress
from zmtpscope.tui.worker.loading import MAX_PACKETS, MIN_PACKETS, STEP_SECONDS, paced


def test_steps_come_to_take_the_time_that_they_should() -> None:
    assert paced(1000, STEP_SECONDS) == 1000
    assert paced(1000, STEP_SECONDS / 1.5) == 1500
    assert paced(1000, STEP_SECONDS * 1.25) == 800


def test_steps_change_by_half_or_double_at_most() -> None:
    """One slow step, such as the first of a large message, says little of the next."""
    assert paced(1000, 100 * STEP_SECONDS) == 500
    assert paced(1000, 0.0) == 2000


def test_steps_are_neither_empty_nor_without_end() -> None:
    assert paced(MIN_PACKETS, 100 * STEP_SECONDS) == MIN_PACKETS
    assert paced(MAX_PACKETS, 0.0) == MAX_PACKETS


def test_what_went_wrong_is_told_without_being_asked() -> None:
    with worker_of("problems/subscription-lost-on-reconnect.pcap") as worker:
        said = worker.wait_for(Progress, lambda progress: progress.diagnoses is not None)
        assert said.is_done
        assert said.diagnosed == said.records
        assert said.diagnoses == "1 error, 1 note"
