"""Topic and content in one frame: the subscription shows where the topic ends, and what follows is read."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from tests.peer_octets import hello, message
from tests.traffic import Capture, Conversation, records
from zmtpscope.dissect import Options
from zmtpscope.payloads.registry import Registry

TOPIC = b"json-minimal-txpool_add"


def published(
    *bodies: bytes, topics: tuple[bytes, ...] = (TOPIC,), size: int = 1 << 30, only: str | None = None, times: int = 1
) -> list[Any]:
    """Return topic and payload of each message that a publisher sends to a subscriber of these topics."""
    talk = Conversation()
    talk.send(0, hello("PUB"))
    talk.send(1, hello("SUB") + b"".join(message(b"\1" + each) for each in topics))
    for _ in range(times):
        for each in bodies:
            talk.send(0, message(each))
    found, _ = records(Capture(talk.packets, size), Options(payloads=Registry(only)))
    return [(each["topic"], each["payload"]) for each in found if each.get("kind") == "data"]


@pytest.mark.parametrize("size", [1, 3, 1 << 30])
@pytest.mark.parametrize("between", [b"", b":", b" ", b": ", b"\0"])
def test_json_behind_a_topic_is_read(between: bytes, size: int) -> None:
    """monerod publishes like this."""
    messages = published(TOPIC + between + b'[{"id":"a","fee":7}]', size=size, times=5)
    summary = f'{TOPIC.decode()} [{{"id":"a","fee":7}}]'
    expected = {"protocol": "json", "summary": summary, "fields": [{"id": "a", "fee": 7}]}
    assert messages == [(TOPIC.decode(), expected)] * 5


def test_messagepack_behind_a_topic_is_read() -> None:
    ((_, payload),) = published(TOPIC + b" " + msgpack.packb({"bid": 1.5}))
    assert (payload["protocol"], payload["fields"]) == ("messagepack", {"bid": 1.5})


@pytest.mark.parametrize(
    ("body", "protocol"),
    [
        (TOPIC + b":[not json]", "text"),
        (TOPIC + b" 10001 -5", "text"),
        (TOPIC, "text"),
        (TOPIC + b"::::::[1]", "text"),
        (b'{"a":1}', "json"),
    ],
)
def test_other_messages_stay_what_they_are(body: bytes, protocol: str) -> None:
    ((_, payload),) = published(body, topics=(TOPIC, b"{"))
    assert payload["protocol"] == protocol


def test_without_a_subscription_the_end_of_the_topic_is_unknown() -> None:
    ((topic, payload),) = published(TOPIC + b":[1]", topics=(b"",))
    assert (topic, payload["protocol"]) == ("", "text")


def test_only_dissectors_that_were_asked_for_read_it() -> None:
    ((_, payload),) = published(TOPIC + b":[1]", only="messagepack")
    assert payload is None
