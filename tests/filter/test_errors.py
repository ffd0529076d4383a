"""Errors in filters: the error, its place, and the correction."""

from __future__ import annotations

import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zmtpscope.filter import Filter, FilterError
from zmtpscope.filter.fields import FIELDS

ERRORS = [
    ("", "", "the filter is empty; write a field, for example topic"),
    ("topik == a", "^^^^^", "no field named topik; did you mean topic?"),
    ("size > large", "       ^^^^^", "size is a number, and large is none; write digits"),
    ("size > 5ms", "       ^^^", "size is a number, and 5ms is none; units are B, kB, MB, GB, KiB, MiB, GiB"),
    ("idle_ns > 5KiB", "          ^^^^", "idle_ns is a length of time, and 5KiB is none; units are ns, us, ms"),
    ("topic = a", "      ^", "= is not an operator; write =="),
    ("topic ==", "        ^", "a value is missing after =="),
    ("topic == a and", "              ^", "a field is missing after and"),
    ("topic a", "      ^", "a is not expected here; join tests with and, or"),
    ('topic == "a', "         ^^", 'this text has no end; close it with "'),
    ("(topic", "^", "( has no )"),
    ("topic)", "     ^", ") closes nothing"),
    ("topic in a", "         ^", "in needs a set; for example: topic in"),
    ("topic in {a", "         ^", "the set has no }"),
    ("record == mesage", "          ^^^^^^", "no record is mesage; did you mean message?"),
    ("type in {gap, hole}", "              ^^^^", "no type is hole; there are connection, greeting,"),
    ("topic in {}", "         ^^", "the set is empty"),
    ("ip > 10.0.0.1", "   ^", "> cannot be applied to an IP address; it is for numbers, times and text"),
    ("size contains 5", "     ^^^^^^^^", "contains cannot be applied to a number; it is for text and octets"),
    ("ip == 10.0.0", "      ^^^^^^", "ip is an IP address, and 10.0.0 is none; write 10.0.0.1, 10.0.0.0/8"),
    ("complete == 5", "            ^", "complete is true or false, and 5 is none; write true or false"),
    ('topic matches "("', "              ^^^", "not a regular expression: missing ): ("),
    ("size[0:2] == 5", "^^^^^^^^^", "size is a number, which has no slices"),
    ("topic[x] == 5", "      ^", "x is not a slice; write [start:length], [first-last], [number]"),
    ("topic[", "     ^", "[ has no ]"),
    ("src_port == topic", "            ^^^^^", "the value is text, but the field before == is a number"),
    ("tcp.stream == conn", "              ^^^^", "tcp.stream can only be compared with numbers; write conn"),
    ("len(size) == 5", "^^^^^^^^^", "len needs text or octets, and this is a number"),
    ("all sizes", "         ^", "all needs a comparison; for example: all sizes > 100"),
    ('"a"', "^^^", "this is text, not a field"),
    (r'topic == "\q"', r"          ^^", r"\q is not an escape; write \\ for a backslash"),
    ("(" * 60, " " * 50 + "^", "more than 50 brackets and nots are nested"),
    ("time > yesterday", "       ^^^^^^^^^", 'time is a time, and yesterday is none; write "2026-11-22 16:08:25.5"'),
]


@pytest.mark.parametrize(("text", "carets", "sentence"), ERRORS)
def test_mistakes_are_named_where_they_are(text: str, carets: str, sentence: str) -> None:
    with pytest.raises(FilterError) as raised:
        Filter(text)
    message, shown, under = str(raised.value).split("\n")
    assert message.startswith(sentence)
    assert shown == f"  {text}"
    assert under.rstrip() == f"  {carets or '^'}"


def test_matches_without_re2_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(FilterError, match=r"(?s)needs google-re2.*zmtpscope\[regex\].*contains needs no extra"):
        Filter("topic matches a")
    assert Filter("topic contains a").holds({"record": "gap"}) is False


SIGNS = "== != < >= ( ) [ ] { } , .. ! && || and or not any all in contains matches len( 5 1.5KiB 'a'"
WORDS = st.sampled_from([*FIELDS, *SIGNS.split(), '"'])


@given(st.lists(WORDS | st.text(max_size=5), max_size=12).map(" ".join) | st.text(max_size=40))
@example("topic matches 'a{1000}{1000}'")
@example('time == "9999-99-99"')
@example("ts_ns == 1e999")
@example('time == "0001-01-01 00:00:00+23:59"')
def test_any_text_is_a_filter_or_an_error_with_a_place(text: str) -> None:
    try:
        found = Filter(text)
    except FilterError as error:
        mistake = error
    else:
        assert found.holds({"record": "gap"}) in (True, False)
        return
    assert 0 <= mistake.start < mistake.stop
    assert mistake.sentence
