"""Nobody there, not any more, or not yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.meaning.telling import told


@pytest.mark.parametrize(
    ("name", "rule", "words"),
    [
        ("unreachable/server-down", "connection-refused", "Nobody listens at 10.0.0.1:5555: 10.0.0.2 tried 20 times"),
        ("problems/connection-refused", "connection-refused", "Nobody listens at 10.0.0.1:5599: 10.0.0.2 tried 14"),
        ("problems/connection-unanswered", "connection-unanswered", "Nothing answers at 10.0.0.1:5555"),
    ],
)
def test_nobody_is_there(captures: Path, name: str, rule: str, words: str) -> None:
    (diagnosis,) = told(captures / f"{name}.pcap").values()
    assert (diagnosis.rule, diagnosis.severity) == (rule, "error")
    assert diagnosis.text.startswith(words)


def test_who_came_later_is_a_note(captures: Path) -> None:
    (diagnosis,) = told(captures / "unreachable/server-up-later.pcap").values()
    assert (diagnosis.rule, diagnosis.severity) == ("listener-late", "note")
    assert "was there 1.32 s after 10.0.0.2 began to connect (8 attempts)" in diagnosis.text


def test_who_came_at_once_is_nothing_to_tell(captures: Path) -> None:
    assert told(captures / "problems/server-started-later.pcap") == {}
