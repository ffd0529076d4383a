"""`-Y` on the command line: shown, counted and written records, and errors in filters."""

from __future__ import annotations

import json
import pathlib

import pytest

from tests.cli.running import Run
from tests.readings import CAPTURES, PUBSUB


def lines(zmtpscope: Run, *arguments: str) -> list[str]:
    code, out, err = zmtpscope("read", *arguments, PUBSUB)
    assert (code, err) == (0, "")
    return out.splitlines(keepends=True)


def test_json_lines_are_the_ones_that_the_filter_matches(zmtpscope: Run) -> None:
    every = lines(zmtpscope, "--json", "--frames")
    for text, is_wanted in (
        ("type == message", lambda record: record["record"] == "message"),
        ("size == 11", lambda record: record.get("size") == 11 or sum(record.get("sizes") or []) == 11),
        ("conn == 2 and name", lambda record: record["conn"] == 2 and record.get("name")),
        ("topic == a.topic", lambda record: record.get("topic") == "a.topic"),
        ("not topic", lambda record: record.get("topic") is None),
    ):
        printed = lines(zmtpscope, "--json", "--frames", "-Y", text)
        assert printed == [line for line in every if is_wanted(json.loads(line))]
        assert printed


def test_lines_name_sides_that_only_messages_identify(zmtpscope: Run) -> None:
    printed = [line.split(None, 2)[2] for line in lines(zmtpscope, "-Y", "kind == data and conn == 1")]
    assert printed[0].startswith("c1  127.0.0.1:5630 > 127.0.0.1:49692  message 7+9 octets")
    assert printed[1].startswith("c1  PUB:5630 > SUB     message 7+9 octets")


def test_a_summary_counts_the_matching_records(zmtpscope: Run) -> None:
    assert "matching         8 commands\n" in lines(zmtpscope, "-q", "-Y", "type == command")
    assert "matching         nothing\n" in lines(zmtpscope, "-q", "-Y", "type == command and size > 1GiB")


def test_tables_have_the_rows_that_it_holds_of(zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    code, _, err = zmtpscope("export", PUBSUB, "-o", str(tmp_path / "out"), "-Y", "topic == a.topic")
    assert code == 0
    rows = [json.loads(line) for line in (tmp_path / "out/messages.jsonl").read_text().splitlines()]
    assert [row["topic"] for row in rows] == ["a.topic"] * len(rows)
    assert f"messages.jsonl {len(rows)}" in err
    assert (tmp_path / "out/greetings.jsonl").read_text() == ""


def test_an_error_in_a_filter_is_marked_below_it(zmtpscope: Run) -> None:
    code, out, err = zmtpscope("read", "-Y", "topik == 3", PUBSUB)
    assert (code, out) == (2, "")
    assert err == (
        "zmtpscope read: -Y: no field named topik; did you mean topic? (see zmtpscope read --help)\n"
        "  topik == 3\n"
        "  ^^^^^\n"
    )


def test_a_password_that_is_not_shown_is_not_compared_either(zmtpscope: Run) -> None:
    capture = str(CAPTURES / "security/plain-wrong-password.pcap")
    for text, shown, count in (("wrong", False, 0), ("***", False, 1), ("wrong", True, 1)):
        secrets = ["--show-secrets"] if shown else []
        code, out, _ = zmtpscope("read", "--json", *secrets, "-Y", f'password == "{text}"', capture)
        assert (code, out.count("\n")) == (0, count)


@pytest.mark.parametrize(
    "arguments",
    [
        ["-Y", "record == frame"],
        ["-Y", "zmtp.flags.more"],
        ["-Y", "record == frame and size > 3"],
        ["-Y", "not port == 1 and more == false"],
        ["-T", "fields", "-e", "zmtp.flags.more"],
    ],
)
def test_a_filter_for_frames_that_were_not_requested_is_reported(zmtpscope: Run, arguments: list[str]) -> None:
    sentence = "zmtpscope: only frames have these fields: add --frames\n"
    assert zmtpscope("read", PUBSUB, *arguments) == (0, "", sentence)
    code, output, errors = zmtpscope("read", PUBSUB, "--frames", *arguments)
    assert (code, bool(output), errors) == (0, True, "")


@pytest.mark.parametrize("filter", ["record == frame or record == greeting", "not more", "size", "record != frame"])
def test_filters_that_fit_other_records_are_no_matter(zmtpscope: Run, filter: str) -> None:
    assert zmtpscope("read", PUBSUB, "-Y", filter)[2] == ""
