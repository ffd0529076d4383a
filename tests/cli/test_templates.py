"""`-T fields` and `--format` on the command line."""

from __future__ import annotations

import pathlib

from tests.cli.running import Run
from tests.readings import CAPTURES, PUBSUB


def test_columns_of_messages(zmtpscope: Run) -> None:
    code, out, err = zmtpscope("read", PUBSUB, "-T", "fields", "-e", "topic", "-e", "size", "-Y", "kind == data")
    assert (code, err) == (0, "")
    lines = [line.split("\t") for line in out.splitlines()]
    assert len(lines) == 19  # the count of `top` for the same capture
    assert sorted({topic for topic, _ in lines}) == ["a.topic", "b.topic", "c.topic"]
    assert sum(int(size) for _, size in lines) == 284


def test_a_header_is_printed_once_and_first_even_without_lines(zmtpscope: Run) -> None:
    arguments = ["-T", "fields", "-E", "header=y", "-E", "separator=;", "-e", "topic", "-e", "size"]
    assert zmtpscope("read", PUBSUB, *arguments, "-Y", "topic == none")[1] == "topic;size\n"
    assert zmtpscope("read", PUBSUB, *arguments)[1].count("topic;size\n") == 1


def test_time_is_as_asked_for(zmtpscope: Run) -> None:
    for form, first in (("r", "0.271539"), ("e", "1795230534.333901"), ("u", "03:08:54.333901"), ("d", "0.000000")):
        _, out, _ = zmtpscope("read", PUBSUB, "-t", form, "-Y", "kind == data", "--format", "{time}\\t{topic}")
        assert out.splitlines()[0] == f"{first}\ta.topic"


def test_a_capture_that_is_written_is_shown_so_too(zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    arguments = ["-Y", "kind == data", "--format", "{topic}"]
    code, out, _ = zmtpscope("live", "-c", "40", PUBSUB, *arguments)
    assert (code, out) == (0, zmtpscope("read", "-c", "40", PUBSUB, *arguments)[1])
    assert out.startswith("a.topic\nb.topic\n")


def test_a_password_is_shown_on_request(zmtpscope: Run) -> None:
    capture = str(CAPTURES / "security/plain-wrong-password.pcap")
    arguments = ["read", capture, "--format", "{password}", "-Y", "password"]
    assert zmtpscope(*arguments)[1] == "***\n"
    assert zmtpscope(*arguments, "--show-secrets")[1] == "wrong\n"


def test_carets_mark_the_error(zmtpscope: Run) -> None:
    assert zmtpscope("read", PUBSUB, "--format", "{time} {topik}")[2].endswith("\n  {time} {topik}\n          ^^^^^\n")
