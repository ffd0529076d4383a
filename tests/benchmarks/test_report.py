"""The figures of a report are medians of runs in turn."""

from __future__ import annotations

from typing import Any

from benchmarks.report import crowds, growth, hostile, page, payloads, ratios, sockets, verdict

OURS = [[1.0, 1.0, 5e7], [2.0, 2.0, 5e7], [1.0, 1.0, 6e7]]
THEIRS = [[4.0, 4.0, 1e8], [8.0, 8.0, 1e8], [30.0, 30.0, 1e8]]


def test_ratios_are_of_runs_side_by_side() -> None:
    assert ratios(THEIRS, OURS) == [4.0, 4.0, 30.0]


def test_a_single_run_is_compared_with_the_first_run() -> None:
    assert ratios(THEIRS[2:], OURS) == [30.0]


def test_a_target_is_judged_by_the_median() -> None:
    costs = {"count": OURS, "tshark count": THEIRS}
    assert verdict(costs, "count", "tshark count", 4.0) == "**4.0**"
    assert verdict(costs, "count", "tshark count", 5.0) == "4.0 (missed by 1.25 times)"
    assert verdict(costs, "count", "tshark json", 5.0) == "not measured"


def test_growth_is_the_dearest_point_by_the_first() -> None:
    assert growth([[1.0, 2.0], [3.0, 1.0], [2.0, 2.0]]) == [3.0, 1.0]


def test_a_page_has_what_was_measured_and_no_more() -> None:
    results: dict[str, Any] = {
        "date": "2000-01-01",
        "quick": True,
        "machine": {"Python": "3.11"},
        "flat": [
            {
                "what": "the file",
                "command": "count",
                "unit": "frame",
                "points": [
                    {"count": 1000, "costs": [1e-6, 1e-6], "peak": 4e7},
                    {"count": 5000, "costs": [2e-6, 2e-6], "peak": 5e7},
                ],
            }
        ],
    }
    text = page(results)
    assert "| the file | `zmtpscope read -q` | frame | 1,000: 1,000 ns, 40 MB; 5,000: 2,000 ns, 50 MB | 2.00" in text
    assert "missed" in text
    assert "## Memory" not in text


def test_looking_inside_is_compared_run_by_run() -> None:
    costs = {"count auto": [[2.0, 2.0, 5e7], [6.0, 6.0, 5e7]], "count off": [[1.0, 1.0, 5e7], [2.0, 2.0, 5e7]]}
    text = payloads({"small": {"messages": 1_000_000_000, "costs": costs}})
    assert "| small | `zmtpscope read -q` | 2.50 | 2 | 4.00 (2.00-6.00) | 1.50 (1.00-2.00) |" in text


def test_sockets_are_compared_with_pyzmq_of_the_same_round() -> None:
    rates = {"pyzmq to pyzmq": [100.0, 1000.0, 400.0], "cat push to pyzmq": [50.0, 250.0, 300.0]}
    assert "| cat push to pyzmq | 250 (50-300) | 0.50 |" in sockets(rates)


def test_an_attack_that_costs_more_than_linear_has_missed() -> None:
    def points(*seconds: float) -> dict[str, Any]:
        counts = (1000, 2000, 4000)
        costs = zip(counts, seconds, strict=True)
        return {
            "attack": "zeros",
            "points": [{"packets": count, "octets": 10 * count, "cpu": cpu, "peak": 5e7} for count, cpu in costs],
        }

    text = hostile([points(0.01, 0.02, 0.04), points(0.01, 0.04, 0.16), points(0.2, 0.4, 0.8)])
    linear, quadratic, dear = text.splitlines()[-3:]
    assert "| 10.0, 10.0, 10.0 | 1,000, 1,000, 1,000 | 1.00 | 50, 50, 50 |" in linear
    assert "| 4.00 (missed) |" in quadratic
    assert "| 200.0, 200.0, 200.0 (missed) |" in dear


def test_waits_among_a_crowd_are_reported_with_the_longest() -> None:
    found = {"crowd": "flood a PULL", "size": 1023, "messages": 3, "least": 0.01, "median": 0.02, "most": 5.0}
    text = crowds([found])
    assert "| flood a PULL | 1,023 | 3 | 0.01 | 0.02 | 5.00 |" in text
