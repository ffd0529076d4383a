"""`zmtpscope check`: diagnoses for people and programs; `live -q` prints them as they arise."""

from __future__ import annotations

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.readings import run
from zmtpscope.capture import open_captures
from zmtpscope.diagnosis.rules.catalogue import RULES
from zmtpscope.diagnosis.watch import Watch
from zmtpscope.dissect import Analyser, Options

LOGIN = "security/plain-refused-4.3.5.pcap"
PUSH_BLOCKED = "problems/push-blocked.pcap"
CLEAN = "patterns/push-pull.pcap"


def check(*arguments: str) -> tuple[int, str, str]:
    done = run("check", *arguments)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_the_cause_comes_with_its_packet_and_with_what_to_do(captures: Path) -> None:
    code, out, _ = check(str(captures / LOGIN))
    assert code == 0
    assert out.startswith("error 10.77.0.1:5570 refuses 10.77.0.2: 400, the login of the user")
    assert "0.004814 packet 12\n" in out
    assert "-> check user name and password at the client" in out
    assert out.splitlines()[-1] == "1 diagnosis: 1 error"


@pytest.mark.parametrize(("arguments", "expected"), [((), 0), (("--fail-on", "error"), 4), (("--fail-on", "warn"), 4)])
def test_scripts_can_fail_on_what_was_found(captures: Path, arguments: tuple[str, ...], expected: int) -> None:
    assert check(*arguments, str(captures / LOGIN))[0] == expected


def test_only_selected_rules_are_evaluated(captures: Path) -> None:
    code, out, _ = check("--rule", "connection-refused", "--fail-on", "warn", str(captures / LOGIN))
    assert (code, out) == (0, "no problem found\n")


def test_a_rule_that_is_not_there_is_named_with_one_that_is() -> None:
    code, _, err = check("--rule", "login-refusd", "x.pcap")
    assert code == 2
    assert "login-refused" in err


def test_every_rule_is_explained() -> None:
    code, out, _ = check("--explain", "all")
    assert code == 0
    assert [line.split()[1].rstrip(":") for line in out.splitlines() if not line.startswith(" ")] == [*RULES]


def test_machines_read_the_report(captures: Path, tmp_path: Path) -> None:
    junit, sarif = tmp_path / "junit.xml", tmp_path / "report.sarif"
    assert check("--junit", str(junit), "--sarif", str(sarif), str(captures / LOGIN))[0] == 0
    suite = ElementTree.parse(junit).getroot()
    assert suite.get("failures") == "1"
    assert {case.get("name", "").partition(":")[0] for case in suite} == set(RULES)
    (run_of_sarif,) = json.loads(sarif.read_text())["runs"]
    (result,) = run_of_sarif["results"]
    assert (result["ruleId"], result["level"]) == ("login-refused", "error")
    assert result["locations"][0]["logicalLocations"] == [{"name": "packet 12", "kind": "packet"}]
    assert {rule["id"] for rule in run_of_sarif["tool"]["driver"]["rules"]} == set(RULES)


def test_evidence_without_a_packet_names_none(captures: Path, tmp_path: Path) -> None:
    paths = tmp_path / "report.xml", tmp_path / "report.sarif"
    check("--junit", str(paths[0]), "--sarif", str(paths[1]), str(captures / "problems/peer-departed.pcap"))
    for path in paths:
        report = path.read_text()
        assert "FIN of " in report
        assert "packet None" not in report


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_topic_that_is_no_utf_8_may_be_asked_for(captures: Path, form: tuple[str, ...]) -> None:
    code, _, error = check("--why", os.fsdecode(b"\xff@10.0.0.2"), *form, str(captures / "patterns/pubsub.pcap"))
    assert (code, "Traceback" in error) == (0, False)


def test_a_cause_is_reported_once_while_it_lasts(captures: Path) -> None:
    watch, printed = Watch(), []
    for batch in Analyser(Options(bodies="none")).run(open_captures([str(captures / LOGIN)], block_size=64)):
        watch.feed(batch)
        printed += [each.rule for each in watch.news()]
    assert printed == ["clear-text", "login-refused"]


def test_a_blocked_peer_is_reported_while_it_is_blocked(captures: Path) -> None:
    watch, printed = Watch(), []
    analyser, source = Analyser(Options(bodies="none")), open_captures([str(captures / PUSH_BLOCKED)], block_size=64)
    analyser.begin(source.files)
    for block in source:
        for batch in analyser.feed(block):
            watch.feed(batch)
        printed += watch.news(analyser.ongoing())
    assert [(each.rule, each.severity) for each in printed if each.rule != "clear-text"] == [
        ("slow-receiver", "note"),
        ("push-blocked", "warn"),
    ]
    blocked = printed[-1]
    assert "it is still closed" in blocked.text
    for batch in analyser.finish():
        watch.feed(batch)
    assert watch.news() == []
