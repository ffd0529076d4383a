"""Counts of stored messages equal the counts of their records."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.readings import CAPTURES
from tests.store.stores import FILES, SMALLEST_BLOCK, opened
from zmtpscope.dissect.records.message_columns import MessageColumns

OF_SENDER = ("conn", "side", "src_ip", "src_port", "dst_ip", "dst_port", "version", "socket_type", "peer_socket_type")


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_counts_of_messages_match_their_records(path: Path) -> None:
    store, _ = opened(path, block_size=SMALLEST_BLOCK)
    rows = np.arange(len(store))[1::3]
    number = 0
    for counted in store.messages(rows):
        texts, topic_of = counted.topics
        batch = store.batch(counted.numbers)
        columns = MessageColumns.of(batch)
        assert len(counted) == len(columns)
        assert counted.body_octets.tolist() == columns.body_octets.tolist()
        assert counted.time_ends.tolist() == columns.time_ends.tolist()
        assert counted.counts.tolist() == columns.counts.tolist()
        assert counted.special.tolist() == columns.special.tolist()
        assert counted.complete.tolist() == columns.complete.tolist()
        assert [texts[code] for code in topic_of] == columns.topic().octets.tolist()
        protocols = [(columns.payload()[place] or {}).get("protocol") for place in range(len(columns))]
        for protocol in {*protocols} - {None, "text"}:
            having = [
                number for number, each in zip(counted.numbers.tolist(), protocols, strict=True) if each == protocol
            ]
            assert counted.of_protocol(str(protocol)).tolist() == having
        for place in range(len(columns)):
            values, sender = columns.values(place), counted.senders[counted.sender_of[place]]
            fields = {**sender.stream._asdict(), **sender._asdict()}
            assert {name: fields[name] for name in OF_SENDER} == {name: values[name] for name in OF_SENDER}
        number += len(counted)
    assert number == sum(len(store.batch([row]).messages) for row in rows.tolist())


def test_payloads_are_counted_by_their_protocol() -> None:
    store, _ = opened(CAPTURES / "problems" / "json-payload.pcap")
    found = {
        name: [number for counted in store.messages(range(len(store))) for number in counted.of_protocol(name).tolist()]
        for name in ("json", "messagepack")
    }
    assert all(found.values())
    assert not set(found["json"]) & set(found["messagepack"])


@pytest.mark.parametrize("path", FILES[::4], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_other_records_have_their_numbers(path: Path) -> None:
    store, _ = opened(path, block_size=SMALLEST_BLOCK)
    rows = np.arange(len(store))[::2]
    found = list(store.others(rows, ("command", "finding", "connection")))
    expected = [
        number for number in rows.tolist() if store.row(number)["record"] in ("command", "finding", "connection")
    ]
    assert [number for number, _ in found] == expected
    for number, record in found:
        assert record.values["ts_ns"] == store.row(number)["ts_ns"]
        assert record.type == store.row(number)["record"]
