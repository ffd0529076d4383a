"""Lines of templates: columns contain fields, nothing moves the cursor, and the order is that of JSON lines."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.export.test_json_lines import mixed_batches
from tests.peer_octets import GREETING, message, ready
from tests.readings import CAPTURES
from tests.rows_by_hand import values_of
from tests.traffic import Capture, Conversation
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser, Batch, Options
from zmtpscope.export.clock import Clock
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.tables import FORMULA
from zmtpscope.filter.fields import CAPTURE_START, FIELDS
from zmtpscope.records import RECORDS, from_text
from zmtpscope.templates import Separators, Template, TemplateLines, of_fields, parse_separators, parse_template
from zmtpscope.templates.cells import Cells, shown_by

START = 1_700_000_000_000_000_000
ALL = sorted(FIELDS)
DEFAULT = Options()
SEPARATORS = [
    Separators(),
    Separators(separator=",", quote='"'),
    Separators(separator=" ", aggregator=";", occurrence="f", quote="'"),
    Separators(separator="1", occurrence="l"),
]


def lines_of(batch: Batch, template: Template, options: Options = DEFAULT, form: str = "e") -> list[str]:
    clock = Clock(form, lambda: START)
    return "".join(TemplateLines(template, clock, options, lambda: START).lines(batch)).splitlines(keepends=True)


def one_by_one(batch: Batch, template: Template, options: Options = DEFAULT, form: str = "e") -> list[str]:
    """Format record by record, from fields alone."""
    clock, found = Clock(form, lambda: START), []
    cells = [Cells(operand, shown_by(operand, clock), template.separators, moves=True) for operand in template.operands]
    for record in values_of(batch, options):
        if record["record"] in template.records:
            values = [cell.of_record({**record, CAPTURE_START: START}) for cell in cells]
            pieces = zip(template.texts, [*values, ""], strict=True)
            found.append("".join(piece for pair in pieces for piece in pair))
    return found


@given(mixed_batches(), st.lists(st.sampled_from(ALL), min_size=1, max_size=5), st.sampled_from(SEPARATORS))
def test_columns_show_what_records_do(batch: Batch, names: list[str], separators: Separators) -> None:
    template = of_fields(names, separators)
    assert lines_of(batch, template) == one_by_one(batch, template)


@pytest.mark.parametrize("name", ["patterns/pubsub", "patterns/reqrep", "security/curve", "implementations/jupyter"])
def test_columns_show_what_records_do_in_captures(name: str) -> None:
    (path,) = sorted(CAPTURES.glob(f"{name}*.pcap*"))[:1]
    options = Options(frames=True)
    captures = open_captures([str(path)])
    for batch in Analyser(options).run(captures):
        for separators in SEPARATORS:
            template = of_fields(ALL, separators)
            assert lines_of(batch, template, options) == one_by_one(batch, template, options)


@given(mixed_batches())
def test_time_from_the_line_above(batch: Batch) -> None:
    template = parse_template("{time} {offset} {time}")
    assert lines_of(batch, template, form="d") == one_by_one_d(batch)


def one_by_one_d(batch: Batch) -> list[str]:
    found, above = [], None
    for record in values_of(batch, Options()):
        if "offset" not in record:
            continue
        time = Clock("e", lambda: START)
        moved = record["ts_ns"] - (record["ts_ns"] if above is None else above)
        above = record["ts_ns"]
        shown = ("-" if moved < 0 else "") + time(abs(moved))
        found.append(f"{shown} {'' if record['offset'] is None else record['offset']} {shown}\n")
    return found


def published(*topics: bytes) -> Batch:
    talk = Conversation()
    for side, name in ((1, "PUB"), (0, "SUB")):
        talk.send(side, GREETING + ready(name))
    for topic in topics:
        talk.send(1, message(topic, b"body"))
    batches = list(Analyser(Options()).run(Capture(talk.packets)))
    return Batch(batches[0].files, messages=[run for batch in batches for run in batch.messages])


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=5), st.sampled_from(SEPARATORS[:2]))
@example([b"\xc2\x80"], SEPARATORS[0])  # a control character of C1 is no octet 80
def test_nothing_of_a_topic_ends_a_line_or_column_and_its_octets_can_be_had_back(
    topics: list[bytes], separators: Separators
) -> None:
    lines = lines_of(published(*topics), of_fields(["topic", "parts"], separators))
    assert len(lines) == len(topics)
    for line, topic in zip(lines, topics, strict=True):
        shown = line.removesuffix("\n").removesuffix(f"{separators.separator}{separators.quoted('2')}")
        assert "\t" not in shown
        assert safe_text(shown) == shown
        if not separators.quote:
            escaped = re.sub(r"\\[uU]([0-9a-f]{8}|[0-9a-f]{4})", lambda match: chr(int(match[1], 16)), shown)
            assert from_text(escaped) == topic


def test_an_escape_in_a_topic_stays_one() -> None:
    topic = b"\x1b]0;x\x07\\x1b\tend"
    (line,) = lines_of(published(topic), parse_template("{topic}|{bodies}|{zmtp.data}"))
    shown = r"\x1b]0;x\x07\\x1b\x09end"
    assert line == f"{shown}|{shown},body|{topic.hex()},{b'body'.hex()}\n"


def test_a_topic_of_a_megabyte_is_a_line() -> None:
    (line,) = lines_of(published(b"x" * (1 << 20)), parse_template("{sizes} {bodies[0][0:3]} {len(bodies)}"))
    assert line == "1048576,4 xxx 1048576,4\n"


WIRESHARK: list[tuple[str, dict[str, Any], str]] = [
    # the columns of tshark 4.4 for the same packets
    ("tcp.stream", {"conn": 2}, "1"),
    ("frame.time_epoch", {"ts_ns": 1795230534333901000}, "1795230534.333901000"),
    ("frame.time_relative", {"ts_ns": START + 271_539_000}, "0.271539000"),
    ("zmtp.length", {"sizes": [7, 9]}, "7,9"),
    ("zmtp.data", {"bodies": [b"late", None]}, "6c617465"),
    ("zmtp.data.text", {"bodies": [b"late"]}, "late"),
]


@pytest.mark.parametrize(("name", "values", "shown"), WIRESHARK)
def test_names_of_wireshark_show_what_tshark_does(name: str, values: dict[str, Any], shown: str) -> None:
    template = of_fields([name], Separators())
    cells = Cells(
        template.operands[0], shown_by(template.operands[0], Clock("r", lambda: START)), Separators(), moves=False
    )
    assert cells.of_record({"record": "message", "ts_ns": START, CAPTURE_START: START, **values}) == shown


def test_other_values() -> None:
    shown = {
        "ttl_ms": ("command", {"ttl_ms": 2500}, "2500"),
        "zmtp.ping.ttl": ("command", {"ttl_ms": 2550}, "25.5"),
        "zmtp.flags": ("frame", {"flags": 4}, "0x04"),
        "complete": ("message", {"complete": False}, "false"),
        "frame.time": ("gap", {"ts_ns": START + 5}, "2023-11-14T22:13:20.000000005Z"),
        "payload.fields.a.b": ("message", {"payload": {"fields": {"a": [{"b": 1}, {"b": "x\ty"}]}}}, r"1,x\x09y"),
        "payload.fields": (
            "message",
            {"payload": {"fields": {"a": [1, None], "b": b"\xff"}}},
            '{"a":[1,null],"b":"/w=="}',
        ),
        "metadata.name": ("command", {"metadata": [{"name": "A", "value": ""}, {"name": "B", "value": ""}]}, "A,B"),
        "ip": ("gap", {"src_ip": "::1", "dst_ip": "::2"}, "::1,::2"),
        "ip.addr": ("gap", {"src_ip": "::1", "dst_ip": "::2"}, ""),
    }
    for name, (type_, values, expected) in shown.items():
        (operand,) = of_fields([name], Separators()).operands
        cells = Cells(operand, shown_by(operand, Clock("r", lambda: START)), Separators(), moves=False)
        assert (name, cells.of_record({"record": type_, "ts_ns": START, **values})) == (name, expected)


def test_which_records_have_a_line() -> None:
    with_topics = {"message", "command", "subscription", "topic", "delivery"}
    assert of_fields(["time", "topic"], Separators()).records == with_topics
    assert of_fields(["time", "ip"], Separators()).records == set(RECORDS)
    assert of_fields(["frame.number", "tcp.stream"], Separators()).records == set(RECORDS)
    assert of_fields(["topic", "severity"], Separators()).records == with_topics | {"finding", "diagnosis"}
    assert of_fields(["len(payload.fields.a)"], Separators()).records == {"message", "datagram"}


def test_separators() -> None:
    assert parse_separators([]) == Separators("\t", ",", "a", "", False)
    given = ["separator=,", "quote=d", "header=y", "occurrence=f", "aggregator=/s"]
    assert parse_separators(given) == Separators(",", " ", "f", '"', True)
    assert parse_separators(["separator=/t", "separator=/s"]).separator == " "
    for wrong in ("separator", "separator=", "separator=ab", "quote=x", "bom=y", "header=maybe"):
        with pytest.raises(ValueError, match=wrong):
            parse_separators([wrong])


@given(text=st.one_of(st.text(), st.from_regex(r"\s*[=+@'\-\uff1d].*")))
def test_no_text_in_double_quotes_is_a_formula(text: str) -> None:
    cell = Separators(quote='"').quoted(text)[1:-1]
    assert cell.lstrip()[:1] not in FORMULA or re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?", text)
    assert cell.replace('""', '"') in (text, f"'{text}")


@pytest.mark.parametrize("number", ["-5", "-0.25", "+3", "0"])
def test_numbers_in_double_quotes_are_numbers(number: str) -> None:
    assert Separators(quote='"').quoted(number) == f'"{number}"'


def test_quotes_and_separators_within_values() -> None:
    plain, quoted = Separators(separator=","), Separators(separator=",", quote='"')
    assert plain.written(['a,"b', "c"]) == r'a\,"b\,c'
    assert quoted.written(['a,"b', "c"]) == '"a,""b,c"'
    assert (plain.written([""]), quoted.written([""]), quoted.written([])) == ("", '""', None)


def test_records_between_rows_divide_them_where_times_are_from_the_line_above() -> None:
    (path,) = CAPTURES.glob("patterns/pubsub.pcap")
    for batch in Analyser(Options(frames=True)).run(open_captures([str(path)])):
        template = of_fields(["time", "topic", "bodies", "envelope", "payload.summary", "flags"], Separators())
        lines = [line.split("\t")[1:] for line in lines_of(batch, template, Options(frames=True), form="d")]
        assert lines == [line.split("\t")[1:] for line in one_by_one(batch, template, Options(frames=True))]
