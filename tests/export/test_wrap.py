"""Lines on a terminal: words stay whole and under each other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zmtpscope.export.wrap import INDENT, LEAST, wrap

WORDS = "warn ZMTP-CONN-08 The connection closed within a second of an error"


def test_a_line_that_fits_stays_unchanged() -> None:
    assert wrap("9 1.0 a > b  ", 13, WORDS, 13 + len(WORDS)) == "9 1.0 a > b  " + WORDS


def test_long_lines_continue_below_the_first_word() -> None:
    words = f"{WORDS}, said its peer"
    assert wrap("9 1.0 a > b  ", 13, words, 80) == (
        "9 1.0 a > b  warn ZMTP-CONN-08 The connection closed within a second of an\n             error, said its peer"
    )


def test_where_hardly_anything_is_left_the_words_get_lines_of_their_own() -> None:
    assert wrap("9 1.0 a > b  ", 13, WORDS, 52) == (
        "9 1.0 a > b\n        warn ZMTP-CONN-08 The connection closed\n        within a second of an error"
    )


def test_colours_take_no_room() -> None:
    words = "\x1b[31mfour\x1b[0m five " * 4
    wrapped = wrap("", 0, words.rstrip(), 45)
    assert [line.count("five") for line in wrapped.split("\n")] == [4]


@given(
    used=st.integers(0, 100),
    words=st.lists(st.text("ab", max_size=30), max_size=20).map(" ".join),
    width=st.integers(INDENT + 30, 150),
)
def test_every_word_is_there_and_no_line_is_too_long(used: int, words: str, width: int) -> None:
    first, *rest = wrap("p" * used, used, words, width).split("\n")
    indent = used if width - used >= LEAST else INDENT
    assert " ".join([first[used:], *rest]).split() == words.split()
    for line in rest:
        assert len(line) <= width
        assert line.startswith(" " * indent)
