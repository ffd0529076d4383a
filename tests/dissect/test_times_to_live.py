"""The TTL of a PING: a peer that is silent for longer should be left (ZMTP31-PING-06)."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from tests.dissect.talks import SECOND
from tests.dissect.test_heartbeats import begin, findings, ping, pong
from tests.peer_octets import message
from tests.traffic import Conversation
from zmtpscope.capture.segments import ACK, FIN

TTL, SILENCE = 2, 5


def announcing(*behind: bytes) -> Conversation:
    """Side 0 announces a TTL, sends `behind` in the same packet, and nothing more; side 1 answers."""
    talk = begin()
    talk.send(0, ping(b"", TTL * 1000) + b"".join(behind))
    talk.send(1, pong())
    return talk


def silent(talk: Conversation) -> list[tuple[int, str]]:
    """Return the side of the finding, and the duration in it."""
    found = [each for each in findings(talk.packets) if each["id"] == "ZMTP31-PING-06"]
    assert all(each["severity"] == "note" for each in found)
    return [(each["side"], each["text"].rpartition(": ")[2]) for each in found]


@pytest.mark.parametrize("closer", [0, 1])
def test_a_side_that_sends_nothing_until_the_close(closer: int) -> None:
    talk = announcing()
    talk.wait(SILENCE * SECOND)
    if closer:
        talk.add(1, FIN | ACK)
        talk.add(0, FIN | ACK)
        talk.add(1, ACK)
    else:
        talk.close()
    assert silent(talk) == [(0, "5.0 s; its TTL is 2.0 s")]


def test_a_side_that_continues_too_late() -> None:
    talk = announcing()
    talk.wait(SILENCE * SECOND)
    talk.send(0, message(b"late"))
    assert silent(talk) == [(0, "5.0 s; its TTL is 2.0 s")]


def test_nothing_is_known_of_a_side_that_is_silent_when_the_capture_ends() -> None:
    talk = announcing()
    talk.wait(SILENCE * SECOND)
    talk.send(1, message(b"the other side"))
    assert silent(talk) == []


@pytest.mark.parametrize("behind", [message(b"news"), ping(b"", 0)])
def test_any_data_in_time_is_a_sign_of_life(behind: bytes) -> None:
    for octets, seconds in product((behind, behind[:1]), (TTL - 1, TTL + 0.9)):
        talk = announcing()
        talk.wait(int(seconds * SECOND))
        talk.send(0, octets)
        talk.wait(SILENCE * SECOND)
        talk.send(0, behind[len(octets) :] + message(b"more"))
        talk.close()
        assert silent(talk) == []


def test_octets_in_the_same_packet_are_a_sign_of_life() -> None:
    talk = announcing(message(b"news"))
    talk.wait(SILENCE * SECOND)
    talk.close()
    assert silent(talk) == []


def test_a_time_to_live_of_zero_announces_nothing() -> None:
    talk = begin()
    talk.send(0, ping(b"", 0))
    talk.wait(SILENCE * SECOND)
    talk.close()
    assert silent(talk) == []


def test_a_side_that_closes_in_time() -> None:
    talk = announcing()
    talk.wait(TTL * SECOND)
    talk.close()
    assert silent(talk) == []


def test_a_close_that_was_under_way() -> None:
    """The silent side speaks too late, but the other one had closed already."""
    talk = announcing()
    talk.wait(TTL * SECOND)
    talk.add(1, FIN | ACK)
    talk.wait(SILENCE * SECOND)
    talk.send(0, message(b"late"))
    assert silent(talk) == []


def test_a_packet_that_was_not_captured_accuses_no_peer() -> None:
    talk = announcing()
    for _ in range(3):
        talk.wait(2 * SECOND)
        talk.send(0, message(b"sign of life"))
        talk.acknowledge(1)
    talk.close()
    packets = talk.packets
    for lost in range(6, len(packets)):
        assert findings(packets[:lost] + packets[lost + 1 :]) == []
        cut = replace(packets[lost], payload=packets[lost].payload[:2], cut=max(0, len(packets[lost].payload) - 2))
        assert findings([*packets[:lost], cut, *packets[lost + 1 :]]) == []
