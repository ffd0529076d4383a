"""Nothing from the network may move a cursor, hide, or turn the direction of writing."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.payloads.reading import dissected
from zmtpscope.dissect.records.details import Detail
from zmtpscope.export.details import tree_lines
from zmtpscope.export.preview import parts_preview, preview, quoted
from zmtpscope.export.safe_text import safe_text
from zmtpscope.payloads.messagepack import MessagePack

FORBIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def is_safe(text: str) -> bool:
    return not {unicodedata.category(character) for character in text} & FORBIDDEN


@pytest.mark.parametrize(
    ("dangerous", "shown"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),  # ESC
        ("\x9b31m", "\\u009b31m"),  # CSI of C1
        ("a\r\nb\x07\x7f", "a\\x0d\\x0ab\\x07\\x7f"),
        ("abc\u202egnp.exe", "abc\\u202egnp.exe"),  # right-to-left override
        ("\u2066\u2069\u200f", "\\u2066\\u2069\\u200f"),
        ("a\u200bb\ufeff\u2060", "a\\u200bb\\ufeff\\u2060"),  # zero width
        ("\u2028\u2029\x85", "\\u2028\\u2029\\u0085"),  # line separators
        ("\udc80\ud83d", "\\udc80\\ud83d"),  # surrogates
        ("\U000e0041", "\\U000e0041"),  # tags
    ],
)
def test_characters_that_control_a_terminal_are_escaped(dangerous: str, shown: str) -> None:
    assert safe_text(dangerous) == shown


@pytest.mark.parametrize("text", ["", "weather.berlin", '{"a": [1, 2]}', "Grüße 你好 ✓ 🚀", "back\\slash"])
def test_usual_text_stays_unchanged(text: str) -> None:
    assert safe_text(text) == text


def test_no_character_of_the_forbidden_kinds_gets_through() -> None:
    assert is_safe(safe_text("".join(map(chr, range(0x110000)))))


@given(st.text(), st.integers(5, 60))
def test_a_name_in_quotes_is_safe_and_short(text: str, limit: int) -> None:
    shown = quoted(text, limit)
    assert is_safe(shown)
    assert len(shown) <= limit + 2


@given(st.binary(max_size=400), st.integers(0, 5), st.integers(8, 100))
def test_a_preview_is_safe_and_short(octets: bytes, missing: int, limit: int) -> None:
    shown = preview(octets, len(octets) + missing, limit)
    assert is_safe(shown)
    assert len(shown) <= limit + 1


@pytest.mark.parametrize(
    ("octets", "shown"),
    [
        (b"", '""'),
        (b"hello world", "hello world"),
        ('{"name":\n  "Grüße"}'.encode(), '{"name": "Grüße"}'),
        (b"\x82\xa4name\xa5alice\xa3age", "\\x82\\xa4name\\xa5alice\\xa3age"),
        (b"\x00\x01\x02\xff", "0x000102ff"),
    ],
)
def test_a_preview_shows_text_as_text_and_the_rest_as_digits(octets: bytes, shown: str) -> None:
    assert preview(octets, len(octets), 40) == shown


def test_a_preview_shows_that_more_follows() -> None:
    assert preview(b"abcdef", 6, 4) == "abc…"
    assert preview(b"abc", 6, 40) == "abc…"
    assert preview("aü".encode()[:2], 3, 40) == "a…"
    assert preview(bytes(100), 100, 11) == "0x00000000…"


def test_the_last_part_of_a_message_gets_most_of_the_line() -> None:
    shown = parts_preview([(b"i" * 100, 100), (b"", 0), (None, 9), (b"b" * 100, 100)], 60)
    first, empty, missing, last = shown.split(" | ")
    assert (empty, missing) == ('""', "not kept")
    assert len(first) < len(last)
    assert len(shown) <= 62


def test_a_message_of_a_thousand_parts_is_one_short_line() -> None:
    shown = parts_preview([(b"part", 4)] * 1000, 60)
    assert len(shown) < 70
    assert shown.endswith("…")


def test_names_of_fields_from_the_network_are_safe() -> None:
    """Keys of MessagePack name the fields below them."""
    octets = b"\x81\xa8\x1b[31m\xe2\x80\xae\x81\xa1\n\x07"
    (node,) = dissected(MessagePack, octets, trees=True).nodes[0]
    for line in tree_lines(Detail(0, octets, node, []), show_secrets=False):
        assert is_safe(line)
