"""TCP reassembly of segments that are not simply the next ones."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tests.dissect.talks import connected
from tests.peer_octets import hello, message
from tests.traffic import Capture, Conversation, Packet, records
from zmtpscope.capture.segments import ACK, FIN, SYN
from zmtpscope.dissect import Analyser, MessageTable, Options, Record


def talk(initial: tuple[int, int] = (1000, 9000)) -> Conversation:
    """A PUSH and a PULL that have shaken hands."""
    conversation = connected("PUSH", "PULL", initial=initial)
    return conversation


def bodies(found: list[dict[str, Any]]) -> list[bytes]:
    return [record["bodies"][0] for record in found if record["record"] == "message"]


def connections(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [record for record in found if record["record"] == "connection"]


@pytest.mark.parametrize("size", [1, 2, 100])
def test_sequence_numbers_wrap_inside_a_greeting(size: int) -> None:
    conversation = talk(initial=(2**32 - 5, 2**32 - 70))
    conversation.send(0, message(b"after the wrap"), cuts=range(0, 20, 3))
    conversation.close()
    found, analyser = records(Capture(conversation.packets, size))
    assert bodies(found) == [b"after the wrap"]
    assert analyser.summary.sums.repeated == 0


def test_a_keep_alive_and_a_zero_window_probe_add_nothing() -> None:
    conversation = talk()
    conversation.send(0, message(b"one"))
    last = conversation.packets[-1]
    keep_alive = replace(last, sequence=last.sequence + len(last.payload) - 1, payload=b"\0")
    conversation.packets.append(keep_alive)
    conversation.packets.append(replace(keep_alive, payload=b""))
    conversation.send(0, message(b"two"))
    conversation.close()
    found, analyser = records(Capture(conversation.packets))
    assert bodies(found) == [b"one", b"two"]
    assert analyser.summary.sums.repeated == 1


def test_the_first_copy_of_an_octet_wins_and_another_is_a_conflict() -> None:
    conversation = talk()
    conversation.send(0, message(b"early"))
    conversation.send(0, message(b"truth"))
    conversation.close()
    early, truth = (packet for packet in conversation.packets if packet.payload[2:] in (b"early", b"truth"))
    lie = replace(truth, payload=message(b"liars"))
    others = [packet for packet in conversation.packets if packet not in (early, truth)]
    packets = [*others[:5], truth, lie, early, *others[5:]]
    found, analyser = records(Capture(packets))
    assert bodies(found) == [b"early", b"truth"]
    assert (analyser.summary.sums.conflicting, analyser.summary.sums.repeated) == (5, 2)
    assert analyser.summary.sums.hold()


def test_a_retransmission_in_larger_segments_is_trimmed() -> None:
    conversation = talk()
    conversation.send(0, message(b"first"))
    conversation.send(0, message(b"second"))
    first, second = conversation.packets[-2:]
    conversation.packets[-1:] = [replace(first, payload=first.payload + second.payload)]
    conversation.send(0, message(b"third"))
    conversation.close()
    found, _ = records(Capture(conversation.packets, 1))
    assert bodies(found) == [b"first", b"second", b"third"]


def test_a_hole_waits_for_packets_or_time_and_is_then_declared() -> None:
    conversation = talk()
    conversation.send(0, message(b"a" * 20))
    conversation.send(0, message(b"lost"))
    lost = conversation.packets.pop()
    for number in range(80):
        conversation.send(0, message(b"%03d" % number))
        conversation.acknowledge(1)
    conversation.packets.append(lost)
    conversation.close()
    found, analyser = records(Capture(conversation.packets))
    gap = next(record for record in found if record["record"] == "gap")
    assert (gap["bytes"], gap["reason"]) == (len(lost.payload), "acknowledged by the receiver")
    assert bodies(found) == [b"a" * 20, *(b"%03d" % number for number in range(80))]
    assert analyser.summary.sums.late == len(lost.payload)
    assert analyser.summary.sums.hold()


def test_a_late_segment_fills_a_hole_that_was_not_acknowledged() -> None:
    conversation = talk()
    conversation.send(0, message(b"late"))
    late = conversation.packets.pop()
    for number in range(80):
        conversation.add(0, ACK, message(b"%03d" % number))
    conversation.packets.append(late)
    conversation.close()
    found, _ = records(Capture(conversation.packets, 7))
    assert bodies(found) == [b"late", *(b"%03d" % number for number in range(80))]


def test_a_snap_length_cuts_bodies_and_reading_continues_after_them() -> None:
    conversation = talk()
    conversation.send(0, message(b"x" * 500))
    conversation.send(0, message(b"whole"))
    conversation.close()
    cut = next(packet for packet in conversation.packets if len(packet.payload) > 400)
    place = conversation.packets.index(cut)
    conversation.packets[place] = replace(cut, payload=cut.payload[:60], cut=len(cut.payload) - 60)
    found, _ = records(Capture(conversation.packets))
    rows = [(record["sizes"], record["complete"]) for record in found if record["record"] == "message"]
    assert rows == [([500], False), ([5], True)]
    gap = next(record for record in found if record["record"] == "gap")
    assert (gap["reason"], gap["resumed_at"]) == ("snap length", gap["offset"] + gap["bytes"])


@pytest.mark.parametrize("how", ["fin", "rst", "open"])
def test_ports_are_used_again(how: str) -> None:
    first = talk()
    first.send(0, message(b"first"))
    if how == "fin":
        first.close()
    elif how == "rst":
        first.reset(1)
    second = Conversation(initial=(70_000, 80_000), start=first.time + 1_000_000)
    second.send(0, hello("PUSH") + message(b"second"))
    second.send(1, hello("PULL"))
    second.close()
    found, _ = records(Capture([*first.packets, *second.packets]))
    assert bodies(found) == [b"first", b"second"]
    assert [record["close"] for record in connections(found)] == [{"open": "reused"}.get(how, how), "fin"]
    assert len({record["conn_id"] for record in connections(found)}) == 2


@pytest.mark.parametrize("seed", range(60))
def test_waiting_octets_are_kept_once_for_any_packets(seed: int) -> None:
    """Segments that overlap in any way, some cut and some with an octet that differs, all behind a hole."""
    dice = Random(seed)
    conversation = talk()
    stream = b"".join(message(dice.randbytes(dice.randrange(60))) for _ in range(40))
    before, first = len(hello("PUSH")) + len(hello("PULL")), conversation.next[0]
    came: set[int] = set()
    changed = end = 0
    for _ in range(100):
        start = dice.randrange(1, len(stream))
        stop = min(len(stream), start + dice.choice([1, 2, 5, 20, 100, 400]))
        cut = dice.choice([0, 0, 0, dice.randrange(stop - start + 1)])
        octets = bytearray(stream[start : stop - cut])
        place = dice.randrange(start, stop)
        if place in came and place < stop - cut and dice.randrange(3) == 0:
            octets[place - start] ^= 1
            changed += 1
        came.update(range(start, stop - cut))
        end = max(end, stop)
        conversation.packets.append(
            Packet(0, first + start, conversation.next[1], ACK, bytes(octets), conversation.time, cut)
        )
    found, analyser = records(Capture(conversation.packets, dice.choice([1, 7, 1000])))
    sums = analyser.summary.sums
    assert sums.hold()
    assert (sums.conflicting, sums.stream) == (changed, before + end)
    assert sums.captured - sums.repeated - sums.conflicting == before + len(came)
    assert sum(record["bytes"] for record in found if record["record"] == "gap") == end - len(came)
    assert analyser.flows.reassembler.waiting.total == 0


def again_and_again(times: int) -> list[list[Packet]]:
    """Connections on the same ports whose packets have equal times, as with a coarse clock."""
    talks = []
    for number in range(times):
        again = Conversation(initial=(1000 * number, 9000))
        again.send(0, hello("PUSH") + message(b"%d" % number))
        again.send(1, hello("PULL"))
        again.reset(0)
        talks.append(again.packets)
    return talks


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_connections_on_the_same_ports_have_identities_of_their_own(size: int) -> None:
    """Times may stand still or run backwards; other connections change nothing."""
    talks = again_and_again(4)
    talks[2] = [replace(packet, time=packet.time - 5_000_000_000) for packet in talks[2]]
    packets = [packet for talk in talks for packet in talk]
    identities = [record["conn_id"] for record in connections(records(Capture(packets, size))[0])]
    assert len(set(identities)) == 4
    others = [replace(packet, ports=(50_001, 5555)) for packet in packets]
    both = [packet for pair in zip(others, packets, strict=True) for packet in pair]
    found = connections(records(Capture(both, size))[0])
    assert [record["conn_id"] for record in found if record["port_0"] == 50_000] == identities


def test_a_syn_sent_again_behind_the_close_begins_another_connection() -> None:
    conversation = talk()
    conversation.close()
    packets = [*conversation.packets, replace(conversation.packets[0], time=conversation.packets[0].time)]
    packets += [replace(packet, time=conversation.time) for packet in conversation.packets[1:]]
    found, _ = records(Capture(packets, 1))
    assert [record["close"] for record in connections(found)] == ["fin", "fin"]
    assert len({record["conn_id"] for record in connections(found)}) == 2


def test_acknowledgments_behind_a_close_open_nothing() -> None:
    conversation = talk()
    conversation.close()
    conversation.add(0, ACK)
    conversation.add(1, ACK)
    found, analyser = records(Capture(conversation.packets))
    assert len(connections(found)) == 1
    assert analyser.flows.opened == 1


def test_a_fin_that_overtakes_its_data_waits_for_it() -> None:
    conversation = talk()
    conversation.send(0, message(b"last words"))
    conversation.close()
    words = next(packet for packet in conversation.packets if b"last words" in packet.payload)
    conversation.packets.remove(words)
    fin = next(place for place, packet in enumerate(conversation.packets) if packet.flags & FIN)
    conversation.packets.insert(fin + 1, words)
    found, _ = records(Capture(conversation.packets))
    assert bodies(found) == [b"last words"]
    assert connections(found)[0]["close"] == "fin"


def test_the_other_sides_acknowledgment_shows_where_a_side_began() -> None:
    conversation = talk()
    conversation.send(1, message(b"from the server"))
    conversation.close()
    packets = [packet for packet in conversation.packets if packet.flags & (SYN | ACK) != SYN | ACK]
    found, _ = records(Capture(packets))
    assert bodies(found) == [b"from the server"]
    assert connections(found)[0]["confidence"] == "proven"


def test_one_direction_alone_is_read_and_reported() -> None:
    conversation = talk()
    conversation.send(0, message(b"alone"))
    conversation.close()
    found, _ = records(Capture([packet for packet in conversation.packets if packet.side == 0]))
    assert bodies(found) == [b"alone"]
    assert "ZMTP-CONN-02" in {record["id"] for record in found if record["record"] == "finding"}
    assert connections(found)[0]["confidence"] == "likely"


def test_waiting_octets_are_bounded() -> None:
    conversation = talk()
    conversation.send(0, b"\x02" + (1 << 30).to_bytes(8, "big"))
    conversation.send(0, bytes(1000))
    conversation.packets.pop()
    for _ in range(20):
        conversation.add(0, ACK, bytes(1 << 20))
    found, analyser = records(Capture(conversation.packets, 1), Options(bodies="none"))
    gap = next(record for record in found if record["record"] == "gap")
    assert gap["reason"] == "limit of waiting octets"
    assert analyser.flows.reassembler.waiting.total == 0


def test_a_flood_of_silent_connections_costs_a_bounded_number_of_them() -> None:
    speaking = talk()
    flood = [Conversation(ports=(1024 + number, 5555)).packets[0] for number in range(300)]
    speaking.send(0, message(b"through the flood"))
    *handshake, last = speaking.packets
    analyser = Analyser(Options())
    analyser.flows.most_open = 100
    found = []
    for block in Capture([*handshake, *flood, last], 10):
        for batch in analyser.feed(block):
            found += [item for item, _ in batch.in_order()]
        assert len(analyser.flows.sides) <= 2 * 100
    found += [item for batch in analyser.finish() for item, _ in batch.in_order()]
    assert any(isinstance(item, MessageTable) for item in found)
    conflicts = [item.values for item in found if isinstance(item, Record) and item.values.get("id") == "ZMTP-CONN-12"]
    assert [values["conn"] for values in conflicts] == [*range(2, 12), 202]
    assert [values["count"] for values in conflicts] == [1] * 10 + [201 - 10]
    assert analyser.summary.findings["warn", "ZMTP-CONN-12"] == 201
