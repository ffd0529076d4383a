"""The schema that every output loops over, and the table of findings."""

from __future__ import annotations

import os
import pathlib
import re

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zmtpscope.findings import FINDINGS, SEVERITIES
from zmtpscope.record_fields import COMMON, STREAM
from zmtpscope.records import RECORDS, empty, from_text, to_text

HERE = pathlib.Path(__file__).parent
CONFORMANCE = HERE.parent / "docs" / "protocol" / "conformance.md"
TYPES = re.compile(r"(list<)?(int|bool|text|octets|json|struct<[a-z_]+:\w+(,[a-z_]+:\w+)*>)>?")


@given(st.binary() | st.text().map(str.encode))
def test_text_gives_back_the_octets_it_was_made_of(octets: bytes) -> None:
    assert from_text(to_text(octets)) == octets


@given(st.binary())
def test_octets_may_be_typed(octets: bytes) -> None:
    """As an argument, in which the system may give what is no UTF-8; a backslash begins an escape."""
    assert from_text(os.fsdecode(octets.replace(b"\\", b""))) == octets.replace(b"\\", b"")


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\\")))
def test_text_is_what_people_wrote_where_it_is_valid(text: str) -> None:
    assert to_text(text.encode()) == text


def test_text_shows_other_octets_by_their_number() -> None:
    assert to_text(b"caf\xc3\xa9 \xff\x80 C:\\x41") == "café \\xff\\x80 C:\\\\x41"


def test_records_are_in_the_order_of_the_reference() -> None:
    assert list(RECORDS) == [
        "connection",
        "greeting",
        "command",
        "message",
        "frame",
        "datagram",
        "zre_pair",
        "gap",
        "stall",
        "retransmission",
        "leftover",
        "finding",
        "request",
        "subscription",
        "heartbeat",
        "peer",
        "topic",
        "delivery",
        "diagnosis",
    ]


@pytest.mark.parametrize("name", RECORDS)
def test_every_record_begins_with_what_all_have(name: str) -> None:
    fields = RECORDS[name].fields
    assert fields[: len(COMMON)] == COMMON
    has_stream = fields[len(COMMON) : len(COMMON) + len(STREAM)] == STREAM
    assert has_stream == (name not in ("connection", "zre_pair", "peer", "topic", "delivery", "diagnosis"))


@pytest.mark.parametrize("name", RECORDS)
def test_fields_have_one_name_a_known_type_and_a_meaning(name: str) -> None:
    fields = RECORDS[name].fields
    assert len({field.name for field in fields}) == len(fields)
    for field in fields:
        assert TYPES.fullmatch(field.type), field
        assert field.meaning
        assert not field.meaning.endswith("."), field


@pytest.mark.parametrize("name", RECORDS)
def test_an_empty_record_has_every_field_and_knows_nothing(name: str) -> None:
    assert list(empty(name)) == [field.name for field in RECORDS[name].fields]
    assert set(empty(name).values()) == {None}


def test_the_findings_are_the_checks_of_the_conformance_page() -> None:
    stated = re.findall(r"^\| ([A-Z0-9-]+-\d\d) \| (\w+) \|", CONFORMANCE.read_text(), re.MULTILINE)
    assert [(kind.id, kind.severity) for kind in FINDINGS.values()] == stated


def test_each_finding_is_expected_by_a_test() -> None:
    """Tests or vectors contain its id, or the id without the version."""
    tests = "".join(path.read_text() for path in HERE.rglob("*.py"))
    named = set(re.findall(r"[A-Z][A-Z0-9-]+-\d\d", tests))
    vectors = orjson.loads((HERE / "vectors.json").read_bytes())["vectors"]
    named |= {error["id"] for vector in vectors for error in vector["expect"].get("errors", ())}
    assert [id_ for id_ in FINDINGS if not named & {id_, re.sub(r"^ZMTP\w*-", "", id_)}] == []


@pytest.mark.parametrize("kind", FINDINGS.values(), ids=FINDINGS)
def test_a_finding_is_a_sentence_with_a_source(kind: tuple[str, str, str, str, str | None]) -> None:
    id_, severity, section, text, hint = kind
    assert FINDINGS[id_] == kind
    assert severity in SEVERITIES
    pages = "wire|curve|zre|records|limitations|payload-dissectors"
    assert re.match(rf"\d\d/[A-Z]|RFC \d|({pages})\.md, ", section), section
    assert text[0].isupper() or text.startswith("as-server")
    # details and the hint follow the sentence
    assert not text.endswith((".", ">"))
    assert hint is None or (hint and not hint.endswith("."))


def test_every_error_caused_by_a_setting_has_a_hint() -> None:
    settings = ("ZMTP3X-META-08", "ZMTP3X-GREETING-05", "ZMTP-DOWNGRADE-01", "ZMTP-CONN-05", "PLAIN-06", "ZMTP-SUB-07")
    assert all(FINDINGS[id_].hint for id_ in settings)
