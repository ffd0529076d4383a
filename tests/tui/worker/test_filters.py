"""Filters are checked while typed, and every completion leads to a valid filter."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.filter.test_rows import filters
from tests.readings import CAPTURES
from tests.store.stores import opened, options_for
from tests.suites import examples
from zmtpscope.filter import Filter, FilterError
from zmtpscope.store import Store
from zmtpscope.tui.requests import FilterProblem
from zmtpscope.tui.worker.filters import check, complete

OPERANDS = ("", ")", " topic)", " size", " bodies")
VALUES = ("1", '"x"', "message", "true", "10.0.0.1", '"2026-01-01"')
RESTS = ("", *(form.format(value) for form in (" == {}", " in {{{}}}", " {{{}}}", " {}", " {}}}") for value in VALUES))
"""Endings that complete an operand or the rest of a filter."""


def goes_on(text: str) -> bool:
    """Whether some ending makes this text a filter."""
    closing = [")" * brackets for brackets in range(text.count("(") + 1)]
    return any(is_filter("".join((text, *end))) for end in product(OPERANDS, RESTS, closing))


def is_filter(text: str) -> bool:
    try:
        Filter(text)
    except FilterError:
        return False
    return True


@cache
def store_of(name: str) -> Store:
    path = CAPTURES / name
    return opened(path, options_for(path)).store


STORES = ("patterns/pubsub.pcap", "implementations/jupyter.pcap", "security/plain-accepted.pcap")


@examples(150)
@given(filters(), st.sampled_from(STORES), st.data())
def test_whatever_is_offered_can_become_a_filter(text: str, name: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(text)))
    typed = text[:place]
    offered = complete(typed, place, store_of(name))
    assert 0 <= offered.start <= offered.stop <= len(typed)
    assert len(offered.texts) == len(offered.notes)
    if offered.texts:
        taken = data.draw(st.sampled_from(offered.texts))
        whole = typed[: offered.start] + taken
        assert goes_on(whole), whole


@examples(200)
@given(st.text(st.sampled_from("topic size=<>!&|()[]{}.,\"'~ 1anydlfwer"), max_size=30), st.integers(0, 30))
def test_any_text_has_an_answer(text: str, place: int) -> None:
    offered = complete(text, min(place, len(text)), store_of(STORES[0]))
    assert 0 <= offered.start <= offered.stop <= len(text)
    assert check(text) is None or check(text).place <= len(text)  # type: ignore[union-attr]


def offers(text: str, name: str = STORES[0]) -> tuple[str, ...]:
    """Return the completions at the position of |."""
    before, behind = text.split("|")
    return complete(before + behind, len(before), store_of(name)).texts


def test_fields_operators_values_and_joiners_are_offered_in_their_places() -> None:
    assert offers("|")[0] == "topic"
    assert offers("top|") == ("topic",)
    assert "frame_sizes" in offers("size|")
    assert offers("size|")[0] == "size"
    assert offers("topic con|") == ("contains",)
    assert "contains" not in offers("conn |")
    assert "and" in offers("topic |")
    assert "and" not in offers("any sizes |")
    assert offers("size <|") == ("<", "<=")
    assert offers("record == mess|") == ("message",)
    assert offers("topic == a.|") == ("a.topic",)
    assert offers('topic == "a.|"') == ("a.topic",)
    assert offers("topic == a.topic |") == ("and", "or")
    assert offers("(topic == a.topic |") == ("and", "or", ")")
    assert offers("complete == |") == ("true", "false")
    assert offers("socket_type in |") == ("{",)
    assert set(offers("socket_type in {PUB, |")) >= {"PUB", "SUB"}
    assert "size" not in offers("lower(|")
    assert offers("nonsense |") == ()


def test_text_after_the_cursor_is_replaced() -> None:
    found = complete("toxpic == a", 2, store_of(STORES[0]))
    assert (found.start, found.stop, found.texts[0]) == (0, 6, "topic")


def test_names_of_members_are_offered() -> None:
    jupyter = STORES[1]
    assert "payload.fields.msg_type" in offers("payload.fields.msg|", jupyter)
    assert "jupyter" in offers("payload.protocol == |", jupyter)


def test_a_field_has_the_meaning_that_it_has_in_messages() -> None:
    found = complete("top", 3, store_of(STORES[0]))
    assert dict(zip(found.texts, found.notes, strict=True))["topic"].startswith(
        "For a published message its first frame"
    )


def test_values_have_a_meaning() -> None:
    found = complete("id == PLAIN", 11, store_of("security/plain-accepted.pcap"))
    assert dict(zip(found.texts, found.notes, strict=True))["PLAIN-04"] == "Password sent unencrypted"


def test_no_password_is_offered() -> None:
    assert offers("password == |", "security/plain-accepted.pcap") == ('"***"',)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", None),
        ("  ", None),
        ("topic == a", None),
        ("topc == a", FilterProblem("no field named topc; did you mean topic?", 0)),
        ("topic == ", FilterProblem("a value is missing after ==", 9)),
        ("size contains 1", FilterProblem("contains cannot be applied to a number; it is for text and octets; "
                                          "compare with == or <", 5)),
        ("topic \x1b", FilterProblem("\\x1b is not expected here; join tests with and, or", 6)),
    ],
)  # fmt: skip
def test_an_error_has_its_position(text: str, problem: FilterProblem | None) -> None:
    assert check(text) == problem
