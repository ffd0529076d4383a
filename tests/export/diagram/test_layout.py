"""Lifelines, arrows and all other parts of a diagram."""

from __future__ import annotations

import pytest

from tests.export.diagram.drawing import OPTIONS, arrows, as_text, of_file, of_traffic
from tests.peer_octets import GREETING, message, ready
from tests.traffic import Conversation
from zmtpscope.dissect import Batch, Record
from zmtpscope.export.diagram import layout as layout_module
from zmtpscope.export.diagram import sequence as sequence_module
from zmtpscope.export.diagram.layout import FOLD, PAUSE, REST
from zmtpscope.export.diagram.sequence import EventSequence
from zmtpscope.records import SECOND, empty

START = 1_700_000_000_000_000_000


def spoken(number: int = 0, *, types: tuple[str, str] = ("DEALER", "ROUTER"), identity: str = "") -> Conversation:
    """A connection of a client at a port of its own, up to the READY of both sides."""
    talk = Conversation(ports=(50_000 + number, 5555), start=START + number * SECOND // 10)
    talk.send(0, GREETING)
    talk.send(1, GREETING)
    talk.send(0, ready(types[0], *([("Identity", identity)] if identity else [])))
    talk.send(1, ready(types[1]))
    return talk


def test_a_connection_from_its_start_to_its_end() -> None:
    talk = spoken()
    talk.send(0, message(b"question"))
    talk.send(1, message(b"answer"))
    talk.close()
    diagram = of_traffic(talk)
    assert [line.about for line in diagram.lifelines] == [
        ["10.0.0.2:50000"],
        ["10.0.0.1:5555 bound"],
    ]
    assert arrows(diagram) == [
        ("DEALER", "ROUTER:5555", "TCP connect"),
        ("DEALER", "ROUTER:5555", "GREETING 3.1 NULL"),
        ("ROUTER:5555", "DEALER", "GREETING 3.1 NULL"),
        ("DEALER", "ROUTER:5555", "READY DEALER"),
        ("ROUTER:5555", "DEALER", "READY ROUTER"),
        ("DEALER", "ROUTER:5555", "message 8 octets"),
        ("ROUTER:5555", "DEALER", "message 6 octets"),
        ("DEALER", "ROUTER:5555", "FIN"),
    ]
    assert [row.content for row in diagram.rows][5:7] == ["question", "answer"]


def test_the_arrow_of_a_reset_begins_at_its_sender() -> None:
    talk = spoken()
    talk.reset(1)
    assert arrows(of_traffic(talk))[-1] == ("ROUTER:5555", "DEALER", "RST")


def test_reconnects_share_a_lifeline_and_simultaneous_clients_do_not() -> None:
    first, second, third = spoken(0), spoken(1), spoken(2)
    first.close()
    for talk in (second, third):
        talk.send(0, message(b"here"))
        talk.wait(SECOND)
        talk.close()
    again = of_traffic(first, second)
    assert [line.about[-1] for line in again.lifelines] == ["10.0.0.2:50000, :50001", "10.0.0.1:5555 bound"]
    together = of_traffic(second, third)
    assert sorted(line.name for line in together.lifelines) == ["DEALER 1", "DEALER 2", "ROUTER:5555"]


def test_an_identity_is_one_lifeline_but_not_twice_at_the_same_time() -> None:
    one, other = spoken(0, identity="twin"), spoken(1, identity="twin")
    assert len(of_traffic(one, other).lifelines) == 3
    one.close()
    other = spoken(20, identity="twin")
    assert [line.name for line in of_traffic(one, other).lifelines] == ['"twin"', "ROUTER:5555"]


def test_many_that_connect_become_one_lifeline() -> None:
    talks = [spoken(number) for number in range(14)]
    for talk in talks:
        talk.send(0, message(b"x"))
        talk.wait(2 * SECOND)
        talk.close()
    diagram = of_traffic(*talks)
    assert [(line.name, line.about) for line in diagram.lifelines] == [
        ("14 DEALER", ["on 10.0.0.2"]),
        ("ROUTER:5555", ["10.0.0.1:5555 bound"]),
    ]


def test_handshakes_of_many_connections_are_an_arrow_each_unless_they_fail() -> None:
    talks = [spoken(number) for number in range(4)]
    failed = Conversation(ports=(51_000, 5555))
    failed.send(0, GREETING)
    failed.close()
    texts = [what for _, _, what in arrows(of_traffic(*talks, failed, folds=False))]
    assert texts.count("TCP connect, handshake of 3.1 NULL") == 4
    assert [what for what in texts if what.startswith(("GREETING", "READY"))] == ["GREETING 3.1 NULL"]


def test_lifelines_of_a_broker_are_in_the_order_of_a_request() -> None:
    diagram = of_file("patterns/multihop-proxy.pcap")
    assert [line.name for line in diagram.lifelines] == [
        '"client-1"',
        "ROUTER:5613",
        "DEALER",
        "ROUTER:5611",
        "DEALER:5612",
        "REP",
    ]
    request = [arrow for arrow in arrows(diagram) if "message" in arrow[2]][:6]
    places = [line.name for line in diagram.lifelines]
    assert [(source, target) for source, target, _ in request] == [
        *zip(places[::2], places[1::2], strict=True),
        *reversed([*zip(places[1::2], places[::2], strict=True)]),
    ]


def test_octets_that_are_lost_have_a_note_in_their_place() -> None:
    rows = of_file("damage/one-segment-lost.pcap").rows
    (gap,) = [place for place, row in enumerate(rows) if row.kind == "gap"]
    assert rows[gap].what == "273 octets lost here"
    assert rows[gap - 1].content.startswith('a | "" | b')
    assert "(likely)" in rows[gap + 1].what


def test_a_peer_that_cannot_send_has_a_note_in_its_place() -> None:
    rows = of_file("problems/slow-receiver.pcap").rows
    (stall,) = [row for row in rows if "receive window is closed" in row.what]
    assert stall.severity == "warn"
    assert rows[rows.index(stall) - 1].what.startswith("message incomplete")


def test_failed_attempts_belong_to_the_known_client() -> None:
    diagram = of_file("patterns/reconnect-after-restart.pcap")
    assert [line.name for line in diagram.lifelines] == ["DEALER", "ROUTER:5561"]
    (attempt,) = [row for row in diagram.rows if row.kind == "attempt"]
    assert (attempt.source, attempt.target) == (0, 1)
    assert attempt.what == "refused (ZMTP-CONN-14)"
    assert attempt.content.startswith("10.77.0.2 tried 3 times in 0.3 s to reach 10.77.0.1:5561")


def test_heartbeats_fold_with_any_messages_between_them() -> None:
    talk = spoken()
    for number in range(20):
        talk.send(number % 2, b"\x04\x07\x04PING\0\0")
        talk.send(1 - number % 2, b"\x04\x05\x04PONG")
        if number % 3:
            talk.send(0, message(b"x" * number))
    talk.send(0, b"\x04\x07\x04PING\0\0")
    talk.close()
    diagram = of_traffic(talk)
    assert [what for _, _, what in arrows(diagram) if what in ("PING", "PONG")] == ["PING", "PONG", "PING"]
    assert [row.what for row in diagram.rows if "PING" in row.what and row.kind == FOLD] == [
        "19 more PING, 19 more PONG in 49.0 ms"
    ]


def test_attempts_that_end_alike_fold_over_all_connections() -> None:
    talks = []
    for number in range(30):
        talk = Conversation(ports=(50_000 + number, 5555), start=START + number * SECOND)
        talk.send(0, GREETING)
        talk.send(1, GREETING)
        talk.close()
        talks.append(talk)
    diagram = of_traffic(*talks)
    assert len(diagram.lifelines) == 2
    assert len(diagram.rows) < 60
    assert any(row.kind == FOLD and "more times" in row.what for row in diagram.rows)


def test_a_time_in_which_nothing_happens_is_a_pause() -> None:
    talk = spoken()
    talk.wait(5 * SECOND)
    talk.send(0, message(b"late"))
    pauses = [row for row in of_traffic(talk).rows if row.kind == PAUSE]
    assert [row.what for row in pauses] == ["5.0 s later"]


def test_omitted_events_are_counted() -> None:
    diagram = of_file("patterns/pubsub.pcap", most=15)
    assert len([row for row in diagram.rows if row.kind not in (PAUSE, REST)]) == 15
    assert diagram.rows[-1].kind == REST
    assert diagram.rows[-1].what == diagram.left_out == "17 messages and 4 other events more are left out"


def test_memory_is_for_what_can_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_module, "MAX_STEPS", 20)
    diagram = of_file("patterns/pubsub.pcap", folds=False)
    assert len(diagram.rows) < 30
    messages = sum(row.kind == "message" for row in diagram.rows)
    assert f"{19 - messages} messages" in diagram.left_out


def test_lifelines_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout_module, "MAX_LIFELINES", 4)
    diagram = of_file("patterns/multihop-proxy.pcap")
    assert len(diagram.lifelines) == 4
    assert "2 peers more are left out" in diagram.left_out


def test_without_messages_there_is_nothing_to_draw() -> None:
    drops = empty("finding") | {
        "record": "finding",
        "id": "CAPTURE-01",
        "severity": "warn",
        "text": "x",
        "ts_ns": START,
    }
    sequence = EventSequence(OPTIONS)
    sequence.feed(Batch(["a.pcap"], records=[Record.of("finding", (0, 0, 0, 0, 0, 0), drops)]))
    sequence.finish()
    assert len(sequence.steps) == 1
    assert layout_module.layout(sequence, 10, whole=True).rows == []


def test_text_fits_a_terminal() -> None:
    diagram = of_file("patterns/multihop-proxy.pcap")
    for width in (80, 100, 132):
        lines = as_text(diagram, width).splitlines()
        assert max(map(len, lines)) <= width
    assert "READY REQ" in as_text(diagram, 80)
