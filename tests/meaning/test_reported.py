"""Problems as users met them: the sentence that names the cause, and no other warning or error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.meaning.reading import diagnoses
from zmtpscope.export.diagnosis.words import FAILING

REPORTED = Path(__file__).parents[2] / "captures/problems/reported"

SENTENCES: dict[str, tuple[str, ...]] = {
    "quiet-hang-meshcat": (
        "error REP 127.0.0.1:6000 does not reply to REQ 127.0.0.1: the request in packet 75 waits for 15.1 s; "
        "17 before were answered, median 0.451 ms",
    ),
    "rep-hangs-quiet": (
        "error REP 127.0.0.1:5503 does not reply to REQ 127.0.0.1: the request in packet 23 waits for 12.4 s; "
        "3 before were answered, median 0.235 ms",
    ),
}
"""By capture: severity and sentence of each diagnosis; notes may be left out."""


def test_every_capture_has_its_sentences() -> None:
    assert {path.name.partition(".")[0] for path in REPORTED.glob("*.pcap*")} == set(SENTENCES)


@pytest.mark.parametrize("name", SENTENCES)
def test_the_cause_is_named_and_nothing_else_is_blamed(name: str) -> None:
    (path,) = REPORTED.glob(f"{name}.pcap*")
    found = [each for explained in diagnoses(path) for each in (explained.diagnosis, *explained.consequences)]
    sentences = {f"{each.severity} {each.statement}": each for each in found}
    assert set(SENTENCES[name]) <= sentences.keys()
    assert {text for text, each in sentences.items() if each.severity in FAILING} <= set(SENTENCES[name])
