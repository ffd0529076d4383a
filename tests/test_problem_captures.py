"""The captures of problems, the scenarios that made them and the page that lists them agree."""

from __future__ import annotations

import json

import pytest

from captures.problems import scenarios
from captures.problems.scenario import SCENARIOS, Scenario
from tests.readings import CAPTURES

PROBLEMS = CAPTURES / "problems"
LARGEST = 100_000
"""Octets of a capture: each shows one problem, and has little else in it."""


def test_every_scenario_has_its_capture_and_nothing_else_is_there() -> None:
    assert len(scenarios.ALL) > 5
    for suffix in (".pcap", ".truth.json"):
        assert {path.name.removesuffix(suffix) for path in PROBLEMS.glob(f"*{suffix}")} == set(SCENARIOS)
    assert [path.name for path in PROBLEMS.glob("*.pcap") if path.stat().st_size > LARGEST] == []


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=lambda scenario: scenario.name)
def test_truth_files_match_their_scenarios(scenario: Scenario) -> None:
    truth = json.loads((PROBLEMS / f"{scenario.name}.truth.json").read_text())
    expected = (
        truth["what"],
        truth["outcome"],
        truth["diagnosis"],
        truth.get("near_miss_of"),
        truth.get("also_true", []),
    )
    actual = (scenario.what, scenario.outcome, scenario.diagnosis, scenario.near_miss_of, scenario.also_true)
    assert expected == actual
    assert {key: truth[key] for key in scenario.facts} == scenario.facts


def test_every_problem_has_a_near_miss_or_is_one() -> None:
    blamed = {each["rule"] for scenario in SCENARIOS.values() for each in scenario.diagnosis}
    nearly = {scenario.near_miss_of for scenario in SCENARIOS.values() if scenario.near_miss_of}
    assert blamed == nearly
    assert [name for name, each in SCENARIOS.items() if not each.diagnosis and not each.near_miss_of] == []
