"""TCP connections that were not established, and the client that is reported."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import Any

import pytest

from tests.dissect.talks import SECOND
from tests.dissect.workers import assert_is_one_run
from tests.peer_octets import hello
from tests.traffic import Capture, Conversation, Packet, records, steady_records
from zmtpscope.capture.segments import ACK, FIN, NO_HOST, PROHIBITED, RST, SYN, UNREACHABLE
from zmtpscope.dissect import Options
from zmtpscope.dissect.findings import attempts
from zmtpscope.export.describe import describe_finding

START = 1_700_000_000 * SECOND
CLIENT, SERVER = 0, 1
HOSTS = bytes([10, 0, 0, 2]), bytes([10, 0, 0, 1])


def attempt(number: int, *flags: tuple[int, int], at: float = 0, port: int = 5555, host: int = 2) -> list[Packet]:
    """The packets of one connection, (side, flags) each, a millisecond apart and never with a payload."""
    hosts = bytes([10, 0, host >> 8, host & 255]), bytes([10, 0, 0, 1])
    talk = Conversation(
        syn=False, ports=(20_000 + number % 40_000, port), start=START + int(at * SECOND) - 1_000_000, hosts=hosts
    )
    for side, flag in flags:
        talk.add(side, flag)
    return talk.packets


REFUSED = (CLIENT, SYN), (SERVER, RST | ACK)
UNANSWERED = ((CLIENT, SYN),)
HALF_OPEN = (CLIENT, SYN), (SERVER, SYN | ACK)


def later(packets: list[Packet]) -> list[Packet]:
    """Behind them, something else that makes the capture two seconds longer."""
    last = max(packet.time for packet in packets)
    return packets + attempt(39_999, *REFUSED, at=(last - START) / SECOND + 2, port=9999)


def findings_at(packets: list[Packet], port: int = 5555) -> list[dict[str, Any]]:
    """Return the findings about attempts at `port`, which are the same for all sizes of blocks."""
    packets = sorted(packets, key=lambda packet: packet.time)
    whole, analyser = records(Capture(packets))
    for size in (1, 2, 7):
        assert records(Capture(packets, size))[0] == whole
    assert_is_one_run(list(Capture(packets, 5)), 3, Options)
    _, counting = records(Capture(packets, 3), Options(records=False))
    assert counting.summary == analyser.summary
    return [
        each
        for each in whole
        if str(each.get("id")) in attempts.FINDING_BY_OUTCOME.values() and each["dst_port"] == port
    ]


def test_refusals_are_counted_by_client() -> None:
    packets = [packet for number in range(31) for packet in attempt(number, *REFUSED, at=number + number % 3 / 9)]
    (finding,) = findings_at(packets)
    assert (finding["id"], finding["severity"], finding["side"]) == ("ZMTP-CONN-14", "warn", None)
    assert finding["text"].endswith(": 10.0.0.2 tried 31 times in 30.0 s to reach 10.0.0.1:5555")
    assert (finding["count"], finding["packet"], finding["last_packet"]) == (31, 1, 61)
    assert (finding["conn"], finding["src_ip"], finding["dst_port"]) == (1, "10.0.0.2", 5555)
    assert (finding["duration_ns"], finding["syns"], finding["answer"]) == (30 * SECOND, 31, None)
    assert (finding["answered_by"], finding["was_connected"]) == (None, False)
    assert "31 times" in describe_finding(finding)
    assert "times more" not in describe_finding(finding)


@pytest.mark.parametrize(
    ("waits", "severity"),
    [
        pytest.param([0.12, 0.17], "warn", id="libzmq, as it is unless told otherwise"),
        pytest.param([0.61, 0.52, 0.93, 0.77], "warn", id="libzmq with an interval of 500 ms"),
        pytest.param([0.01, 0.15, 0.08, 0.02, 0.11, 0.14, 0.05, 0.13, 0.03, 0.1], "warn", id="several on one host"),
        pytest.param([1.04, 1.037, 1.042, 1.043, 1.052], "note", id="a loop with curl"),
        pytest.param([1.0, 1.6, 2.6, 4.1, 6.5], "note", id="a program that waits longer each time"),
        pytest.param([0.5, 0.7], "note", id="too few to tell"),
    ],
)
def test_a_refusal_is_a_warning_if_the_client_tries_again_as_zeromq_does(waits: list[float], severity: str) -> None:
    starts = [0.0, *accumulate(waits)]
    packets = [packet for number, at in enumerate(starts) for packet in attempt(number, *REFUSED, at=at)]
    (finding,) = findings_at(packets)
    assert (finding["id"], finding["severity"]) == ("ZMTP-CONN-14", severity)


OUTCOMES = [
    ("refused", REFUSED, "ZMTP-CONN-14"),
    ("not answered", UNANSWERED, "ZMTP-CONN-15"),
    ("never completed", HALF_OPEN, "ZMTP-CONN-16"),
    ("never completed", (*HALF_OPEN, (CLIENT, RST)), "ZMTP-CONN-16"),
    ("refused", ((CLIENT, SYN), (SERVER, ACK), (CLIENT, RST)), "ZMTP-CONN-14"),
    ("not answered", (*UNANSWERED, (CLIENT, RST)), "ZMTP-CONN-15"),
]


@pytest.mark.parametrize(("reason", "id_"), [(PROHIBITED, "ZMTP-CONN-20"), (NO_HOST, "ZMTP-CONN-21")])
def test_an_icmp_error_shows_why_nothing_answers(reason: int, id_: str) -> None:
    syn, error = attempt(0, (CLIENT, SYN), (SERVER, RST))
    (finding,) = findings_at(later([syn, replace(error, flags=UNREACHABLE, acknowledgment=reason)]))
    assert (finding["id"], finding["count"]) == (id_, 1)


def test_an_icmp_error_of_no_connection_opens_none() -> None:
    (error,) = attempt(0, (SERVER, RST))
    assert findings_at(later([replace(error, flags=UNREACHABLE, acknowledgment=NO_HOST)])) == []


@pytest.mark.parametrize(("outcome", "flags", "id_"), OUTCOMES)
def test_the_outcome_of_an_attempt(outcome: str, flags: tuple[tuple[int, int], ...], id_: str) -> None:
    packets = later(attempt(0, *flags))
    (finding,) = findings_at(packets)
    assert (finding["id"], finding["severity"], finding["count"]) == (id_, "note", 1)
    assert finding["text"].endswith("10.0.0.2 tried once to reach 10.0.0.1:5555")
    _, analyser = records(Capture(packets))
    assert analyser.summary.other_tcp == 0
    assert analyser.summary.attempts[outcome] == 1 + (outcome == "refused")


def test_a_syn_that_is_sent_again_is_one_attempt() -> None:
    packets = attempt(0, (CLIENT, SYN))
    for seconds in (1, 3, 7):
        packets += attempt(0, (CLIENT, SYN), at=seconds)
    (finding,) = findings_at(packets)
    assert finding["text"].endswith("10.0.0.2 tried once (4 SYNs) in 7.0 s to reach 10.0.0.1:5555")
    assert (finding["severity"], finding["count"], finding["last_packet"]) == ("warn", 1, 4)


def test_an_attempt_without_time_for_an_answer_is_not_reported() -> None:
    packets = attempt(0, *UNANSWERED)
    assert findings_at(packets) == []
    assert records(Capture(packets))[1].summary.attempts == {"under way": 1}


def test_a_connection_without_data_is_other_tcp() -> None:
    packets = attempt(0, *HALF_OPEN, (CLIENT, ACK)) + attempt(1, (SERVER, SYN | ACK), (CLIENT, ACK), at=1)
    assert findings_at(packets) == []
    _, analyser = records(Capture(packets))
    assert (analyser.summary.other_tcp, analyser.summary.attempts) == (2, {})


@pytest.mark.parametrize("first", [REFUSED, UNANSWERED])
def test_a_client_that_gets_in_later(first: tuple[tuple[int, int], ...]) -> None:
    talk = Conversation(start=START + 3 * SECOND)
    for side in (0, 1):
        talk.send(side, hello("PAIR"))
    talk.close()
    packets = attempt(0, *first) + attempt(1, *first, at=1)
    (finding,) = findings_at(packets + talk.packets)
    assert finding["severity"] == "note"
    assert finding["text"].endswith("10.0.0.2 tried 2 times in 1.0 s to reach 10.0.0.1:5555; it connected 2.0 s later")
    behind = [replaced for number in (2, 3) for replaced in attempt(number, *first, at=3 + number)]
    (finding,) = findings_at(later(talk.packets + behind))
    assert finding["severity"] == "note"
    assert finding["text"].endswith("10.0.0.1:5555; it was connected before")


@pytest.mark.parametrize("opener", [CLIENT, SERVER], ids=["the client closes first", "the server closes first"])
def test_a_connection_that_only_ends_in_the_capture_was_a_connection(opener: int) -> None:
    """The start was not captured, so which side is the client is unknown."""
    packets = attempt(0, (opener, FIN | ACK), (1 - opener, FIN | ACK), (opener, ACK))
    packets += [packet for number in range(1, 9) for packet in attempt(number, *REFUSED, at=number / 10)]
    (finding,) = findings_at(later(packets))
    assert finding["severity"] == "note"
    assert finding["text"].endswith("; it was connected before")


def test_a_client_that_connects_during_another_attempt() -> None:
    """The reported times never decrease."""
    packets = attempt(1, *HALF_OPEN, (CLIENT, ACK), at=5)
    for seconds in (0, 1, 3, 7):
        packets += attempt(0, *UNANSWERED, at=seconds)
    (finding,) = findings_at(later(packets))
    assert finding["severity"] == "note"
    assert finding["text"].endswith("tried once (4 SYNs) in 7.0 s to reach 10.0.0.1:5555; it connected meanwhile")


def test_times_that_run_backwards_are_no_time() -> None:
    packets = [*attempt(0, *UNANSWERED, at=5), *attempt(0, *UNANSWERED), *attempt(1, *HALF_OPEN, (CLIENT, ACK), at=-1)]
    found = records(Capture([*packets, *attempt(2, *REFUSED, at=9, port=9999)]))[0]
    (finding,) = [each for each in found if each.get("id") == "ZMTP-CONN-15"]
    assert finding["text"].endswith("tried once (2 SYNs) in 0.0 s to reach 10.0.0.1:5555; it was connected before")


def test_a_scan_costs_no_more_than_its_most_eager_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "MAX_PAIRS", 30)
    packets = [packet for number in range(200) for packet in attempt(number, *REFUSED, at=number / 10, host=number + 3)]
    for number in range(300, 310):
        packets += attempt(number, *REFUSED, at=(number - 300) * 2)
    found = findings_at(packets)
    assert len(found) == attempts.MAX_LISTED + 1
    (eager,) = [finding for finding in found if finding["src_ip"] == "10.0.0.2"]
    assert eager["count"] == 10
    assert sum(finding["count"] for finding in found) == 210
    (rest,) = [finding for finding in found if "other pairs" in finding["text"]]
    assert rest["text"].endswith(
        f": {rest['count']} more attempts by other pairs of hosts, the last from {rest['src_ip']}"
    )
    shown = [finding["packet"] for finding in found if finding is not rest]
    assert rest["packet"] == min({2 * number + 1 for number in range(200)} - set(shown))
    _, analyser = records(Capture(sorted(packets, key=lambda packet: packet.time), 1))
    assert analyser.comparison is not None
    assert len(analyser.comparison.attempts.tried) <= 30


def _connected(number: int, at: float, seconds: float) -> list[Packet]:
    talk = Conversation(ports=(20_000 + number, 5555), start=START + int(at * SECOND), hosts=HOSTS)
    for side in (0, 1):
        talk.send(side, hello("PAIR"))
    talk.wait(int(seconds * SECOND))
    talk.close()
    return talk.packets


@pytest.mark.parametrize("seconds", [1, 60], ids=["ends before the last attempts", "outlasts all"])
@pytest.mark.parametrize("flags", [REFUSED, UNANSWERED])
def test_attempts_before_a_connection_are_not_attempts_after_it(
    flags: tuple[tuple[int, int], ...], seconds: float
) -> None:
    """A client that starts before its server, and tries in vain when that has gone."""
    packets = [packet for number in range(3) for packet in attempt(number, *flags, at=number / 10)]
    packets += _connected(10, 0.5, seconds)
    packets += [packet for number in range(20, 60) for packet in attempt(number, *flags, at=2 + number / 10)]
    early, behind = findings_at(later(packets))
    if early["count"] > behind["count"]:
        early, behind = behind, early
    assert early["text"].endswith(": 10.0.0.2 tried 3 times in 0.2 s to reach 10.0.0.1:5555; it connected 0.3 s later")
    assert early["hint"] == attempts.LATER_HINT
    assert behind["text"].endswith(": 10.0.0.2 tried 40 times in 3.9 s to reach 10.0.0.1:5555; it was connected before")
    assert behind["hint"] == attempts.BEFORE_HINT
    assert behind["packet"] > early["last_packet"]


def test_the_next_connection_is_reported_not_the_last() -> None:
    packets = attempt(0, *REFUSED) + _connected(1, 0.2, 1) + _connected(2, 4, 1) + _connected(3, 9, 1)
    (finding,) = findings_at(later(packets))
    assert finding["text"].endswith("10.0.0.2 tried once to reach 10.0.0.1:5555; it connected 0.2 s later")


def test_a_server_that_was_started_again_leaves_two_groups() -> None:
    packets = attempt(0, *REFUSED) + _connected(1, 1, 1)
    packets += attempt(2, *REFUSED, at=3) + attempt(3, *REFUSED, at=3.5) + _connected(4, 4, 1)
    found = {finding["count"]: finding["text"].partition("; ")[2] for finding in findings_at(later(packets))}
    assert found == {1: "it connected 1.0 s later", 2: "it connected again 0.5 s later"}


def test_a_pair_with_many_stretches_costs_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "MAX_GROUPS", 4)
    packets = []
    for number in range(30):
        packets += attempt(2 * number, *REFUSED, at=number) + _connected(2 * number + 1, number + 0.2, 0.1)
    found = findings_at(later(packets))
    assert 1 <= len(found) <= 4
    assert sum(finding["count"] for finding in found) == 30


@pytest.mark.parametrize(("times", "severity"), [(12, "warn"), (9, "note")])
def test_a_peer_that_tries_for_long_to_get_back_is_a_warning(times: int, severity: str) -> None:
    packets = _connected(0, 0, 1)
    packets += [packet for number in range(times) for packet in attempt(10 + number, *REFUSED, at=2 + number)]
    (finding,) = findings_at(later(packets))
    assert finding["severity"] == severity
    assert finding["text"].endswith("it was connected before")


def _same_syn(number: int, *flags: tuple[int, int]) -> list[Packet]:
    """The SYN of one socket, sent three times, each with such an answer."""
    return [packet for at in (0, 1, 3) for packet in attempt(number, *flags, at=at)]


def _from(packets: list[Packet], host: int) -> list[Packet]:
    """The same packets, between the client and another host."""
    return [replace(packet, hosts=(packet.hosts[0], bytes([10, 0, 0, host]))) for packet in packets]


def test_a_syn_that_another_address_answers_names_it() -> None:
    answers = [packet for packet in _same_syn(0, *HALF_OPEN, (CLIENT, RST)) if packet.flags != SYN]
    (finding,) = findings_at(later(_same_syn(0, (CLIENT, SYN)) + _from(answers, 9)))
    assert (finding["id"], finding["severity"]) == ("ZMTP-CONN-15", "warn")
    assert finding["text"].endswith(
        "tried once (3 SYNs) in 3.0 s to reach 10.0.0.1:5555; 10.0.0.9:5555 answered instead"
    )
    assert (finding["count"], finding["syns"], finding["answered_by"]) == (1, 3, "10.0.0.9:5555")


def test_an_answer_to_another_socket_is_none_to_this_one() -> None:
    answers = [packet for packet in _same_syn(1, *HALF_OPEN, (CLIENT, RST)) if packet.flags != SYN]
    (finding,) = findings_at(later(_same_syn(0, (CLIENT, SYN)) + _from(answers, 9)))
    assert "instead" not in finding["text"]


def test_a_client_that_resets_the_answer_and_sends_its_syn_again_asked_another_address() -> None:
    (finding,) = findings_at(later(_same_syn(0, *HALF_OPEN, (CLIENT, RST))))
    assert (finding["id"], finding["severity"], finding["count"]) == ("ZMTP-CONN-16", "warn", 3)
    assert finding["text"].endswith("; the client reset the answers, and sent the same SYN again")
    assert finding["answer"] == "both"


@pytest.mark.parametrize(
    ("later_ns", "severity"), [(SECOND // 2, "warn"), (0, "note")], ids=["gave up", "health check"]
)
def test_a_client_that_resets_late_answers_of_many_attempts_has_given_up(later_ns: int, severity: str) -> None:
    tries = [attempt(number, *HALF_OPEN, (CLIENT, RST), at=0.6 * number) for number in range(12)]
    tries = [[syn, *(replace(each, time=each.time + later_ns) for each in answer)] for syn, *answer in tries]
    (finding,) = findings_at(later([packet for each in tries for packet in each]))
    assert (finding["id"], finding["severity"]) == ("ZMTP-CONN-16", severity)
    assert ("reset the answers" in finding["text"]) is (severity == "warn")
    assert finding["answer"] == ("reset" if severity == "warn" else None)
    assert "same SYN" not in finding["text"]


@pytest.mark.parametrize(("before", "is_late"), [((3, 2), True), ((1,), False)], ids=["for 3 s", "for 1 s"])
def test_a_connection_whose_first_syns_were_not_answered_opened_late(before: tuple[int, ...], is_late: bool) -> None:
    talk = Conversation(start=START)
    for side in (0, 1):
        talk.send(side, hello("PAIR"))
    talk.packets += [replace(talk.packets[0], time=talk.time + SECOND)]  # a copy that comes late changes nothing
    syn = talk.packets[0]
    packets = [replace(syn, time=syn.time - seconds * SECOND) for seconds in before] + talk.packets
    found = [each for each in steady_records(packets) if each.get("id") == "ZMTP-CONN-26"]
    assert bool(found) is is_late
    for each in found:
        assert (each["severity"], each["packet"], each["last_packet"]) == ("note", 1, 3)
        assert (each["duration_ns"], each["syns"], each["answer"]) == (3 * SECOND, 3, None)
        assert each["text"].endswith("sent again: the SYN was sent 3 times in 3.0 s to reach 10.0.0.1:5555")
