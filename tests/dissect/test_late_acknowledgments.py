"""Sides whose system begins to acknowledge late: their programs do not read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.peer_octets import GREETING, message, ready
from tests.traffic import Capture, Conversation
from tests.twins import twins
from zmtpscope.capture.segments import ACK, CUT, FIN, PSH, SYN
from zmtpscope.dissect import Analyser, Options
from zmtpscope.dissect.tcp.late_acknowledgments import FIELDS

LATE_ACKNOWLEDGMENTS = twins("zmtpscope.dissect.tcp.late_acknowledgments.late_acknowledgments")
MS = 1_000_000
ID, AGAIN = "ZMTP-CONN-24", "ZMTP-CONN-25"


def stream(*delays: int, every: int = 100) -> Conversation:
    """A PULL that acknowledges each message of a PUSH after these milliseconds."""
    talk = Conversation()
    for side in (0, 1):
        talk.send(side, GREETING)
    for side, socket_type in ((0, "PUSH"), (1, "PULL")):
        talk.send(side, ready(socket_type))
    for delay in delays:
        talk.wait((every - delay) * MS)
        talk.send(0, message(b"report"))
        talk.wait(delay * MS)
        talk.acknowledge(1)
    return talk


STOPPED = [0] * 12, [40] * 30


def found(talk: Conversation, size: int = 7, id_: str = ID) -> list[tuple[int, int, str]]:
    """Return side, packet and text of each finding, read in blocks of `size` packets."""
    records = [
        record.values
        for batch in Analyser(Options(bodies="none")).run(Capture(talk.packets, size))
        for record in batch.records
        if record.type == "finding" and record.values["id"] == id_
    ]
    return [(values["side"], values["packet"], values["text"].rpartition(": ")[2]) for values in records]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_a_program_that_stops_reading_is_found_however_the_capture_is_divided(size: int) -> None:
    """Its first late acknowledgment is packet 33; 2 s later there are 20 more."""
    assert found(stream(*STOPPED[0], *STOPPED[1]), size) == [(1, 73, "from packet 33 on")]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_program_that_reads_again_is_found_each_time(size: int) -> None:
    """Ten acknowledgments at once in a row show it."""
    talk = stream(*STOPPED[0], *STOPPED[1], *[0] * 9, 40, *[0] * 12, *STOPPED[1])
    assert [text for _, _, text in found(talk, size)] == ["from packet 33 on", "from packet 137 on"]
    assert found(talk, size, AGAIN) == [(1, 131, "from packet 113 on")]


def test_late_acknowledgments_are_found_although_the_connection_ends() -> None:
    talk = stream(*STOPPED[0], *STOPPED[1])
    talk.reset(1)
    assert len(found(talk, 1000)) == 1


def sends_too() -> Conversation:
    talk = stream(*STOPPED[0])
    for _ in range(30):
        talk.wait(60 * MS)
        talk.send(0, message(b"report"))
        talk.wait(40 * MS)
        talk.send(1, message(b"thanks"))
    return talk


@pytest.mark.parametrize(
    "talk",
    [
        lambda: stream(*[40] * 60),
        lambda: stream(*STOPPED[0], *[40] * 7),
        lambda: stream(*STOPPED[0], *[40, 40, 40, 0] * 12),
        lambda: stream(*STOPPED[0], *[15] * 40),
        lambda: stream(*STOPPED[0], *[30] * 40),
        lambda: stream(*STOPPED[0], *[80] * 40),
        lambda: stream(*[8] * 12, *STOPPED[1]),
        lambda: stream(*STOPPED[0], *[40] * 12, every=60),
        sends_too,
    ],
    ids=[
        "late from the start",
        "few",
        "now and then",
        "busy",
        "a longer path",
        "a link that sleeps",
        "never at once",
        "for a moment",
        "it sends too",
    ],
)
def test_other_acknowledgments_are_no_finding(talk: Callable[[], Conversation]) -> None:
    assert found(talk()) == []


@st.composite
def columns(draw: st.DrawFn) -> list[np.ndarray]:
    """Segments of two connections: mostly data and its acknowledgment, soon or late."""
    rows, time = [], 1
    for packet in range(draw(st.integers(0, 90))):
        time += draw(st.sampled_from([1, 6, 40, 60])) * MS
        flow, flags = draw(st.integers(0, 3)), draw(st.sampled_from([ACK] * 9 + [ACK | PSH, SYN, ACK | FIN, ACK | CUT]))
        octets = draw(st.sampled_from([0, 0, 5]))
        rows.append((flow, 0, draw(st.sampled_from([5, 5, 5, 4])), flags, 10, 10 + octets, time, packet))
    return list(np.array(rows, np.int64).reshape(-1, 8).T.copy())


@given(columns(), st.integers(0, 30))
def test_p20_late_acknowledgments_are_the_same_compiled_and_in_python(
    given: list[np.ndarray], acknowledged: int
) -> None:
    results = []
    for function in LATE_ACKNOWLEDGMENTS:
        state = np.zeros((4, FIELDS), np.int64)
        state[:, 2:4] = acknowledged
        results.append((function(np.arange(4), state, *given), state.tolist()))
    assert all(each == results[0] for each in results)
