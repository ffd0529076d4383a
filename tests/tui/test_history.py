"""The history of places, as in a browser."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zmtpscope.tui.history import History, Place

PLACES = [Place("messages", number) for number in range(6)]


def test_back_and_forward_again() -> None:
    history = History()
    history.leave(PLACES[0])
    history.leave(PLACES[1])
    assert history.back(PLACES[2]) == PLACES[1]
    assert history.back(PLACES[1]) == PLACES[0]
    assert history.back(PLACES[0]) is None
    assert history.forward(PLACES[0]) == PLACES[1]
    assert history.forward(PLACES[1]) == PLACES[2]
    assert history.forward(PLACES[2]) is None


def test_going_elsewhere_drops_places_ahead() -> None:
    history = History()
    history.leave(PLACES[0])
    assert history.back(PLACES[1]) == PLACES[0]
    history.leave(PLACES[0])
    assert history.forward(PLACES[2]) is None


@given(st.lists(st.sampled_from(["back", "forward"]), max_size=20))
def test_as_many_steps_back_as_forward_lead_to_the_same_place(steps: list[str]) -> None:
    history = History()
    for place in PLACES[:-1]:
        history.leave(place)
    at = len(PLACES) - 1
    for step in steps:
        found = history.back(PLACES[at]) if step == "back" else history.forward(PLACES[at])
        at += 0 if found is None else -1 if step == "back" else 1
        assert found in (None, PLACES[at])
