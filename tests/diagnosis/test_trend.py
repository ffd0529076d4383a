"""Trends of durations in little memory, for any batches; replies that take longer and longer."""

from __future__ import annotations

from itertools import pairwise
from math import log2
from statistics import fmean

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.diagnosis.diagnosing import diagnoses_of
from tests.diagnosis.talking import CLIENT, SERVER, Talk
from tests.peer_octets import message
from tests.suites import examples
from tests.twins import twins
from zmtpscope.diagnosis.observers.durations import MAX_GROUPS, Trend

RULE = "replies-slower"


@example([*range(300)], [33, 66, 99, 150])
@given(st.lists(st.integers(0, 10**12), max_size=700), st.lists(st.integers(0, 700)))
def test_groups_are_means_of_equally_many_in_order_for_any_batches(durations: list[int], cuts: list[int]) -> None:
    trend = Trend()
    for begin, end in pairwise([0, *sorted(cuts), len(durations)]):
        trend.add(durations[begin:end])
    assert trend.count == len(durations)
    assert len(trend.groups) < MAX_GROUPS
    assert trend.rest_count < trend.size
    logarithms = [log2(max(duration, 1)) for duration in durations]
    for number, typical in enumerate(trend.typical()):
        mean = fmean(logarithms[number * trend.size : (number + 1) * trend.size])
        assert typical == pytest.approx(2**mean, rel=1e-6, abs=1)


def _asked(client: str, milliseconds: list[float]) -> Talk:
    """Requests one by one, each answered after so long."""
    talk = Talk(1).handshake(client, "ROUTER")
    for pause in milliseconds:
        talk.send(CLIENT, message(b"name", b"", b"request") if client == "DEALER" else message(b"", b"request"))
        talk.wait(pause / 1000)
        talk.send(SERVER, message(b"name", b"", b"reply") if client == "DEALER" else message(b"", b"reply"))
    return talk


SLOWER = [1 + number * 2 for number in range(80)]


def test_replies_that_take_longer_and_longer_are_reported() -> None:
    diagnosis = diagnoses_of(_asked("REQ", SLOWER))[RULE]
    assert (diagnosis.severity, diagnosis.certainty) == ("note", "likely")
    assert "ROUTER 10.0.0.1:5555 replies to REQ 10.0.0.2 ever more slowly" in diagnosis.text


@pytest.mark.parametrize(
    ("client", "milliseconds"),
    [
        ("REQ", [each / 10 for each in SLOWER]),
        ("REQ", SLOWER[:20]),
        ("REQ", SLOWER[::-1]),
        ("REQ", [1] * 40 + [300] * 30 + [1] * 10),
        ("REQ", [1] * 70 + [300] * 10),
        ("REQ", [200] * 40 + [400] * 40),
        ("REQ", [1, 300] * 40),
        ("REQ", [1] * 12 + [200] * 68),
        ("DEALER", SLOWER),
    ],
    ids=[
        "fast all the same",
        "few",
        "faster",
        "slow for a while",
        "slow at the very end",
        "twice",
        "varying",
        "constant after a queue was empty",
        "several at a time",
    ],
)
def test_other_latencies_are_not(client: str, milliseconds: list[float]) -> None:
    assert RULE not in diagnoses_of(_asked(client, milliseconds))


def test_the_last_replies_of_a_server_that_became_slow_are_reported() -> None:
    diagnosis = diagnoses_of(_asked("REQ", [2] * 74 + [150] * 8))["slow-reply"]
    assert (diagnosis.severity, diagnosis.certainty) == ("note", "likely")
    assert diagnosis.text == (
        "ROUTER 10.0.0.1:5555 became slow: its last replies to REQ 10.0.0.2, 8 of 82, took about 152 ms each, "
        "those before about 4 ms"
    )


@pytest.mark.parametrize(
    "milliseconds",
    [
        [2] * 70 + [150] * 8 + [2] * 4,
        [2] * 79 + [150] * 3,
        [2, 2, 2, 150] * 20 + [150] * 2,
        [2] * 70 + [12] * 10,
        [2, 90] * 9 + [90] * 10,
    ],
    ids=["quick again", "three", "slow ones before", "not much slower", "varying"],
)
def test_single_slow_replies_are_not_a_server_that_became_slow(milliseconds: list[float]) -> None:
    assert "slow-reply" not in diagnoses_of(_asked("REQ", milliseconds))


@given(st.lists(st.integers(0, 10**12), max_size=600), st.lists(st.integers(0, 600), max_size=6))
def test_p1_a_trend_does_not_depend_on_how_durations_are_divided(durations: list[int], cuts: list[int]) -> None:
    whole, parts = Trend(), Trend()
    whole.add(durations)
    for begin, end in pairwise([0, *sorted(cuts), len(durations)]):
        parts.add(durations[begin:end])
    assert parts == whole


@examples(300, least=300)
@given(st.lists(st.integers(-(2**63), 2**63)))
def test_p20_logarithms_are_the_same_for_every_caller(durations: list[int]) -> None:
    found = [logarithms(durations) for logarithms in twins("zmtpscope.diagnosis.observers.durations.logarithms")]
    assert all(each == found[0] for each in found)
