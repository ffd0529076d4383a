"""Diagnoses while packets arrive, in bounded memory: a capture on interfaces has no end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnosis.reading import diagnoses
from zmtpscope.capture import open_captures
from zmtpscope.diagnosis import watch
from zmtpscope.diagnosis.derivation import Derivation
from zmtpscope.diagnosis.diagnosis import FAILING
from zmtpscope.diagnosis.watch import Watch
from zmtpscope.dissect import Analyser, Options


def test_ended_connections_above_the_limit_are_reported_in_a_line(
    captures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "MAX_ENDED", 4)
    watching = Watch()
    for batch in Analyser(Options()).run(open_captures([str(captures / "problems/login-refused.pcap")])):
        watching.feed(batch)
    (limits,) = (each for each in watching.news() if each.rule == "limits-reached")
    assert "connections left out, the oldest first" in limits.text
    assert not any(each.rule == "limits-reached" for each in watching.news())


def test_all_own_fields_of_the_record_of_an_ended_connection_are_remembered(captures: Path) -> None:
    derivation, records = Derivation(), []
    for batch in Analyser(Options()).run(open_captures([str(captures / "patterns/pubsub.pcap")])):
        derivation.feed(batch)
        records += [record.own for record in batch.records if record.type == "connection"]
    remembered = [each.values for each in derivation.ended.values()]
    assert [dict(values) for values in remembered if values is not None] == records
    assert records


REPORTED = "problems/reported"


@pytest.mark.parametrize(
    "name", ["mtu-black-hole.pcap", "unplugged-heartbeats-untold.pcapng", "rep-hangs-quiet.pcapng"]
)
def test_live_reports_what_check_reports_of_the_file_that_it_wrote(captures: Path, name: str) -> None:
    path = captures / REPORTED / name
    source, analyser, watching = open_captures([str(path)]), Analyser(Options(bodies="none")), Watch()
    analyser.begin(source.files)
    for block in source:
        for batch in analyser.feed(block):
            watching.feed(batch)
    for batch in analyser.tick(source.statistics.end_time()):
        watching.feed(batch)
    live = {(each.rule, each.statement) for each in watching.news(analyser.ongoing()) if each.severity in FAILING}
    of_file = {(each.diagnosis.rule, each.diagnosis.statement) for each in diagnoses(path)}
    assert live
    assert live <= of_file
