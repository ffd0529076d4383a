"""If the clock of a capture was set back, times continue from their last value."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.capture.containers import Packet, pcap
from zmtpscope.capture import open_captures
from zmtpscope.capture.clock import Clock, Clocks, SetBack
from zmtpscope.capture.packets import LATEST

SECOND = 1_000_000_000


def corrected(*times: float, blocks: int = 1 << 30) -> list[float]:
    """Return the corrected times (s) of packets in blocks of this size."""
    clock, found = Clock(), list[float]()
    for begin in range(0, len(times), blocks):
        block = np.array([int(time * SECOND) for time in times[begin : begin + blocks]], np.int64)
        clock.correct(block)
        found += (block / SECOND).tolist()
    return found


def test_times_continue_after_a_step_back() -> None:
    assert corrected(7200, 7201, 3601.5, 3602) == [7200, 7201, 7201, 7201.5]


def test_times_are_unchanged_again_once_the_clock_has_caught_up() -> None:
    assert corrected(7200, 3600, 3601, 7202) == [7200, 7200, 7201, 7202]


def test_packets_that_are_a_little_out_of_order_stay_so() -> None:
    assert corrected(10, 9.5, 10.25, 10.125) == [10, 9.5, 10.25, 10.125]


def test_two_clocks_that_differ_do_not_drift() -> None:
    """Packets of two interfaces, one of which is 37 s ahead (TAI and UTC)."""
    times = [time for number in range(100) for time in (137 + number / 10, 100.05 + number / 10)]
    assert max(corrected(*times)) == max(times)


def test_each_interface_has_its_own_clock() -> None:
    times, interfaces = np.array([700, 10, 701, 11, 600, 12]) * SECOND, np.array([0, 1, 0, 1, 0, 1])
    assert Clocks().correct(times, interfaces) == [(4, 101 * SECOND)]
    assert (times // SECOND).tolist() == [700, 10, 701, 11, 701, 12]


@given(st.lists(st.integers(0, 20) | st.sampled_from([0, LATEST // SECOND])), st.integers(1, 3))
def test_no_time_is_a_second_before_an_earlier_one(times: list[int], blocks: int) -> None:
    found = corrected(*times, blocks=blocks)
    assert found == corrected(*times)
    latest = np.maximum.accumulate([0.0, *found])[1:]
    assert (np.array(found) > latest - 1).all()


def test_the_step_is_in_the_statistics(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([Packet(b"x" * 60, time=time * SECOND) for time in (50, 51, 20, 21, 10)]))
    captures = open_captures([str(path)])
    for _ in captures:
        pass
    assert captures.statistics.set_back() == SetBack(31 * SECOND, 51 * SECOND, str(path), 3, times=2)
    assert (captures.statistics.first_time, captures.statistics.last_time) == (50 * SECOND, 52 * SECOND)
