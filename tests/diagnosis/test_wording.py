"""What people read of a diagnosis: short sentences, each once, and security only if nothing is wrong."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.diagnosis.reading import diagnoses
from zmtpscope.diagnosis.across.words import how_often, shown, topic_name
from zmtpscope.diagnosis.diagnosis import FAILING, Diagnosis, Evidence, Explained
from zmtpscope.diagnosis.moments import Moment
from zmtpscope.export.clock import Clock
from zmtpscope.export.diagnosis.report import flat, report_lines
from zmtpscope.records import SECOND

CAPTURES = Path(__file__).parents[2] / "captures"
PATHS = sorted(path for folder in ("problems", "security", "faults") for path in (CAPTURES / folder).glob("*.pcap"))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_sentence_has_two_lines_at_most(path: Path) -> None:
    for diagnosis in flat(diagnoses(path)):
        assert len(textwrap.wrap(diagnosis.statement, 114, break_on_hyphens=False)) <= 2


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_unencrypted_traffic_is_one_closing_line_and_only_if_nothing_is_wrong(path: Path) -> None:
    found = diagnoses(path)
    lines = list(report_lines(found, Clock("r", lambda: 0)))
    closing = [number for number, line in enumerate(lines) if "[clear-text]" in line]
    if any(each.diagnosis.severity in FAILING for each in found):
        assert closing == []
    assert closing in ([], [len(lines) - 1])


def test_the_same_evidence_is_one_line_that_does_not_repeat_the_sentence() -> None:
    evidence = tuple(Evidence(Moment(number, None, number), "the TTL is 65.6 s") for number in (18, 44, 70))
    diagnosis = Diagnosis("violating-frame", "error", "x", "DEALER closes: the TTL is 65.6 s", "set it", evidence)
    lines = [line.strip() for line in report_lines([Explained(diagnosis)], Clock("e", lambda: 0))]
    assert lines[1:3] == ["-> set it", "0.000000 packet 18, 0.000000 packet 44, 0.000000 packet 70"]


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        (b"prices", '"prices"'),
        (b"prices\0", '"prices\0"'),
        (b"BIG" + b"\xbb" * 40, r'"BIG\xbb\xbb\xbb\xbb…"'),
        (bytes(40), '"\0\0\0\0…"'),
        (b"a" * 41, '"' + "a" * 40 + '…"'),
        ("Zürich".encode(), '"Zürich"'),
        (b"", '"" (everything)'),
        (None, "an unknown topic"),
    ],
)
def test_of_a_binary_topic_the_beginning_is_shown(topic: bytes | None, name: str) -> None:
    assert topic_name(topic) == name


@pytest.mark.parametrize(
    ("times", "count", "last", "text"),
    [
        ((1, 2, 3, 4), 4, 0, "4 times in 3 s, every 1 s"),
        ((1, 2), 30, 11, "30 times in 10 s"),
        ((1,), 1, 1, "once"),
    ],
)
def test_events_that_are_only_counted_have_a_last_time(
    times: tuple[int, ...], count: int, last: int, text: str
) -> None:
    assert how_often([SECOND * time for time in times], count, SECOND * last) == text


def test_backslashes_of_a_name_are_not_taken_for_octets() -> None:
    assert shown(r"C:\\x41\\x42\\x43\\x44\\x45\\x46") == r"C:\\x41\\x42\\x43\\x44\\x45\\x46"
