"""Events without a repeating order are thinned out: nothing is drawn or counted twice, or forgotten."""

from __future__ import annotations

import pathlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.export.diagram.drawing import of_traffic, sequence_of
from tests.export.diagram.test_layout import spoken
from tests.peer_octets import message
from tests.readings import CAPTURES
from tests.traffic import Capture
from zmtpscope.capture import open_captures
from zmtpscope.export.diagram import repeats as repeats_module
from zmtpscope.export.diagram.events import Ends, Event
from zmtpscope.export.diagram.folding import Fold, Step
from zmtpscope.export.diagram.layout import FOLD
from zmtpscope.export.diagram.repeats import Key, Thinning
from zmtpscope.export.diagram.sequence import EventSequence
from zmtpscope.records import SECOND

FILES = sorted([*CAPTURES.glob("patterns/*.pcap"), *CAPTURES.glob("damage/*.pcap")])


def key_of(event: Event) -> Key:
    return event.ends, event.name


def thinned(names: str, alike: int = 2) -> list[Step]:
    """Return the steps drawn for events with one-letter names, a nanosecond apart: small letters on one connection,
    capitals on another; a digit is a note on the first."""
    thinning = Thinning(key_of, alike)
    steps: list[Step] = []
    for time, name in enumerate(names):
        ends = Ends(2 if name.isupper() else 1, ("10.0.0.2", 50_000), ("10.0.0.1", 5555))
        kind = "note" if name.isdigit() else "message"
        steps += thinning.feed(Event(time, "", ends, 0, kind, name, name))
    return sorted([*steps, *thinning.finish()], key=lambda step: step.time)


def written(steps: list[Step]) -> str:
    """`abba[3a 4b]ab`."""
    words = []
    for step in steps:
        counts = [f"{count}{name}" for name, count in sorted(step.names.items())] if isinstance(step, Fold) else []
        words.append(f"[{' '.join(counts)}]" if counts else step.name if isinstance(step, Event) else "")
    return "".join(words)


def totals(steps: list[Step]) -> Counter[str]:
    """How many events there were, by name, whether they are drawn or not."""
    found: Counter[str] = Counter()
    for step in steps:
        found.update(step.names if isinstance(step, Fold) else [step.name])
    return found


def test_of_each_kind_the_first_are_drawn_and_the_last() -> None:
    assert written(thinned("abbabaabbabab")) == "abba[3a 4b]ab"


def test_after_a_new_kind_of_event_the_next_of_each_kind_is_drawn_again() -> None:
    assert written(thinned("aaaaaaxaaaaaa")) == "aa[3a]axa[4a]a"
    assert written(thinned("aaaaaa1aaaaaa2aaaa")) == "aa[3a]a1a[4a]a2a[2a]a"


def test_connections_do_not_disturb_each_other() -> None:
    assert written(thinned("aAaAaAaXaAaAa")) == "aAaA[4a]AXAAa"


@given(st.text("abAB1", max_size=60), st.integers(2, 4))
def test_all_events_are_drawn_or_counted(names: str, alike: int) -> None:
    assert totals(thinned(names, alike)) == Counter(names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_of_a_capture_all_events_are_drawn_or_counted(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def sequence(folds: bool) -> EventSequence:
        return sequence_of(open_captures([str(path)]), folds=folds)

    expected = totals(sequence(False).steps)
    assert totals(sequence(True).steps) == expected
    monkeypatch.setattr(repeats_module, "MAX_ALIKE", 2)
    assert totals(sequence(True).steps) == expected


def test_a_busy_capture_fits_in_what_is_drawn() -> None:
    one, other = spoken(0), spoken(1)
    for number in range(500):
        for talk, side in ((one, number % 3 == 0), (other, number % 7 == 0), (one, number % 5 == 0)):
            talk.send(int(side), message(b"x" * (number % 9)))
    diagram = of_traffic(one, other, most=60)
    assert diagram.left_out == ""
    assert len(diagram.rows) <= 60
    counted = [row.what for row in diagram.rows if row.kind == FOLD]
    assert any("more messages" in what for what in counted)
    everything = of_traffic(one, other, most=5000, folds=False)
    assert len(everything.rows) > 1500


def test_bursts_are_counted_as_a_whole() -> None:
    one, other = spoken(0), spoken(1)
    sizes = [3, 1, 7, 2, 5, 4, 9, 1, 6, 8] * 60
    for number, size in enumerate(sizes):
        talk = (one, other)[number % 3 % 2]
        talk.wait(SECOND)
        talk.send(0, message(b"x") * size)
    captured = [packet for talk in (one, other) for packet in talk.packets]
    sequence = sequence_of(Capture(sorted(captured, key=lambda packet: packet.time)))
    found = totals(sequence.steps)
    assert found["message"] == sum(sizes)
    assert sum(isinstance(step, Event) and step.kind == "message" for step in sequence.steps) < 100
