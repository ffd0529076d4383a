"""Sockets that do not fit, by type or because their place is occupied."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnosis.diagnosing import diagnoses_in, diagnoses_of
from tests.diagnosis.talking import CLIENT, SERVER, Talk
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.regime import Framing


def test_types_that_both_announced_are_proof() -> None:
    (diagnosis,) = diagnoses_of(Talk(0).handshake("SUB", "PULL").close(SERVER)).values()
    assert (diagnosis.rule, diagnosis.certainty) == ("wrong-pairing", "proven")
    assert "SUB of 10.0.0.2 connects to PULL at 10.0.0.1:5555" in diagnosis.text


def test_a_port_of_the_host_that_would_fit_is_named_and_the_close_is_no_cause_of_its_own() -> None:
    wrong = Talk(0).handshake("REQ", "PUB").close(SERVER)
    other = Talk(1, client=3, port=5556).handshake("REQ", "REP").wait(9).close()
    (diagnosis,) = diagnoses_of(wrong, other).values()
    assert diagnosis.rule == "wrong-pairing"
    assert diagnosis.hint.endswith("check that the port is the intended one: REP 10.0.0.1:5556 would fit")


def test_a_side_that_only_closes_has_likely_another_type(captures: Path) -> None:
    found = diagnoses_in(captures / "problems/wrong-pairing.pcap")
    assert list(found) == ["wrong-pairing"]
    assert found["wrong-pairing"].certainty == "likely"


def test_a_type_that_is_known_from_elsewhere_clears_it() -> None:
    def refused(client: str) -> Talk:
        return Talk(0).greet(CLIENT).greet(SERVER).ready(CLIENT, client).close(SERVER)

    other = Talk(1, at=5, client=3).handshake("PUSH", "PULL").close()
    assert "PULL at 10.0.0.1:5555" in diagnoses_of(refused("SUB"), other)["wrong-pairing"].text
    assert "wrong-pairing" not in diagnoses_of(refused("PUSH"), other)


def test_a_program_at_an_address_whose_others_fit_may_have_another_type() -> None:
    """A SUB connects to the port of a proxy where publishers belong, and closes when it reads SUB."""
    subscriber = Talk(0, at=0).greet(CLIENT).greet(SERVER).ready(SERVER, "SUB").close(CLIENT)
    publisher = Talk(1, at=5).handshake("PUB", "SUB").close()
    (diagnosis,) = diagnoses_of(subscriber, publisher).values()
    assert (diagnosis.rule, diagnosis.severity, diagnosis.certainty) == ("wrong-pairing", "error", "likely")
    assert diagnosis.text == (
        "10.0.0.2 closes when SUB 10.0.0.1:5555 announces its type: their socket types are incompatible"
    )


@pytest.mark.parametrize("unread", [True, False], ids=["killed", "closes later"])
def test_a_program_that_ends_in_its_handshake_need_not_have_another_type(unread: bool) -> None:
    def left(number: int) -> Talk:
        talk = Talk(number, at=number).greet(CLIENT).greet(SERVER).ready(SERVER, "PULL")
        return talk.reset(CLIENT) if unread else talk.wait(0.3).close(CLIENT)

    stays = Talk(3, at=5).handshake("PUSH", "PULL").wait(9).close()
    assert "wrong-pairing" not in diagnoses_of(left(0), left(1), stays)


def test_a_client_that_closes_before_it_can_hear_of_a_type_does_not_reject_it() -> None:
    """Over a path of 200 ms there and back, captured at the server: ZMQ_HANDSHAKE_IVL is too short."""

    def left(number: int) -> Talk:
        talk = Talk(number, at=number).wait(0.2).greet(CLIENT).greet(SERVER)
        return talk.ready(SERVER, "REP").wait(0.1).close(CLIENT)

    stays = Talk(4, at=5).wait(0.2).handshake("REQ", "REP").wait(9).close()
    assert "wrong-pairing" not in diagnoses_of(left(0), left(1))
    found = diagnoses_of(left(0), left(1), left(2), stays)
    assert "wrong-pairing" not in found
    assert "ZMQ_HANDSHAKE_IVL" in found["left-in-handshake"].hint
    assert found["left-in-handshake"].text.startswith(
        "REQ 10.0.0.2 closes 3 of 4 connections to REP 10.0.0.1:5555 before the handshake is complete, each after "
        "about 30"
    )


def test_a_program_that_ends_once_in_its_handshake_is_a_note() -> None:
    talk = Talk(0).wait(0.2).greet(CLIENT).greet(SERVER).ready(SERVER, "REP").wait(0.1).close(CLIENT)
    stays = Talk(4, at=5).handshake("REQ", "REP").wait(9).close()
    assert {each.severity for each in diagnoses_of(talk, stays).values()} == {"note"}


def test_an_identity_whose_connection_may_have_ended_in_a_loss_is_not_used_twice() -> None:
    """The capture lost the FIN of the first connection, and messages of another client."""
    first, again = (
        Talk(number, at=number).handshake("DEALER", "ROUTER", "worker-1").message(CLIENT, b"x") for number in (0, 2)
    )
    other = Talk(5, at=0, client=3).handshake("DEALER", "ROUTER").message(CLIENT, b"lost").message(CLIENT, b"x")
    assert diagnoses_of(first, again, other)["identity-collision"].certainty == "likely"
    del other.conversation.packets[-4:-2]
    assert not {"identity-collision", "protocol-violation"} & diagnoses_of(first, again, other).keys()


def test_one_identity_for_two(captures: Path) -> None:
    diagnosis = diagnoses_in(captures / "problems/identity-collision.pcap")["identity-collision"]
    assert 'Two clients are "worker-1"' in diagnosis.text
    assert "10.0.0.2 and 10.0.0.3" in diagnosis.text
    assert "identity-collision" not in diagnoses_in(captures / "problems/identity-used-again.pcap")


def test_a_second_peer_of_pair() -> None:
    first, second = (Talk(number, at=number, client=2 + number).handshake("PAIR", "PAIR") for number in (0, 1))
    assert "PAIR 10.0.0.3 connects to PAIR 10.0.0.1:5555" in diagnoses_of(first, second)["pair-occupied"].text
    assert diagnoses_of(first.close(), Talk(1).handshake("PAIR", "PAIR")) == {}


def _twins(asked: int, *, answered: bool = True, at: float = 1, client: int = 3) -> list[Talk]:
    """Two clients with one identity: the first asks and is answered, the other one asks so often."""
    first = Talk(0, at=0).handshake("DEALER", "ROUTER", "worker-1")
    for _ in range(10):
        first.message(CLIENT, b"request").wait(0.4)
        if answered:
            first.message(SERVER, b"reply")
    second = Talk(1, at=at, client=client).handshake("DEALER", "ROUTER", "worker-1")
    for _ in range(asked):
        second.message(CLIENT, b"request").wait(0.1)
    return [first.close(), second.close()]


def test_of_two_clients_with_one_identity_the_ignored_one_is_named() -> None:
    diagnosis = diagnoses_of(*_twins(8))["identity-collision"]
    assert diagnosis.severity == "error"
    assert diagnosis.text.endswith(
        "from 10.0.0.2 and 10.0.0.3: it sends to only one of them: 10.0.0.3:40001 sent 8 messages and received "
        "none, 10.0.0.2:40000 sent 10 and got 10"
    )


@pytest.mark.parametrize(
    "talks", [_twins(2), _twins(8, answered=False)], ids=["may still be answered", "nobody is answered"]
)
def test_two_with_one_identity_of_which_none_is_known_to_lose(talks: list[Talk]) -> None:
    diagnosis = diagnoses_of(*talks)["identity-collision"]
    assert diagnosis.severity == "warn"
    assert diagnosis.text.endswith("it sends to only one of them")


def test_the_newer_one_of_two_with_one_identity_may_take_over() -> None:
    """ZMQ_ROUTER_HANDOVER: the first client was answered until the second one connected."""
    first = Talk(0, at=0).handshake("DEALER", "ROUTER", "worker-1").message(CLIENT, b"a").message(SERVER, b"b").wait(2)
    second = Talk(1, at=1, client=3).handshake("DEALER", "ROUTER", "worker-1")
    second.message(CLIENT, b"a").message(SERVER, b"b").wait(2)
    diagnosis = diagnoses_of(first.message(CLIENT, b"a").wait(3).close(), second.close())["identity-collision"]
    assert diagnosis.text.endswith(
        "the newer one took over (ZMQ_ROUTER_HANDOVER), and 10.0.0.2:40000 gets nothing since"
    )
    assert "ZMQ_ROUTER_HANDOVER" not in diagnosis.hint
    assert diagnosis.severity == "warn"


def test_a_client_that_is_replaced_and_then_leaves_quietly_is_a_note() -> None:
    first = Talk(0, at=0).handshake("DEALER", "ROUTER", "worker-1").message(CLIENT, b"a").message(SERVER, b"b").wait(3)
    second = Talk(1, at=1, client=3).handshake("DEALER", "ROUTER", "worker-1")
    second.message(CLIENT, b"a").message(SERVER, b"b").wait(5)
    assert diagnoses_of(first.close(), second.close())["identity-collision"].severity == "note"


def test_a_router_that_missed_the_end_of_a_connection_is_named() -> None:
    """The host of the client crashed: nothing acknowledges what the ROUTER sends on the first connection."""
    _, second = _twins(8, at=5, client=2)
    dead = Talk(0, at=0).handshake("DEALER", "ROUTER", "worker-1").message(CLIENT, b"a").wait(3)
    place = dead.conversation.next[SERVER]
    for _ in range(5):
        dead.conversation.next[SERVER] = place  # the same octets again
        dead.conversation.send(SERVER, build_frame(Framing.V2, b"lost"))
        dead.wait(2)
    diagnosis = diagnoses_of(dead, second)["identity-collision"]
    assert diagnosis.text.startswith('ROUTER 10.0.0.1:5555 still has the connection of "worker-1" from 10.0.0.2:40000')
    assert diagnosis.text.endswith("ignores the new one from 10.0.0.2:40001: it sent 8 messages and received none")
    assert "ZMQ_ROUTER_HANDOVER" in diagnosis.hint
