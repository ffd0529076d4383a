"""Frames are found again after much random data: the rest of a large body."""

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.counting import lines_of
from tests.peer_octets import message
from tests.suites import some
from zmtpscope.dissect.stream import resync
from zmtpscope.dissect.stream.resync import RUNS, WINDOW, Boundary, FrameSearch
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.regime import Framing

REST = Random(1).randbytes(2 * WINDOW)
"""The rest of a body, larger than the window in which every octet is examined."""


def sealed(number: int, size: int) -> bytes:
    """A MESSAGE of CURVE with `size` octets in its box."""
    box = Random(number).randbytes(size)
    return build_frame(Framing.V2, b"\x07MESSAGE" + number.to_bytes(8) + box)


def search(octets: bytes, cuts: int, known: bool) -> Boundary | None:
    found, frames = None, FrameSearch(Framing.V2, 0, known)
    for start in range(0, len(octets), cuts):
        found = found or frames.feed(octets[start : start + cuts])
    return found


@pytest.mark.parametrize("cuts", [100, 1000, 1448])
def test_frames_that_begin_with_a_segment(cuts: int) -> None:
    frames = FrameSearch(Framing.V2, 0, True)
    for start in range(0, len(REST), cuts):
        assert frames.feed(REST[start : start + cuts]) is None
    found = [frames.feed(message(b"from here on")) for _ in range(20)]
    assert next(filter(None, found)) == Boundary(Framing.V2, len(REST))


@pytest.mark.parametrize("size", [20, 300])
@pytest.mark.parametrize("cuts", [1, 7, 1448, 1 << 20])
def test_sealed_messages_wherever_they_begin(cuts: int, size: int) -> None:
    if cuts == 1:  # many pieces are slow, and the window is long
        octets, cuts = REST[: WINDOW + 5], 5
    else:
        octets = REST
    messages = b"".join(sealed(number, size) for number in range(3, 20))
    assert search(octets + messages, cuts, known=True) == Boundary(Framing.V2, len(octets))


def test_random_octets_alone_are_no_frames() -> None:
    assert search(REST, 1448, known=True) is None


FOLLOWED_FOR_LONG = b"\2" + (1 << 30).to_bytes(8)
NEVER_FRAMES = {
    "random octets": Random(2).randbytes(20_000),
    "zeros": bytes(20_000),
    "frames whose end never comes": FOLLOWED_FOR_LONG * 2_000,
    "frames of 1.0 whose end never comes": (b"\xff" + (1 << 30).to_bytes(8) + b"\0") * 2_000,
}


@pytest.mark.parametrize("octets", NEVER_FRAMES.values(), ids=NEVER_FRAMES)
@pytest.mark.parametrize("framing", [Framing.V2, Framing.V1])
@pytest.mark.parametrize("size", some([1, 9, 300], 2))
def test_a_search_in_vain_costs_the_same_for_each_segment_and_octet(
    octets: bytes, framing: Framing, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resync, "WINDOW", 1 << 12)
    monkeypatch.setattr(resync, "RETAINED", 1 << 13)
    monkeypatch.setattr(resync, "RETAINED_SEGMENTS", 1 << 10)
    octets = octets if size > 1 else octets[:12_000]
    pieces = [octets[start : start + size] for start in range(0, len(octets), size)]
    search = FrameSearch(framing, 0, True)

    def feed() -> None:
        for piece in pieces:
            assert search.feed(piece) is None

    assert lines_of(feed) < 100 * (len(octets) + len(pieces))
    assert len(search.data) <= resync.RETAINED * 5 // 4 + size
    assert len(search.edges) <= resync.RETAINED_SEGMENTS * 5 // 4 + 1
    assert len(search.boundaries) < 2 * resync.RETAINED


def test_commands_inside_of_each_other_are_read_as_often_as_there_are_octets(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = 0

    def count(body: bytes) -> bool:
        nonlocal looked_at
        looked_at += len(body)
        return False

    monkeypatch.setattr(resync, "is_known_command", count)
    command = b"\6" + (8_000).to_bytes(8) + b"\x09SUBSCRIBE"
    search = FrameSearch(Framing.V2, 0, True)
    for _ in range(5_000):
        search.feed(command)
    assert 0 < looked_at < 3 * 5_000 * len(command)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("framing", "octet"), [(Framing.V2, 0), (Framing.V2, 1), (Framing.V2, 4), (Framing.V1, 1)])
def test_runs_are_passed_without_a_step_for_each_octet(framing: Framing, octet: int, known: bool) -> None:
    search = FrameSearch(framing, 0, known)
    run = bytes([octet]) * WINDOW
    assert lines_of(lambda: search.feed(run)) < 2_000
    assert lines_of(lambda: search.feed(run)) < 2_000


def without_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on a search looks at each octet of a run, too."""
    monkeypatch.setattr(resync, "LONG_RUN", dict.fromkeys(RUNS, re.compile(b"never there")))


@pytest.mark.parametrize("octet", [0, 1, 4])
@pytest.mark.parametrize("count", range(40, 56, 3))
@pytest.mark.parametrize("cuts", [1, 16, 1000])
def test_runs_that_are_passed_at_once_change_nothing(
    octet: int, count: int, cuts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frames of different lengths end within the runs, and messages that are found follow."""
    octets = b"".join(
        bytes([0, length]) + b"x" * length + bytes([octet]) * (count + length % 7) for length in (5, 30, 31, 60, 3, 90)
    )
    octets += message(b"from here on") * 14
    quick = search(octets, cuts, known=True)
    without_runs(monkeypatch)
    assert search(octets, cuts, known=True) == quick is not None


STRETCHES = st.one_of(
    st.tuples(st.sampled_from([0, 1, 4]), st.integers(1, 60)).map(lambda run: bytes([run[0]]) * run[1]),
    st.lists(st.sampled_from([0, 1, 2, 4, 6, 9, 20, 40, 255]), max_size=12).map(bytes),
    st.sampled_from([message(b"from here on") * 3, b"\4\7\4PING\0\0"]),
)


@given(
    stretches=st.lists(STRETCHES, max_size=8),
    framing=st.sampled_from(list(RUNS)),
    known=st.booleans(),
    cuts=st.sampled_from([1, 7, 30, 1000]),
    window=st.sampled_from([20, 60, WINDOW]),
)
def test_what_is_passed_at_once_makes_no_difference(
    stretches: list[bytes], framing: Framing, known: bool, cuts: int, window: int
) -> None:
    octets = b"".join(stretches)

    def followed() -> tuple[Boundary | None, list[tuple[int, resync.Trial]]]:
        search = FrameSearch(framing, 0, known)
        found = None
        for start in range(0, len(octets), cuts):
            if (found := search.feed(octets[start : start + cuts])) is not None:
                return found, []
        return found or search.conclude(), sorted(search.trials.items())

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(resync, "WINDOW", window)
        quick = followed()
        without_runs(monkeypatch)
        assert followed() == quick


@pytest.mark.parametrize(
    "octets",
    [
        bytes.fromhex("0010ff000200ff0401000002020000010102020400") + bytes(45),
        bytes.fromhex("010101060200090100") + b"\1" * 18,
    ],
    ids=["an empty command", "a frame that ends in the run"],
)
def test_a_frame_that_ends_in_a_run_is_examined(octets: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame that begins in front of a run may be evidence, or none at all."""

    def trials() -> list[tuple[int, resync.Trial]]:
        search = FrameSearch(Framing.V2, 0, True)
        search.feed(octets)
        return sorted(search.trials.items())

    quick = trials()
    without_runs(monkeypatch)
    assert trials() == quick
