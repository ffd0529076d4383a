"""Find subscriptions that were made or cancelled: by commands in ZMTP 3.1, by messages in earlier versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from zmtpscope.dissect.records.topic_words import LONGEST_TOPIC
from zmtpscope.records import from_text
from zmtpscope.tui.worker.views.known_connections import KnownConnection, KnownConnections
from zmtpscope.tui.worker.views.view import Step
from zmtpscope.zmtp.events import MARKED, SUBSCRIBE


class Change(NamedTuple):
    """`side` subscribes to `topic` (cut to `LONGEST_TOPIC` octets), or cancels. `time` is in ns."""

    connection: KnownConnection
    side: int
    topic: bytes
    is_new: bool
    number: int
    time: int


def changes_of(step: Step, known: KnownConnections) -> Iterator[Change]:
    """Yield the subscriptions made or cancelled in a step, in order for each connection. `known` stores the facts in
    its records."""
    for number, record in step.records("greeting", "command", "connection"):
        values = record.values
        connection = known.of_record(values)
        is_change = record.type == "command" and values["name"] in ("SUBSCRIBE", "CANCEL")
        if connection is not None and is_change and values["topic"] is not None:
            topic, is_new = from_text(values["topic"])[:LONGEST_TOPIC], values["name"] == "SUBSCRIBE"
            yield Change(connection, values["side"], topic, is_new, number, values["ts_ns"])
    for messages in step.messages:
        connections = [known.of_sender(sender) for sender in messages.senders]
        marked = np.flatnonzero(messages.special & MARKED).tolist()
        if not marked:
            continue
        texts, topic_of = messages.topics
        for place in marked:
            sender, topic = int(messages.sender_of[place]), texts[topic_of[place]]
            connection = connections[sender]
            if connection is not None and topic is not None:
                is_new = bool(messages.special[place] & SUBSCRIBE)
                side, number = messages.senders[sender].stream.side or 0, int(messages.numbers[place])
                yield Change(connection, side, topic[:LONGEST_TOPIC], is_new, number, int(messages.time_ends[place]))
