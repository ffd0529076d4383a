"""Captures of CURVE connections with their key logs; a real one is compared with the messages that its applications
sent."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.octets import SUMMANDS, octets_named
from tests.readings import CAPTURES, name_of
from tests.traffic import records
from zmtpscope.capture import open_captures
from zmtpscope.curve_keys import Keys
from zmtpscope.dissect import Analyser, Options
from zmtpscope.export import json_lines
from zmtpscope.records import from_text

CAPTURE = CAPTURES / "security" / "curve-with-key-log"

BOXED: dict[str, list[Any]] = json.loads(Path(f"{CAPTURE}.truth.json").read_text())["boxed"]


@functools.cache
def found() -> list[dict[str, Any]]:
    captures = open_captures([f"{CAPTURE}.pcap"])
    read, analyser = records(captures, Options(keys=Keys([Path(f"{CAPTURE}.keys")])))
    assert analyser.summary.sums.hold()
    return read


def names(messages: list[Any]) -> list[str]:
    return [each if isinstance(each, str) else name_of(tuple(map(from_text, each))) for each in messages]


def sent_by(socket_type: str) -> list[str]:
    """The messages that a side with this socket type sent, in order, each as its name."""
    sent = [each for each in found() if each["record"] == "message" and each["socket_type"] == socket_type]
    assert all((each["kind"], each["decrypted"], each["complete"]) == ("data", True, True) for each in sent)
    return [name_of(tuple(each["bodies"])) for each in sent]


def commands(name: str) -> list[dict[str, Any]]:
    return [each for each in found() if each["record"] == "command" and each["name"] == name]


@pytest.mark.parametrize("keys", sorted(CAPTURES.glob("*/*.keys")), ids=lambda keys: keys.stem)
def test_every_octet_has_one_record(keys: Path) -> None:
    options = Options(keys=Keys([keys]))
    analyser = Analyser(options)
    batches = analyser.run(open_captures([str(keys.with_suffix(".pcap"))]))
    naming = octets_named(json.loads(line) for batch in batches for line in json_lines.lines(batch, options))
    assert naming.faults == []
    assert {name: naming.octets[name] for name in SUMMANDS} == {
        name: getattr(analyser.summary.sums, name) for name in SUMMANDS
    }


def test_every_message_is_read_both_ways() -> None:
    assert sent_by("DEALER") == names(BOXED["dealer_to_router"])
    assert sent_by("ROUTER") == names(BOXED["router_to_dealer"])
    assert sent_by("XPUB") == names(BOXED["sub_received"])


def test_no_message_stays_closed() -> None:
    assert [each for each in found() if each["record"] == "message" and not each["decrypted"]] == []


def test_subscriptions() -> None:
    assert [b"\1" + from_text(each["topic"]) for each in commands("SUBSCRIBE")] == [
        from_text(each) for each in BOXED["subscriptions_seen"]
    ]
    assert [b"\0" + from_text(each["topic"]) for each in commands("CANCEL")] == [
        from_text(each) for each in BOXED["cancelled"]
    ]


def test_node_identities() -> None:
    connections = [each for each in found() if each["record"] == "connection"]
    types = {(each["socket_type_0"], each["socket_type_1"]): each["identity_0"] for each in connections}
    assert types == {("DEALER", "ROUTER"): "client-seed1", ("SUB", "XPUB"): None}


def test_every_heartbeat_has_its_answer() -> None:
    pings, pongs = commands("PING"), commands("PONG")
    assert len(pings) == len(pongs) > 0
    assert all(each["decrypted"] for each in [*pings, *pongs])


def test_nothing_is_wrong() -> None:
    assert [each["id"] for each in found() if each.get("severity") in ("warn", "error")] == []
