"""The summary of a run: sums with their units, and no trivial facts."""

from __future__ import annotations

import pathlib
from collections import Counter
from itertools import takewhile

import pytest

from tests.dissect.talks import connected
from tests.peer_octets import message
from tests.traffic import CLIENT, SERVER, Capture, Packet, records
from zmtpscope.capture import CaptureStatistics, open_captures
from zmtpscope.dissect import Analyser, Options
from zmtpscope.dissect.records import finding_endpoints
from zmtpscope.dissect.records.sink import Summary
from zmtpscope.export.summary import INDENT, statistics_lines, summary_lines

CAPTURES = pathlib.Path(__file__).parent.parent.parent / "captures"


def quiet(name: str, *, chat: bool = False) -> dict[str, str]:
    """Return the summary of captures/`name` from `read -q`: the text of each labelled line, and of each finding by
    its id."""
    lines = {}
    for line in quiet_lines(name, chat=chat):
        if " x " in line[:12]:
            count, _, severity, id_, text = line.split(maxsplit=4)
            lines[id_] = f"{count} {severity} {text}"
        else:
            lines[line[:16].rstrip()] = line[17:]
    return lines


def quiet_lines(*names: str, chat: bool = False) -> list[str]:
    """The lines of `read -q` about captures/`names`."""
    captures = open_captures([str(CAPTURES / name) for name in names])
    analyser = Analyser(Options(records=False))
    for _ in analyser.run(captures):
        pass
    problems, files = captures.problems, captures.files
    return [*summary_lines(analyser.summary, captures.statistics, problems, files=files, chat=chat)]


def rows_below(lines: list[str], id_: str) -> list[str]:
    at = next(number for number, line in enumerate(lines) if f" {id_} " in line) + 1
    return [line.strip() for line in takewhile(lambda line: line.startswith(INDENT), lines[at:])]


def settled_versions(*ends: tuple[bytes, int]) -> list[str]:
    """Return the lines of `read -q` below ZMTP-CONN-06, a finding for every connection: each of `ends` is the
    address of a client and its port."""
    packets: list[Packet] = []
    for number, (client, port) in enumerate(ends):
        talk = connected("PUSH", "PULL", ports=(40_000 + number, port), hosts=(client, SERVER))
        packets += talk.packets
    _, analyser = records(Capture(packets, 1), Options(records=False))
    lines = [*summary_lines(analyser.summary, CaptureStatistics(), [], chat=True)]
    return rows_below(lines, "ZMTP-CONN-06")


def test_a_finding_is_listed_with_the_severity_that_it_had() -> None:
    printed = quiet("security/gssapi.pcap")
    assert printed["findings"] == "note: 1, chat: 4 (--verbose lists all)"
    assert printed["ZMTP3X-CMD-01"].startswith("1 note ")


def test_normal_events_and_habits_are_listed_on_request() -> None:
    listed = {"security/curve-4.3.5.pcap": "CURVE-10", "patterns/pubsub.pcap": "ZMTP-CONN-06"}
    for name, id_ in listed.items():
        assert id_ not in quiet(name)
        assert id_ in quiet(name, chat=True)
        assert "(--verbose lists all)" in quiet(name)["findings"]
        assert "--verbose" not in quiet(name, chat=True)["findings"]


def test_findings_are_counted_from_the_worst_to_the_most_normal() -> None:
    assert quiet("security/plain-wrong-password.pcap", chat=True)["findings"] == "warn: 1, note: 1, chat: 5"


def test_a_finding_is_listed_with_what_to_do_in_that_case() -> None:
    assert "the other side was not listening yet" in quiet("unreachable/server-up-later.pcap")["ZMTP-CONN-14"]
    assert "its ZAP handler never answered" in quiet("security/plain-zap-handler-hangs.pcap")["PLAIN-08"]
    assert "no ZAP handler runs" in quiet("security/plain-no-zap-handler.pcap")["PLAIN-08"]


def test_different_hints_are_printed_once_for_each_endpoint() -> None:
    lines = quiet_lines("implementations/jupyter.pcap")
    (line,) = [line for line in lines if "ZMTP-CONN-14" in line]
    assert "->" not in line
    assert [row.partition(" -> ")[2].partition(":")[0] for row in rows_below(lines, "ZMTP-CONN-14")] == [
        "the other side was not listening yet; ZeroMQ retries until it is"
    ] * 5


def test_a_finding_is_listed_with_each_endpoint_and_its_first_packet() -> None:
    lines = quiet_lines("unreachable/host-silent.pcap")
    assert rows_below(lines, "ZMTP-CONN-15") == [
        "10.0.0.77:5555 from 10.0.0.2: packet 1",
        "10.0.0.77:5556 from 10.0.0.2: packet 2",
    ]
    assert rows_below(quiet_lines("security/plain-no-zap-handler.pcap"), "PLAIN-08") == [
        "10.0.0.1:5555 from 10.0.0.2: 3 times, first in packet 11"
    ]


def test_packets_of_several_files_are_named_with_their_file() -> None:
    lines = quiet_lines("security/plain-no-zap-handler.pcap", "security/plain-wrong-password.pcap")
    assert rows_below(lines, "PLAIN-04") == [
        "10.0.0.1:5555 from 10.0.0.2: 4 times, first in packet plain-no-zap-handler.pcap:10",
        "127.0.0.1:5700 from 127.0.0.1: packet plain-wrong-password.pcap:10",
    ]


def test_endpoints_with_the_most_findings_come_first_and_the_others_are_counted() -> None:
    assert settled_versions(*[(CLIENT, 5000 + number % 7) for number in range(8)]) == [
        "10.0.0.1:5000 from 10.0.0.2: 2 times, first in packet 5",
        *[f"10.0.0.1:500{number} from 10.0.0.2: packet {5 + 5 * number}" for number in range(1, 5)],
        "and 2 more endpoints",
    ]


def test_several_clients_of_an_endpoint_are_counted() -> None:
    (row,) = settled_versions(*[(bytes([10, 0, 1, number]), 5555) for number in (1, 2, 2, 3)])
    assert row == "10.0.0.1:5555 from 3 clients: 4 times, first in packet 5"


def test_that_limits_were_exceeded_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding_endpoints, "MAX_ENDPOINTS", 6)
    monkeypatch.setattr(finding_endpoints, "MAX_CLIENTS", 2)
    rows = settled_versions(*[(bytes([10, 0, 1, 1 + number // 9]), 5000 + number % 9) for number in range(18)])
    assert rows[0] == "10.0.0.1:5000 from more than 1 client: 2 times, first in packet 5"
    assert rows[2] == "10.0.0.1:5002 from other clients: 2 times, first in packet 15"
    assert rows[-1] == "and more than 1 more endpoint"


def test_stalls_are_counted_and_summed_up() -> None:
    printed = quiet("problems/receiver-naps.pcap")
    assert printed["stalls"] == "7 stretches in which a receive window was closed, 1.3 s in all"
    assert printed["damage"] == "none"
    assert "stalls" not in quiet("problems/receiver-pauses.pcap")


def test_a_frame_under_way_where_the_capture_ends_is_no_damage() -> None:
    conversation = connected("PUSH", "PULL")
    conversation.send(0, message(b"whole") + message(b"cut")[:1])
    _, analyser = records(Capture(conversation.packets))
    assert analyser.summary.sums.unfinished == 1
    assert "damage           none" in summary_lines(analyser.summary, CaptureStatistics(), [])


def test_a_command_without_a_name_is_counted_in_words() -> None:
    assert quiet("security/gssapi.pcap")["commands"] == "INITIATE: 2, MESSAGE: 2, without a name: 1"


def test_words_of_equal_count_are_in_the_order_of_the_alphabet() -> None:
    summary = Summary(connections=4, versions=Counter({"3.1": 1, "2.0": 2, "1.0": 1}))
    lines = summary_lines(summary, CaptureStatistics(), [], lambda _, text: text)
    assert next(line for line in lines if line.startswith("versions")).split(maxsplit=1)[1] == "2.0: 2, 1.0: 1, 3.1: 1"


@pytest.mark.parametrize(
    ("name", "mechanisms"),
    [
        ("damage/midstream-3.0.pcap", "unknown: 1"),
        ("versions/dealerrouter-id-bind2.2.0-conn2.2.0.pcap", "none: 1"),
        ("versions/pubsub-bind3.2.5-conn4.3.5.pcap", "none: 1"),
        ("patterns/pubsub.pcap", "NULL: 2"),
    ],
)
def test_no_mechanism_differs_from_one_that_was_not_captured(name: str, mechanisms: str) -> None:
    assert quiet(name)["mechanisms"] == mechanisms


def test_an_unfinished_handshake_has_a_hint_for_more() -> None:
    assert quiet("security/curve-wrong-server-key.pcap")["handshakes"] == "incomplete: 5 (leave out -q to see where)"
    assert quiet("security/plain-wrong-password.pcap")["handshakes"] == "failed: 1 (leave out -q to see where)"
    assert quiet("patterns/pubsub.pcap")["handshakes"] == "complete: 2"


def test_connections_end_by_fin_by_rst_or_not_at_all() -> None:
    assert quiet("patterns/pubsub.pcap")["ended by"] == "FIN: 2"
    assert quiet("faults/garbage-client.pcap")["ended by"] == "RST: 3"
    assert quiet("damage/holes.pcap")["ended by"] == "FIN: 1"
    assert quiet("damage/one-direction.pcap")["ended by"] == "nothing yet: 2"


def test_an_empty_capture_is_described_in_words() -> None:
    assert list(summary_lines(Summary(), CaptureStatistics(), [])) == [
        "packets          0 (0 octets)",
        "connections      0 ZMTP",
        "damage           none",
        "findings         none",
    ]


def test_fragments_that_were_never_whole_are_reported_beside_the_sums() -> None:
    statistics = CaptureStatistics()
    assert not any(line.startswith("fragments") for line in statistics_lines(Summary(), statistics))
    statistics.fragments_given_up = 3
    printed = [line for line in statistics_lines(Summary(), statistics) if line.startswith("fragments")]
    assert printed == ["fragments        3 datagrams were incomplete"]
