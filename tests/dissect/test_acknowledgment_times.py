"""Acknowledgments that are late, because a program does not read, or captured before their octets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.peer_octets import GREETING, message, ready
from tests.traffic import Capture, Conversation
from tests.twins import twins
from zmtpscope.capture.segments import ACK, CUT, FIN, PSH, RST, SYN
from zmtpscope.dissect import Analyser, Options
from zmtpscope.dissect.tcp.acknowledgment_times import FIELDS

CHANGES = twins("zmtpscope.dissect.tcp.acknowledgment_times.acknowledgment_changes")
MS = 1_000_000
ID, AGAIN, EARLY = "ZMTP-CONN-24", "ZMTP-CONN-25", "ZMTP-CONN-27"


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


# -- acknowledgments before their octets -------------------------------------------------------------------------------


def pushed(count: int = 3) -> Conversation:
    """Messages of a PUSH, each acknowledged at once; the last packets are message and acknowledgment by turns."""
    return stream(*[0] * count)


def swapped(talk: Conversation, place: int) -> Conversation:
    """Swap two packets in the capture, and their times."""
    one, other = talk.packets[place], talk.packets[place + 1]
    talk.packets[place : place + 2] = [replace(other, time=one.time), replace(one, time=other.time)]
    return talk


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_data_after_its_acknowledgment_is_found_once(size: int) -> None:
    talk = pushed()
    last = len(talk.packets)
    swapped(swapped(talk, last - 4), last - 2)
    assert [place for *place, _ in found(talk, size, EARLY)] == [[0, last - 2]]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_a_capture_merged_from_two_clocks_is_found(size: int) -> None:
    """The packets of the client have times 20 ms too late, the SYN, too."""
    talk = pushed()
    late = [replace(each, time=each.time + 20 * MS) if each.side == 0 else each for each in talk.packets]
    talk.packets = sorted(late, key=lambda packet: packet.time)
    assert len(found(talk, size, EARLY)) == 1


def lost_acknowledgment() -> Conversation:
    """The PUSH sends acknowledged data again, since the acknowledgment did not reach it."""
    talk = pushed()
    talk.wait(300 * MS)
    talk.packets.append(replace(talk.packets[-2], time=talk.time))
    talk.acknowledge(1)
    return talk


def repeated_syn() -> Conversation:
    """The answer to the SYN did not reach the client, which sends its SYN again."""
    talk = pushed()
    talk.packets[2:2] = talk.packets[:2]
    return talk


def late_copy_of_the_syn() -> Conversation:
    """A path delivers the SYN again after the first data."""
    talk = pushed()
    talk.packets.insert(8, replace(talk.packets[0], time=talk.packets[8].time))
    return talk


def ports_used_again() -> Conversation:
    first, second = pushed(), pushed()
    later = [replace(each, time=each.time + 60_000 * MS, sequence=each.sequence + 5_000_000) for each in second.packets]
    first.packets += [replace(each, acknowledgment=each.acknowledgment + 5_000_000) for each in later]
    return first


@pytest.mark.parametrize("talk", [pushed, lost_acknowledgment, repeated_syn, late_copy_of_the_syn, ports_used_again])
@pytest.mark.parametrize("size", [1, 1000])
def test_data_before_its_acknowledgment_is_no_finding(talk: Callable[[], Conversation], size: int) -> None:
    assert found(talk(), size, EARLY) == []


# -- the compiled form -------------------------------------------------------------------------------------------------


@st.composite
def columns(draw: st.DrawFn) -> list[np.ndarray]:
    """Segments of two connections: mostly data and its acknowledgment, soon, late or early."""
    rows, time = [], 1
    for packet in range(draw(st.integers(0, 90))):
        time += draw(st.sampled_from([1, 6, 40, 60])) * MS
        flow, flags = (
            draw(st.integers(0, 3)),
            draw(st.sampled_from([ACK] * 9 + [ACK | PSH, SYN, ACK | FIN, ACK | CUT, ACK | RST])),
        )
        octets, sequence = draw(st.sampled_from([0, 0, 5])), draw(st.sampled_from([0, 0, 0, 4, 5, 2**32 - 1]))
        acknowledgment = draw(st.sampled_from([5, 5, 5, 4, 9, 10]))
        rows.append((flow, sequence, acknowledgment, flags, 10, 10 + octets, time, packet))
    return list(np.array(rows, np.int64).reshape(-1, 8).T.copy())


@given(columns(), st.integers(0, 30))
def test_p20_changes_of_acknowledgments_are_the_same_compiled_and_in_python(
    given: list[np.ndarray], acknowledged: int
) -> None:
    results = []
    for function in CHANGES:
        state = np.zeros((4, FIELDS), np.int64)
        state[:, 2:4] = acknowledged
        results.append((function(np.arange(4), state, *given), state.tolist()))
    assert all(each == results[0] for each in results)
