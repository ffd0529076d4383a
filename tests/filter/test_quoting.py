"""A filter that is made of a value holds of the records with it, and of no others."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from zmtpscope.filter import Filter
from zmtpscope.filter.writing import MAX_COMPARED, begins_with, equals, every, one_of
from zmtpscope.records import to_text

NASTY = st.sampled_from([b"\\", b'"', b"'", b"\x00", b"\xff", b"\\x41", b"\x1b[31m", "\u202e".encode(), b" or ", b"A"])
OCTETS = st.lists(NASTY | st.binary(max_size=3), max_size=5).map(b"".join)


def holds(filter: str, topic: bytes) -> bool:
    return Filter(filter).holds({"record": "message", "topic": to_text(topic)})


@given(OCTETS, OCTETS)
@example(b'"', b"A")
def test_equals_holds_of_this_value_alone(value: bytes, other: bytes) -> None:
    assert holds(equals("topic", to_text(value)), value)
    assert holds(equals("topic", to_text(value)), other) == (value == other)


@given(OCTETS, OCTETS)
def test_begins_with_holds_of_what_begins_so(value: bytes, other: bytes) -> None:
    assert holds(begins_with("topic", to_text(value)), value + other)
    assert holds(begins_with("topic", to_text(value)), other) == other.startswith(value)


@given(OCTETS)
def test_filters_that_are_made_are_safe_to_show(value: bytes) -> None:
    assert equals("topic", to_text(value)).isprintable()


def test_of_a_long_value_the_beginning_is_asked_for() -> None:
    value = b"\xff" * (4 * MAX_COMPARED)
    assert holds(equals("topic", to_text(value)), value)
    assert not holds(equals("topic", to_text(value)), value[:-1][: MAX_COMPARED - 1])


def test_every_joins_what_is_there() -> None:
    assert every("a == 1 or b == 2", "", "c == 3") == "(a == 1 or b == 2) and c == 3"


@example({2, 4}, 3)
@given(st.sets(st.integers(0, 30), min_size=1), st.integers(0, 30))
def test_one_of_holds_of_these_numbers_alone(numbers: set[int], other: int) -> None:
    assert Filter(one_of("conn", numbers)).holds({"record": "message", "conn": other}) == (other in numbers)


def test_numbers_that_follow_each_other_are_a_range() -> None:
    assert one_of("conn", [4, 2, 3, 9]) == "conn in {2..4, 9}"
    assert one_of("conn", [4]) == "conn == 4"
