"""Templates, and errors in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zmtpscope.filter import FilterError
from zmtpscope.templates import Separators, of_fields, parse_template


def test_texts_and_fields() -> None:
    template = parse_template(r"{{{topic}}}\t{size}\\\n{topic[0:2]}")
    assert template.texts == ("{", "}\t", "\\\n", "\n")
    assert template.reads == {"topic", "sizes", "size"}


def test_a_header_names_the_fields_as_they_were_written() -> None:
    template = of_fields(["tcp.stream", "len(topic)"], Separators(separator=",", quote='"', header=True))
    assert template.header == "tcp.stream,len(topic)\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{topik}", "no field named topik; did you mean topic?\n  {topik}\n   ^^^^^"),
        ("a {time", "{ has no }; write {{ for a brace\n  a {time\n    ^"),
        ("{time} }", "} closes nothing; write }} for a brace\n  {time} }\n         ^"),
        ("{}", "no field is named; write one, for example topic\n  {}\n   ^"),
        ("x{ }", "no field is named; write one, for example topic\n  x{ }\n     ^"),
        ("{size, topic}", ", is not expected here; write one field, or a part of it\n  {size, topic}\n       ^"),
        ("{size > 3}", "> is not expected here; write one field, or a part of it\n  {size > 3}\n        ^"),
        ("{'topic'}", "this is text, not a field\n  {'topic'}\n   ^^^^^^^"),
        ("{len(size)}", "len needs text or octets, and this is a number\n  {len(size)}\n   ^^^^^^^^^"),
        (r"\x {time}", "\\x is not an escape; write \\n, \\t, \\r, or \\\\ for a backslash\n  \\x {time}\n  ^^"),
        ("abc", "no field in the format; use for example {time} {topic} {size}\n  abc\n  ^^^"),
        ("", "no field in the format; use for example {time} {topic} {size}\n  \n  ^"),
    ],
)
def test_errors_in_templates_are_shown(text: str, sentence: str) -> None:
    with pytest.raises(FilterError) as error:
        parse_template(text)
    assert str(error.value) == sentence


@given(st.text(st.sampled_from(r"{}\ntopic[]()0:-\"' .#=<~!&|,é"), max_size=30))
def test_any_text_is_a_template_or_wrong_somewhere_in_it(text: str) -> None:
    template, wrong = None, None
    try:
        template = parse_template(text)
    except FilterError as error:
        wrong = error
    if template is not None:
        assert len(template.texts) == len(template.operands) + 1
    else:
        assert wrong is not None
        assert (wrong.text, 0 <= wrong.start <= len(text), wrong.stop <= len(text) + 1) == (text, True, True)
