"""Findings that compare connections with each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.dissect.talks import COMMANDS, SECOND, default_command
from tests.dissect.test_cost import steps
from tests.dissect.workers import assert_is_one_run
from tests.peer_octets import command, message, ready
from tests.traffic import CLIENT, Capture, Conversation, Packet, steady_records, together
from zmtpscope.dissect import Options
from zmtpscope.dissect.findings import endpoints
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.greeting import build_greeting_1, build_greeting_2, build_greeting_3
from zmtpscope.zmtp.regime import Framing

START = 1_700_000_000 * SECOND
OURS = {
    "ZMTP-CONN-09",
    "ZMTP-CONN-10",
    "ZMTP-CONN-11",
    "ZMTP-DOWNGRADE-01",
    "ZMTP3X-META-15",
    "EXPAIR-01",
    "CURVE-15",
    "CURVE-19",
}


def begin(number: int, seconds: float = 0, port: int = 5555, initial: int | None = None) -> Conversation:
    """The connection from client port 50000 + `number`, opened after this many seconds."""
    initial = 1000 * number + 1000 if initial is None else initial
    return Conversation((initial, 9000), (50_000 + number, port), start=START + int(seconds * SECOND))


def findings(*talks: Conversation) -> list[dict[str, Any]]:
    """Findings about endpoints, which are the same for any block size, any division of connections, and if they are
    only counted."""
    packets = together(*talks)
    whole = steady_records(packets, sizes=(1, 3, 10))
    assert_is_one_run(list(Capture(packets, 5)), 3, Options)
    known = {identity(record) for record in whole}
    found = [record for record in whole if record["record"] == "finding" and record["id"] in OURS]
    assert all(reference in known for finding in found for reference in finding["refs"])
    assert not any(reference.startswith(finding["conn_id"]) for finding in found for reference in finding["refs"])
    return found


def identity(record: dict[str, Any]) -> str:
    names = ("conn_id", "side", "source", "offset", "record")
    return "/".join(str(record.get(name)) for name in names)


def ids_and_connections(*talks: Conversation) -> list[tuple[str, int]]:
    """Id and connection of every finding."""
    return [(finding["id"], finding["conn"]) for finding in findings(*talks)]


def meet(talk: Conversation, client: bytes, server: bytes) -> Conversation:
    """Both sides send a greeting of 3.1 and NULL, and READY."""
    for side, own in ((0, client), (1, server)):
        talk.send(side, build_greeting_3() + own)
    return talk


def close(talk: Conversation, seconds: float = 0, first: int = 0) -> Conversation:
    talk.wait(int(seconds * SECOND))
    talk.add(first, 0x11)
    talk.add(1 - first, 0x11)
    return talk


# -- one socket, several peers -----------------------------------------------------------------------------------------


def router(number: int, seconds: float = 0, name: str = "same", **options: Any) -> Conversation:
    return meet(begin(number, seconds, **options), ready("DEALER", identity=name or None), ready("ROUTER"))


def test_two_live_connections_with_one_identity() -> None:
    first, second = router(1), router(2, 0.5)
    (finding,) = findings(close(first, 1), close(second, 1))
    assert (finding["id"], finding["conn"], finding["side"], finding["offset"]) == ("ZMTP3X-META-15", 2, 0, 64)
    assert finding["refs"][0].endswith("/0/0/64/command")


def test_identities_that_do_not_clash() -> None:
    assert ids_and_connections(close(router(1), 0.2), close(router(2, 0.5), 1)) == []  # the first has gone
    assert ids_and_connections(router(1), router(2, 0.5, name="other")) == []
    assert ids_and_connections(router(1, name=""), router(2, 0.5, name="")) == []
    assert ids_and_connections(router(1), router(2, 0.5, port=5556)) == []
    assert ids_and_connections(router(1, initial=77), router(2, 0.5, initial=77)) == []  # captured before and after NAT
    pull = meet(begin(2, 0.5), ready("DEALER", identity="same"), ready("DEALER"))
    assert ids_and_connections(router(1), pull) == []


def test_a_crowd_of_which_some_are_the_same_connection() -> None:
    crowd = [router(number, number / 10, initial=initial) for number, initial in enumerate((7, 7, 8, 8, 7), 1)]
    found = findings(*crowd)
    assert [finding["conn"] for finding in found] == [3, 4, 5]
    others = [finding["refs"][0].split("/")[0] for finding in found]
    assert len(set(others)) == 2  # the newest that is another
    assert others[0] == others[1]


@pytest.mark.slow
def test_many_connections_with_one_initial_sequence_number_cost_no_more_each() -> None:
    def cost(count: int) -> int:
        talks = [router(number, number / 1000, initial=7) for number in range(count)]
        return steps(Capture([packet for talk in talks for packet in talk.packets]))

    assert cost(200) < 2.2 * cost(100)


def test_an_identity_is_free_again_when_its_connection_has_ended() -> None:
    talks = close(router(1), 1), close(router(2, 0.1), 0.2), close(router(3, 0.5), 0.2), router(4, 2)
    assert ids_and_connections(*talks) == [("ZMTP3X-META-15", 2), ("ZMTP3X-META-15", 3)]


def test_no_clash_is_reported_where_octets_are_missing() -> None:
    lost = router(2, 0.5)
    lost.send(0, message(b"more"))
    lost.acknowledge(1)
    lost.packets[3] = replace(lost.packets[3], payload=lost.packets[3].payload[:60], cut=40)
    assert ids_and_connections(router(1), lost) == []
    unseen = router(2, 0.5)
    del unseen.packets[:3]
    assert ids_and_connections(router(1), unseen) == []  # the listener is unknown


def test_a_pair_with_two_peers() -> None:
    pairs = [meet(begin(number, number / 2), ready("PAIR"), ready("PAIR")) for number in (1, 2)]
    assert ids_and_connections(*pairs) == [("EXPAIR-01", 2)]
    assert ids_and_connections(close(pairs[0]), pairs[1]) == []


# -- CURVE -------------------------------------------------------------------------------------------------------------


def curve(
    number: int, seconds: float = 0, key: bytes = b"k", nonce: bytes | None = b"n", port: int = 5555
) -> Conversation:
    """A CURVE handshake up to WELCOME (None: the server does not answer)."""
    talk = begin(number, seconds, port)
    for side in (0, 1):
        talk.send(side, build_greeting_3("CURVE"))
    hello = COMMANDS["CURVE HELLO"] | {"client_key": key * 32}
    talk.send(0, command("CURVE", "HELLO", **hello))
    if nonce is not None:
        welcome = COMMANDS["CURVE WELCOME"] | {"long_nonce": nonce * 16}
        talk.send(1, command("CURVE", "WELCOME", **welcome))
    return talk


def test_a_client_key_is_used_again() -> None:
    (finding,) = findings(close(curve(1)), curve(2, 5, nonce=b"m"))
    assert (finding["id"], finding["conn"], finding["side"], finding["offset"]) == ("CURVE-15", 2, 0, 64)
    assert finding["refs"][0].endswith("/0/0/64/command")
    assert ids_and_connections(curve(1), curve(2, 5, key=b"l", nonce=b"m")) == []


def test_a_replayed_hello_without_an_answer() -> None:
    assert ids_and_connections(close(curve(1)), close(curve(2, 5, nonce=None), first=1)) == [("CURVE-15", 2)]


def test_each_further_use_of_a_key_is_reported_once() -> None:
    talks = [close(curve(number, number, nonce=bytes([number]))) for number in range(5)]
    assert ids_and_connections(*talks) == [("CURVE-15", number) for number in (2, 3, 4, 5)]


def test_a_handshake_that_passes_a_relay_is_one() -> None:
    front, behind = curve(1), curve(2, 0.0005, port=5556)
    assert ids_and_connections(close(front, 1), close(behind, 1)) == []
    assert ids_and_connections(close(curve(1)), curve(2, 5)) == []


def test_a_hello_that_is_sent_again_is_one() -> None:
    talk = curve(1)
    again = next(packet for packet in talk.packets if len(packet.payload) > 200)
    talk.packets.append(replace(again, time=talk.time + 1))
    assert ids_and_connections(talk) == []


def test_a_nonce_of_welcome_is_used_again() -> None:
    (finding,) = findings(close(curve(1)), curve(2, 5, key=b"l"))
    assert (finding["id"], finding["conn"], finding["side"]) == ("CURVE-19", 2, 1)
    assert finding["refs"][0].endswith("/1/0/64/command")
    assert ids_and_connections(close(curve(1)), curve(2, 5, key=b"l", nonce=b"m")) == []
    assert ids_and_connections(close(curve(1)), curve(2, 5, key=b"l", port=5556)) == []


def test_handshakes_are_forgotten_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "MAX_HANDSHAKES", 3)
    others = [close(curve(number, number, key=bytes([number]), nonce=bytes([number]))) for number in range(2, 5)]
    assert ids_and_connections(close(curve(1)), *others[:2], curve(9, 9, nonce=b"m")) == [("CURVE-15", 4)]
    assert ids_and_connections(close(curve(1)), *others, curve(9, 9, nonce=b"m")) == []


# -- security that is not there ----------------------------------------------------------------------------------------


def old(number: int, seconds: float, version: str = "2.0", *, newer: bool = True, messages: int = 1) -> Conversation:
    """A PUSH of 1.0 or 2.0 that sends to a PULL, which could speak 3.x unless it is as old."""
    talk = begin(number, seconds)
    if version == "2.0":
        talk.send(0, build_greeting_2("PUSH"))
        talk.send(1, build_greeting_2("PULL", padding=1, revision=3 if newer else 1))
        sent = message(b"in clear")
    else:
        talk.send(0, build_greeting_1())
        talk.send(1, build_greeting_1(pseudo_signature=newer))
        sent = build_frame(Framing.V1, b"in clear")
    for _ in range(messages):
        talk.send(0, sent)
    return close(talk)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_messages_flow_without_the_security_of_the_endpoint(version: str) -> None:
    (finding,) = findings(close(curve(1)), old(2, 5, version))
    assert (finding["id"], finding["severity"], finding["conn"]) == ("ZMTP-DOWNGRADE-01", "error", 2)
    assert finding["refs"][0].endswith("/1/0/0/greeting")
    assert finding["text"].endswith(f"1 messages in {version}")
    (finding,) = findings(old(1, 0, version), old(2, 1, version), curve(3, 5), curve(4, 6, key=b"l", nonce=b"m"))
    assert (finding["conn"], finding["side"]) == (3, 1)


def test_old_peers_where_nothing_is_secured() -> None:
    null = close(meet(begin(1), ready("PUSH"), ready("PULL")))
    assert ids_and_connections(null, old(2, 5)) == []
    assert ids_and_connections(close(curve(1)), old(2, 5, messages=0)) == []
    assert ids_and_connections(close(curve(1)), old(2, 5, newer=False)) == []
    assert ids_and_connections(close(curve(1, port=5556)), old(2, 5)) == []


# -- clients that come again -------------------------------------------------------------------------------------------


def refused(number: int, seconds: float, mechanism: str = "NULL") -> Conversation:
    talk = begin(number, seconds)
    for side in (0, 1):
        talk.send(side, build_greeting_3(mechanism))
    talk.send(0, default_command(mechanism, "READY" if mechanism == "NULL" else "HELLO"))
    talk.send(1, default_command("NULL", "ERROR"))
    return close(talk, first=1)


def test_a_client_returns_after_an_error() -> None:
    (finding,) = (each for each in findings(refused(1, 0), refused(2, 1)))
    assert (finding["id"], finding["conn"]) == ("ZMTP-CONN-09", 2)
    assert finding["refs"][0].split("/", 1)[1] == f"1/0/{finding['offset']}/command"
    assert ids_and_connections(refused(1, 0), refused(2, 1, "PLAIN")) == []
    assert ids_and_connections(refused(1, 0), close(meet(begin(2, 1), ready("PUSH"), ready("PULL")))) == []
    at_once = refused(1, 0), refused(2, 0.0005)
    assert ids_and_connections(*at_once) == []  # two clients


def attempts(waits: list[float], first: int = 1, whole: bool = False) -> Iterator[Conversation]:
    """Connections that `first` closes, each these seconds after the end of the previous one."""
    at = 0.0
    for number, wait in enumerate(waits, 1):
        at += wait
        talk = begin(number, at)
        if whole:
            meet(talk, ready("PUSH"), ready("PULL"))
        else:
            talk.send(0, build_greeting_3())
            talk.send(1, build_greeting_3())
        yield close(talk, 0.01, first)
        at += (talk.time - START) / SECOND - at


def test_a_client_reconnects_without_waiting_longer() -> None:
    (finding,) = findings(*attempts([0.1] * 20))
    assert (finding["id"], finding["conn"], finding["severity"]) == ("ZMTP-CONN-10", 7, "note")
    assert "6 times in 0.6 s, 102 ms after each end" in finding["text"]
    assert ids_and_connections(*attempts([0.1] * 7, whole=True)) == [("ZMTP-CONN-10", 7)]
    assert ids_and_connections(*attempts([0.1] * 7, first=0)) == [("ZMTP-CONN-10", 7)]


def test_a_client_that_waits_longer_or_does_not_return() -> None:
    assert ids_and_connections(*attempts([0.1] * 6)) == []
    assert ids_and_connections(*attempts([0.1 * 2**number for number in range(10)])) == []
    assert ids_and_connections(*attempts([15.0] * 10)) == []
    assert ids_and_connections(*attempts([0.1] * 10, first=0, whole=True)) == []  # it closes when it is done
    crowd = [begin(number, number / 10) for number in range(10)]
    for talk in crowd:
        talk.send(0, build_greeting_3())
    assert ids_and_connections(*(close(talk, 5, first=1) for talk in crowd)) == []


# -- a connection to itself --------------------------------------------------------------------------------------------


class Alone(Packet):
    @property
    def key(self) -> bytes:
        return CLIENT * 2 + (5555).to_bytes(2, "big") * 2


@pytest.mark.parametrize("end", [0x11, 0x04, 0x10], ids=["FIN", "RST", "open"])
def test_a_connection_to_itself(end: int) -> None:
    talk = Conversation(syn=False)
    syn = Packet(0, 999, 0, 0x02, time=talk.time)
    talk.packets = [syn, replace(syn, acknowledgment=1000, flags=0x12)]
    talk.send(0, build_greeting_3() + ready("DEALER"), cuts=(10, 64))
    talk.add(0, end)
    talk.packets = [Alone(**vars(packet)) for packet in talk.packets]
    (finding,) = findings(talk)
    assert (finding["id"], finding["side"]) == ("ZMTP-CONN-11", None)
