"""Repeats fold: the first and the last stay, the others are counted, and nothing else changes."""

from __future__ import annotations

from itertools import groupby

from hypothesis import example, given
from hypothesis import strategies as st

from zmtpscope.export.diagram.events import Ends, Event
from zmtpscope.export.diagram.folding import FEW, Fold, Folding, Step

ENDS = Ends(1, ("10.0.0.2", 50_000), ("10.0.0.1", 5555))


def folded(names: str) -> list[Step]:
    """Return the steps drawn for events with one-letter names, a nanosecond apart."""
    folding = Folding()
    for time, name in enumerate(names):
        folding.feed(Event(time, "", ENDS, 0, "message", name, name), name)
    folding.finish()
    return folding.steps


def written(steps: list[Step]) -> str:
    """`aa[5a]a`."""
    return "".join(
        f"[{' '.join(f'{count}{name}' for name, count in sorted(step.names.items()))}]"
        if isinstance(step, Fold)
        else step.name
        for step in steps
    )


def test_of_one_that_repeats_two_are_drawn_and_the_last() -> None:
    assert written(folded("xaaaaaaaay")) == "xaa[5a]ay"


def test_of_two_that_take_turns_two_rounds_are_drawn_and_the_last() -> None:
    assert written(folded("x" + "pq" * 10 + "y")) == "xpqpq[7p 7q]pqy"


def test_of_a_longer_round_one_is_drawn_and_the_last() -> None:
    assert written(folded("abcdef" * 5)) == "abcdef[3a 3b 3c 3d 3e 3f]abcdef"


def test_a_cycle_with_an_event_twice_is_a_cycle() -> None:
    assert written(folded("aabb" * 6)) == "aabb[8a 8b]aabb"


def test_few_are_drawn_and_not_folded() -> None:
    assert written(folded("aaaaa")) == "aaaaa"
    assert written(folded("abababab")) == "abababab"


def test_two_in_a_row_are_no_round() -> None:
    for names in ("abcabc", "xycabcabc"):
        assert written(folded(names)) == names


def test_a_fold_has_its_times_and_the_events_of_a_cycle() -> None:
    (fold,) = [step for step in folded("pq" * 10) if isinstance(step, Fold)]
    assert (fold.time, fold.until, fold.events) == (4, 17, 14)
    assert [event.name for event in fold.cycle] == ["p", "q"]


@given(st.text("abc", max_size=80))
@example("aab" * 9 + "aa")
def test_all_events_are_there_or_counted_and_in_order(names: str) -> None:
    steps = folded(names)
    assert sum(step.events if isinstance(step, Fold) else 1 for step in steps) == len(names)
    times = [step.time for step in steps]
    assert times == sorted(times)
    for step in steps:
        if isinstance(step, Fold):
            assert step.names == {
                name: len([*each]) for name, each in groupby(sorted(names[step.time : step.until + 1]))
            }
            assert step.events > FEW
        else:
            assert step.name == names[step.time]


@given(st.text("ab", max_size=6), st.integers(3, 50))
def test_what_is_passed_by_counts_as_if_it_had_been_fed(front: str, count: int) -> None:
    fed = folded(front + "c" * (5 + count))
    folding = Folding()
    for time, name in enumerate(f"{front}cccc"):
        folding.feed(Event(time, "", ENDS, 0, "message", name, name), name)
    assert folding.repeats("c")
    last = len(front) + 4 + count
    folding.pass_by(count, "c", last - 1)
    folding.feed(Event(last, "", ENDS, 0, "message", "c", "c"), "c")
    folding.finish()
    assert folding.steps == fed
