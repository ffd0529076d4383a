"""CURVE connections whose keys are known: what opens, what it says, and what stays closed (curve.md)."""

from __future__ import annotations

from pathlib import Path

from tests.curve import CLIENT, SERVER, CurvePeers, conversation, keys
from tests.traffic import Capture, records
from zmtpscope.dissect import Options


def test_one_shared_key_opens_everything_of_interest(tmp_path: Path) -> None:
    peers = CurvePeers()
    steps = peers.handshake()
    steps.append((CLIENT, peers.messages(CLIENT, b"hello", b"world")))
    steps.append((SERVER, peers.command(SERVER, "PING", ttl_ms=3000)))
    options = Options(keys=keys(tmp_path, peers.lines("SHARED")))
    found, analyser = records(Capture(conversation(steps).packets), options)
    message = next(each for each in found if each["record"] == "message")
    assert (message["bodies"], message["decrypted"], message["source"]) == ([b"hello", b"world"], True, 1)
    told = {each["name"]: each for each in found if each["record"] == "command"}
    assert told["READY"]["socket_type"] == "ROUTER"
    assert told["PING"]["ttl_ms"] == 3000
    assert analyser.summary.sums.hold()
