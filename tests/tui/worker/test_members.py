"""Members of JSON, MessagePack and CBOR are shown by key, with the octets of both."""

from __future__ import annotations

from collections.abc import Callable

import cbor2
import msgspec
import pytest

from tests.dissect.talks import connected
from tests.peer_octets import message
from tests.traffic import Capture
from zmtpscope.dissect import Analyser, Options
from zmtpscope.payloads.registry import Registry
from zmtpscope.store import Store
from zmtpscope.tui.requests import Details, Node
from zmtpscope.tui.worker.details import details_of

VALUE = {"price": 12, "who": {"items": [True, "a,b"]}, "key": 1.5}


@pytest.mark.parametrize("encode", [msgspec.json.encode, msgspec.msgpack.encode, cbor2.dumps])
def test_members_are_named_by_key_with_the_octets_of_key_and_value(encode: Callable[[object], bytes]) -> None:
    details = details_of_message(encode(VALUE))
    start = next(place for place, node in enumerate(details.nodes) if node.name.endswith("body")) + 2
    shown = [(node.name, node.value) for node in details.nodes[start : start + 6]]
    names = ["price", "who", "items", "[0]", "[1]", "key"]
    assert [name for name, _ in shown] == names
    assert dict(shown)["price"] == "12"
    assert dict(shown)["[1]"] == '"a,b"'
    assert dict(shown)["key"].strip('"') == "1.5"
    octets = octets_of(details, details.nodes[start + 1])
    assert encode("who") in octets
    assert encode("a,b") in octets
    assert encode("price") not in octets


def details_of_message(body: bytes) -> Details:
    talk = connected("PUSH", "PULL")
    talk.send(0, message(body))
    options = Options(payloads=Registry(), index=True)
    store = Store(options)
    for batch in Analyser(options).run(Capture(talk.packets)):
        store.append(batch)
    number = next(number for number in range(len(store)) if store.row(number)["record"] == "message")
    return details_of(store, number)


def octets_of(details: Details, node: Node) -> bytes:
    source = details.sources[node.source]
    return source.octets[node.start - source.first : node.stop - source.first]
