"""Problems of users, made with real sockets: the cause is named, and nothing else is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.diagnosis.reading import diagnoses
from zmtpscope.diagnosis.diagnosis import FAILING
from zmtpscope.diagnosis.rules.catalogue import RULES

PROBLEMS = Path(__file__).parents[2] / "captures/problems"
TRUTHS = sorted(PROBLEMS.glob("*.truth.json"))


@pytest.mark.parametrize("path", TRUTHS, ids=lambda path: path.name.removesuffix(".truth.json"))
def test_the_cause_is_reported_and_nothing_else_is(path: Path) -> None:
    truth = json.loads(path.read_text())
    expected = truth["diagnosis"]
    if any(each["rule"] not in RULES for each in expected):
        pytest.skip("nobody looks for it yet")
    found = [explained.diagnosis for explained in diagnoses(path.with_name(path.name.replace(".truth.json", ".pcap")))]
    reported = {each.rule for each in found if each.severity in FAILING}
    named = {each["rule"] for each in expected}
    allowed = {*named, *truth.get("also_true", ())}
    assert reported <= allowed or not allowed <= RULES.keys(), [each.text for each in found if each.rule not in named]
    for each in expected:
        texts = [diagnosis.text for diagnosis in found if diagnosis.rule == each["rule"]]
        assert texts, f"{each['rule']} is not told"
        assert any(each["blames"].partition(":")[0] in text for text in texts), texts
