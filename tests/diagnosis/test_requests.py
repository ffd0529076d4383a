"""Requests are matched with their replies for any asker and any division of the capture into blocks."""

from __future__ import annotations

import pickle
import tracemalloc
from collections import Counter
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.diagnosis.reading import derive, derive_in_blocks
from tests.diagnosis.requesting_traffic import HANDSHAKE, Asker, derived_from, outcomes
from tests.invariants import in_blocks, packets_of_capture
from tests.peer_octets import message, ping
from tests.traffic import Capture, Conversation
from zmtpscope.capture import open_captures
from zmtpscope.diagnosis.derivation import Derivation
from zmtpscope.diagnosis.observers.requests import OCTETS
from zmtpscope.diagnosis.observers.room import Room
from zmtpscope.dissect import Analyser, Options
from zmtpscope.dissect.records.message_columns import MessageColumns

ASKING = (
    "patterns/reqrep.pcap",
    "patterns/multihop-proxy.pcap",
    "patterns/broker-mixed-versions.pcap",
    "implementations/jupyter.pcap",
    "problems/request-unanswered.pcap",
    "problems/capture-ends-within-request.pcap",
    "versions/reqrep-bind4.0.10-conn4.3.5.pcap",
)


def requests_of(path: Path) -> list[dict[str, Any]]:
    return [record.values for record in derive(path)[1] if record.type == "request"]


# -- real captures -----------------------------------------------------------------------------------------------------


def test_a_request_that_hangs_is_open_and_has_waited_until_the_capture_ends(captures: Path) -> None:
    path = captures / "problems/request-unanswered.pcap"
    (waiting,) = (values for values in requests_of(path) if values["outcome"] == "open")
    assert waiting["latency_ns"] is None
    assert waiting["waited_ns"] > 1_800_000_000
    assert (waiting["socket_type"], waiting["peer_socket_type"]) == ("REQ", "ROUTER")


def test_latency_is_the_time_between_the_packets_of_request_and_reply(captures: Path) -> None:
    _, slow, _ = requests_of(captures / "problems/request-answered-slowly.pcap")
    assert slow["latency_ns"] == slow["waited_ns"] == slow["reply_ts_ns"] - slow["ts_ns"]
    assert 1_500_000_000 < slow["latency_ns"] < 1_600_000_000


def test_requests_that_a_proxy_hands_on_are_matched_by_their_envelopes_on_each_hop(captures: Path) -> None:
    found = requests_of(captures / "patterns/multihop-proxy.pcap")
    assert {values["outcome"] for values in found} == {"answered"}
    assert Counter(len(values["envelope"]) for values in found) == {0: 3, 1: 3, 2: 3}


@pytest.mark.parametrize("name", ASKING)
def test_outcomes_do_not_depend_on_blocks(captures: Path, name: str) -> None:
    packets = packets_of_capture((captures / name).read_bytes())
    random = Random(name)
    divided = [
        derive_in_blocks(in_blocks(packets, sizes), Options(bodies="none"))[1]
        for sizes in (repeat(1_000_000), repeat(1), iter(lambda: random.randint(1, 9), 0))
    ]
    requests = [[each for each in records if each.type == "request"] for records in divided]
    whole, *others = ([(each.order, each.values) for each in sorted(one, key=lambda r: r.order)] for one in requests)
    assert whole
    assert others == [whole, whole]


@pytest.mark.parametrize("name", ASKING)
def test_every_request_of_a_req_and_to_a_rep_is_in_exactly_one_record(captures: Path, name: str) -> None:
    def asks(values: dict[str, Any]) -> bool:
        return values["socket_type"] == "REQ" or values["peer_socket_type"] == "REP"

    sent: list[tuple[int, int]] = []
    for batch in Analyser(Options()).run(open_captures([str(captures / name)])):
        rows = MessageColumns.of(batch).records() if batch.messages else ()
        sent += [(row["conn"], row["offset"]) for row in rows if asks(row) and row["envelope"] is not None]
    found = [(values["conn"], values["offset"]) for values in requests_of(captures / name) if asks(values)]
    assert sorted(found) == sorted(sent)


# -- who asks ----------------------------------------------------------------------------------------------------------


def by_turns(asker: Asker) -> None:
    for number in range(3):
        asker.ask(b"question %d" % number)
        asker.answer(b"answer")


def pipelined(asker: Asker) -> None:
    for name in (b"one", b"two", b"three"):
        asker.ask(b"question", envelope=[name])
    for name in (b"two", b"one", b"three"):
        asker.answer(b"answer", envelope=[name])


def probed(asker: Asker) -> None:
    asker.send(0, b"\x00\x00")
    asker.ask(b"question")
    asker.answer(b"answer")


def asked_anew(asker: Asker) -> None:
    asker.ask(b"question")
    asker.ask(b"question")
    asker.answer(b"answer")


def asked_anew_with_numbers(asker: Asker) -> None:
    asker.ask(b"question", envelope=[b"\0\0\0\1"])
    asker.ask(b"question", envelope=[b"\0\0\0\2"])
    asker.answer(b"answer", envelope=[b"\0\0\0\1"])
    asker.answer(b"answer", envelope=[b"\0\0\0\2"])


def gives_work(asker: Asker) -> None:
    asker.ask(b"here I am")
    asker.answer(b"client", b"", b"work")
    asker.ask(b"client", b"", b"result")
    asker.answer(b"client", b"", b"work")
    asker.ask(b"client", b"", b"result")


def waits_for_work(asker: Asker) -> None:
    asker.ask(b"READY")
    asker.pause(60_000)
    asker.acknowledge(0)


def chats(asker: Asker) -> None:
    for word in (b"a", b"b"):
        asker.send(0, message(word))
        asker.send(1, message(word))


def one_way(asker: Asker) -> None:
    for word in (b"one", b"two"):
        asker.ask(b"data", envelope=[word])


@pytest.mark.parametrize(
    ("types", "script", "expected"),
    [
        (("REQ", "REP"), by_turns, ["answered"] * 3),
        (("REQ", "ROUTER"), by_turns, ["answered"] * 3),
        (("DEALER", "REP"), pipelined, ["answered"] * 3),
        (("ROUTER", "REP"), pipelined, ["answered"] * 3),
        (("DEALER", "ROUTER"), pipelined, ["answered"] * 3),
        (("REQ", "ROUTER"), probed, ["answered"]),
        (("DEALER", "REP"), probed, ["answered"]),
        (("REQ", "ROUTER"), asked_anew, ["unanswered", "answered"]),
        (("REQ", "REP"), asked_anew, ["late", "open"]),
        (("REQ", "ROUTER"), asked_anew_with_numbers, ["late", "answered"]),
        (("REQ", "ROUTER"), gives_work, ["answered"] * 2),
        (("REQ", "ROUTER"), waits_for_work, []),
        (("DEALER", "ROUTER"), by_turns, []),
        (("DEALER", "ROUTER"), chats, []),
        (("DEALER", "ROUTER"), one_way, []),
        (("PAIR", "PAIR"), pipelined, []),
    ],
    ids=lambda value: value.__name__ if callable(value) else "-".join(value),
)
def test_outcomes_of_requests(types: tuple[str, str], script: Callable[[Asker], None], expected: list[str]) -> None:
    for size in (1, 3, 1000):
        asker = Asker(types)
        script(asker)
        assert outcomes(asker, size=size) == expected


def test_a_worker_that_waits_leaves_no_request_open() -> None:
    asker = Asker(("REQ", "ROUTER"))
    gives_work(asker)
    derivation, found = derived_from(asker)
    assert [values["side"] for values in found] == [1, 1]
    (connection,) = derivation.knowledge().connections
    assert connection.requests is not None
    assert connection.requests.waiting_count == 0


def test_waiting_requests_are_known_before_the_connection_ends() -> None:
    asker = Asker()
    by_turns(asker)
    asker.ask(b"question")
    asker.pause(12_000)
    asker.close()
    derivation, found = derived_from(asker)
    assert [values["outcome"] for values in found] == ["answered"] * 3 + ["unanswered"]
    assert found[-1]["waited_ns"] == 12_001_000_000
    (connection,) = pickle.loads(pickle.dumps(derivation.knowledge().connections))
    seen = connection.requests
    assert (seen.counts["answered"], seen.waiting_count, len(seen.waiting)) == (3, 1, 1)
    assert seen.latency.median == seen.latency.most == 1_000_000
    assert seen.waiting[0].content == seen.waiting[0].content != seen.first.content


def test_an_unrequested_reply_has_no_request() -> None:
    asker = Asker()
    asker.ask(b"question")
    asker.answer(b"answer")
    asker.answer(b"another")
    assert outcomes(asker) == ["answered"]  # the capture ends here, and may not have all
    asker.close()
    _, (_, unasked) = derived_from(asker)
    assert unasked["outcome"] == "unasked"
    assert unasked["offset"] is unasked["length"] is None
    assert unasked["reply_offset"] > 0


# -- what is missing ---------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 3), min_size=1, max_size=8), st.data(), st.integers(1, 9), st.booleans())
def test_lost_octets_make_requests_unknown_and_accuse_no_peer(
    hows: list[int], data: st.DataObject, size: int, pipelines: bool
) -> None:
    asker = Asker(("DEALER", "REP") if pipelines else ("REQ", "REP"))
    for number, how in enumerate(hows):
        asker.ask(b"question %d" % number)
        if how > 1 and pipelines:
            asker.ask(b"question")
        asker.answer(b"answer" * how)
        if how > 1 and pipelines:
            asker.answer(b"another")
    asker.ask(b"last")
    asker.answer(b"answer")
    asker.acknowledge(0)
    for place in sorted(data.draw(st.sets(st.integers(HANDSHAKE, len(asker.packets) - 1), max_size=3)), reverse=True):
        del asker.packets[place]
    whole = {values["offset"]: values for values in derived_from(asker, size=1000)[1]}
    assert {values["outcome"] for values in whole.values()} <= {"answered", "unknown", "open"}
    assert outcomes(asker, size=size) == [values["outcome"] for values in whole.values()]


def test_a_request_whose_reply_the_capture_lost_is_unknown() -> None:
    asker = Asker(("DEALER", "REP"))
    asker.ask(b"question", envelope=[b"one"])
    asker.answer(b"answer", envelope=[b"one"])
    del asker.packets[-1]
    asker.ask(b"question", envelope=[b"two"])
    asker.answer(b"answer", envelope=[b"two"])
    asker.acknowledge(0)
    for size in (1, 3, 1000):
        assert outcomes(asker, size=size) == ["unknown", "unknown"]


def losing(asker: Asker) -> None:
    """Send a message that the capture loses, and let it notice."""
    asker.ask(b"lost")
    del asker.packets[-1]
    asker.send(0, ping())
    asker.acknowledge(1)
    asker.pause(3000)


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_octets_lost_before_the_first_message_accuse_no_peer(size: int) -> None:
    asker = Asker()
    losing(asker)
    for _ in range(2):
        asker.answer(b"answer")
        asker.pause(3000)
        asker.ask(b"question")
    asker.close()
    assert "unasked" not in outcomes(asker, size=size)


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_messages_behind_lost_octets_are_not_paired_by_order(size: int) -> None:
    asker = Asker(("DEALER", "ROUTER"))
    losing(asker)
    for _ in range(2):
        asker.send(0, message(b"question"))
        asker.send(1, message(b"answer"))
    (connection,) = derived_from(asker, size=size)[0].knowledge().connections
    assert connection.in_order is None


def test_without_the_start_or_one_side_no_peer_is_accused() -> None:
    asker = Asker()
    by_turns(asker)
    asker.ask(b"question")
    asker.acknowledge(1)
    one_side = Conversation()
    one_side.packets = [packet for packet in asker.packets if packet.side == 0]
    assert set(outcomes(one_side)) <= {"unknown"}
    later = Conversation()
    later.packets = asker.packets[HANDSHAKE + 1 :]
    assert set(outcomes(later)) <= {"answered", "unknown", "open"}


def test_the_oldest_open_requests_are_released_where_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zmtpscope.diagnosis.derivation.Room", lambda: Room(5 * OCTETS))
    asker = Asker(("DEALER", "REP"))
    for number in range(20):
        asker.ask(b"question", envelope=[b"%02d" % number])
    derivation, found = derived_from(asker, size=1)
    assert [values["outcome"] for values in found] == ["unknown"] * 15 + ["open"] * 5
    assert found[0]["envelope"] == ["00"]
    assert derivation.room.left_out > 0


@pytest.mark.parametrize("types", [("DEALER", "REP"), ("REQ", "ROUTER"), ("DEALER", "ROUTER")])
def test_a_block_costs_the_same_however_many_requests_are_open(types: tuple[str, str]) -> None:
    def work(waiting: int) -> int:
        """Return the octets allocated at once while a request and a reply are processed."""
        asker = Asker(types)
        asker.ask(b"question", envelope=[b"first"])
        asker.answer(b"answer", envelope=[b"first"])
        for number in range(waiting):
            asker.ask(b"question", envelope=[b"%06d" % number])
        asker.ask(b"question", envelope=[b"last"])
        asker.answer(b"answer", envelope=[b"last" if types[1] == "ROUTER" else b"000000"])
        first, block, *_ = Analyser(Options(bodies="none")).run(Capture(asker.packets, len(asker.packets) - 2))
        derivation = Derivation()
        derivation.feed(first)
        tracemalloc.start()
        (answered,) = derivation.feed(block)
        taken = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len([*answered.records()]) == 1
        return taken

    assert work(8000) < 1.5 * work(2000)
