"""A clock that goes back accuses no peer: the order of packets decides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.diagnosis.requesting_traffic import MS, Asker, diagnosed
from tests.traffic import Capture, Packet, records, together
from zmtpscope.capture import open_captures
from zmtpscope.diagnosis.derivation import Derivation, derived_records
from zmtpscope.dissect import Analyser, Batch, Options, Record

REPORTED = Path(__file__).parents[2] / "captures/problems/reported"


def test_one_finding_reports_where_the_clock_went_back() -> None:
    (finding,) = [
        record.values
        for batch in read(REPORTED / "clock-back.pcap")
        for record in batch.records
        if record.values.get("id") == "CAPTURE-03"
    ]
    assert (finding["packet"], finding["count"], finding["conn"]) == (111, 1, None)
    assert finding["text"] == "The clock of the capture went back: packet 111 is stamped 3600.0 s before an earlier one"


def read(path: Path) -> Iterator[Batch]:
    return Analyser(Options()).run(open_captures([str(path)]))


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_clock_that_is_set_forward_makes_no_reply_slow(goes_on: bool) -> None:
    """Packets of another connection meanwhile prove that the time has passed."""
    asker, other = Asker(), Asker(host=3, at=1)
    for number in range(8):
        asker.ask(b"work")
        asker.pause(3_600_000 if number == 5 else 10)
        asker.answer(b"done")
        other.ask(b"work")
        other.answer(b"done")
        other.pause(500_000 if goes_on else 10)
    if not goes_on:
        other.pause(3_600_000)
    other.ask(b"work")
    other.answer(b"done")
    assert bool(diagnosed(asker, other, rule="slow-reply")) == goes_on


def requests_and_replies() -> list[Packet]:
    askers = [Asker(host=host, at=host) for host in (2, 3)]
    for asker in askers * 3:
        asker.ask(b"ask")
        asker.pause(200)
        asker.answer(b"reply")
        asker.pause(300)
    for asker in askers:
        asker.close()
    return together(*askers)


PACKETS = requests_and_replies()
ERRORS = st.lists(st.sampled_from([0, 0, 0, -1, -400, 300]), min_size=len(PACKETS), max_size=len(PACKETS))


@given(ERRORS, st.integers(1, 40))
def test_no_duration_is_negative_and_blocks_do_not_matter(errors: list[int], size: int) -> None:
    """The clock is wrong by so many milliseconds at each packet."""
    packets = [replace(packet, time=packet.time + error * MS) for packet, error in zip(PACKETS, errors, strict=True)]
    whole = records(Capture(packets))[0]
    assert records(Capture(packets, size))[0] == whole
    for connection in [values for values in whole if values["record"] == "connection"]:
        times = [values["ts_ns"] for values in whole if values["record"] == "message" and _is_of(values, connection)]
        assert [connection["start_ns"], *times, connection["closed_ns"]] == sorted(
            [connection["start_ns"], *times, connection["closed_ns"]]
        )
    for request in requests_of(packets):
        assert request["outcome"] == "answered"
        assert request["latency_ns"] >= 0


def _is_of(values: dict[str, Any], connection: dict[str, Any]) -> bool:
    return bool(values["conn"] == connection["conn"])


def requests_of(packets: list[Packet]) -> list[dict[str, Any]]:
    derivation, found = Derivation(), list[Record]()
    for batch in Analyser(Options()).run(Capture(packets)):
        found += derived_records(derivation.feed(batch))
    return [record.values for record in found if record.type == "request"]
