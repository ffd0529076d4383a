"""Messages as they are written down: cut out of a stream, and named in a way that can be typed back."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zmtpscope.export.message_lines import renderer, typed
from zmtpscope.export.safe_text import safe_text
from zmtpscope.live.cat.message_input import BadMessage, Notation, Splitter, typed_octets


@given(st.binary(max_size=200), st.lists(st.integers(0, 200)), st.sampled_from([b"\n", b"\0"]))
def test_any_chunking_gives_the_same_messages(octets: bytes, cuts: list[int], end: bytes) -> None:
    splitter = Splitter(end)
    edges = [0, *sorted(min(cut, len(octets)) for cut in cuts), len(octets)]
    blocks = [octets[start:stop] for start, stop in pairwise(edges)]
    messages = [piece for block in blocks for piece in splitter.feed(block)] + splitter.finish()
    expected = octets.split(end)
    if not expected[-1]:  # an end stands behind each message, and may be missing behind the last
        expected.pop()
    assert messages == expected
    assert splitter.count == len(expected)


@given(st.one_of(st.binary(), st.text().map(str.encode)))
def test_what_is_shown_can_be_typed_back(octets: bytes) -> None:
    shown = typed(octets)
    assert typed_octets(shown.encode()) == octets
    assert safe_text(shown) == shown


@given(st.lists(st.binary(), min_size=2))
def test_parts_that_are_shown_as_text_are_distinguished(parts: list[bytes]) -> None:
    line = renderer("text")(parts, 0)
    assert line.count(b"\n") == 1
    assert [typed_octets(part) for part in line.removesuffix(b"\n").split(b"\t")] == parts


@given(st.lists(st.binary(), min_size=1))
def test_hex_is_read_as_it_is_written(parts: list[bytes]) -> None:
    line = renderer("hex")(parts, 0).removesuffix(b"\n")
    assert Notation(hex=True, separator=b"\t").parts(line) == parts


@pytest.mark.parametrize("digits", [b"0", b"0g", b"\xff", b"0x00", "\u0660\u0660".encode()])
def test_input_that_is_no_hex(digits: bytes) -> None:
    with pytest.raises(BadMessage, match="is not hex"):
        Notation(hex=True).parts(digits)
