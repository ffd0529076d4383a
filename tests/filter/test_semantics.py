"""The meaning of filters (docs/filters.md), on records written here."""

from __future__ import annotations

from typing import Any

import pytest

from zmtpscope.filter import Filter
from zmtpscope.records import RECORDS, SECOND, empty

START = 1_700_000_000 * SECOND


def record(type_: str, **values: Any) -> dict[str, Any]:
    assert set(values) <= {field.name for field in RECORDS[type_].fields}
    return empty(type_) | {"record": type_, "ts_ns": START + SECOND, "src_ip": "10.0.0.7", "src_port": 5556} | values


MESSAGE = record(
    "message",
    conn=3,
    packet=17,
    dst_ip="fe80::1",
    dst_port=40_000,
    topic="prices.EUR",
    sizes=[10, 1500],
    parts=2,
    bodies=[b"prices.EUR", b"\x01\x02\xff abc"],
    socket_type="PUB",
    kind="data",
    decrypted=False,
    complete=True,
    payload={
        "protocol": "json",
        "summary": "{...}",
        "fields": {"price": 3.5, "name": "EUR", "odd name": [1, {"deep": [7, None]}], "open": True, "none": None},
    },
)
COMMAND = record("command", name="READY", metadata=[{"name": "Socket-Type", "value": "SUB"}], ttl_ms=None, size=40)
PING = record("command", name="PING", ttl_ms=2_500, context=b"\xaa\xbb")
FINDING = record("finding", id="ZMTP-SUB-07", severity="error", count=3)

HOLDS = [
    # one value
    (MESSAGE, 'topic == "prices.EUR"'),
    (MESSAGE, "topic == prices.EUR"),
    (MESSAGE, 'topic != "other"'),
    (MESSAGE, "parts == 2 and parts <= 2 && parts > 1"),
    (MESSAGE, "parts < 2 or parts ge 2"),
    (MESSAGE, "not parts == 3"),
    (MESSAGE, "!(parts == 3) && ! kind == encrypted"),
    (MESSAGE, "2 == parts and 1 < parts"),
    (MESSAGE, "parts in {1, 2}"),
    (MESSAGE, "parts in {5..9 2..3}"),
    (MESSAGE, 'topic contains "EUR"'),
    (MESSAGE, "topic matches '^PRICES[.]'"),  # in any case
    (MESSAGE, 'topic ~ "eur$"'),
    (MESSAGE, "type == message"),  # `message` is a field, too, but a number
    (MESSAGE, "src_port == 5556"),
    (MESSAGE, "src_port != dst_port"),
    (MESSAGE, "socket_type in {PUB XPUB}"),
    (FINDING, "finding == ZMTP-SUB-07"),
    (FINDING, "severity in {error, warn} and count > 2"),
    # existence
    (MESSAGE, "topic"),
    (MESSAGE, "complete"),  # a truth is true
    (MESSAGE, "not decrypted"),
    (MESSAGE, "decrypted == false and complete == True"),
    (MESSAGE, "not name"),
    # lists: any of them, != none of them
    (MESSAGE, "sizes == 10"),
    (MESSAGE, "sizes > 1000"),
    (MESSAGE, "sizes != 11"),
    (MESSAGE, "all sizes >= 10"),
    (MESSAGE, "all(sizes in {10, 1500})"),
    (MESSAGE, "any sizes != 10"),
    (MESSAGE, "sizes[0] == 10 and sizes[1] == 1500 and sizes[-1] == 1500"),
    (MESSAGE, 'bodies[1] contains "abc"'),
    (MESSAGE, "bodies[1][0:2] == 01:02"),
    (MESSAGE, "bodies contains ff:20"),
    (MESSAGE, r'bodies contains "\xff abc"'),
    (COMMAND, "metadata.name == Socket-Type and metadata.value == SUB"),
    # slices, as Wireshark has them: [start:length], [first-last]
    (MESSAGE, "topic[0:6] == prices"),
    (MESSAGE, "topic[7-9] == EUR"),
    (MESSAGE, "topic[7:] == EUR and topic[:6] == prices and topic[-3:] == EUR and topic[1] == r"),
    (MESSAGE, "len(topic) == 10 and lower(topic) == prices.eur and upper(topic[0]) == P"),
    # units
    (MESSAGE, "size == 1510 and size < 1.5KiB and size > 1.5kB and size == 0x5e6"),
    (PING, "ttl_ms == 2500 and ttl_ms == 2.5s and ttl_ms > 1s"),
    (MESSAGE, 'time == "2023-11-14 22:13:21" and time > "2023-11-14" and time < "2023-11-14T23:13:21.5+00:30"'),
    (MESSAGE, 'time in {"2023-11-14".."2023-11-15"}'),
    # addresses
    (MESSAGE, "src_ip == 10.0.0.7 and ip == 10.0.0.0/8 and ip == fe80::/10 and not ip == 11.0.0.0/8"),
    (MESSAGE, "ip != 192.168.0.0/16 and port == 40000"),
    (MESSAGE, "ip in {10.0.0.1, 10.0.0.7}"),
    # payloads
    (MESSAGE, "record == message and type in {message, finding}"),
    (FINDING, "record == finding and type != frame"),
    (MESSAGE, "payload.protocol == json"),
    (MESSAGE, "payload.fields.price > 3 and payload.fields.price == 3.5"),
    (MESSAGE, "payload.fields.name == EUR and payload.fields.open == true and payload.fields.open"),
    (MESSAGE, 'payload.fields["odd name"] == 1 and payload.fields["odd name"][1]["deep"] == 7'),
    (MESSAGE, 'payload.fields["odd name"].deep in {7..8}'.replace('"].deep', '"]["deep"]')),
    # Wireshark's names and scales
    (MESSAGE, "tcp.stream == 2 and frame.number == 17 and tcp.port == 5556 and tcp.srcport in {5000..6000}"),
    (MESSAGE, "ip.src == 10.0.0.7 and ipv6.dst == fe80::1 and not ip.dst"),
    (MESSAGE, "frame.time_epoch == 1700000001 and frame.time_epoch < 1700000001.5"),
    (MESSAGE, "frame.time_relative == 1 and frame.time_relative < 1.5"),
    (MESSAGE, "zmtp.length == 10 and zmtp.data contains 01:02 and zmtp.data.text contains abc"),
    (PING, "zmtp.ping.ttl == 25 and zmtp.ping.context == aa:bb and zmtp.command-name == PING"),
    (COMMAND, "zmtp.metadata.key == Socket-Type and zmtp.length == 40"),
]

FAILS = [
    # null equals nothing
    (FINDING, "topic == x"),
    (FINDING, "topic != x"),
    (FINDING, "sizes > 0"),
    (FINDING, "all sizes > 0"),
    (FINDING, "count == side"),
    (PING, "complete"),
    (MESSAGE, "payload.fields.none"),
    (MESSAGE, "payload.fields.none != 1"),
    (MESSAGE, "udp.port == 5556"),
    (MESSAGE, "sizes[2] > 0"),
    (MESSAGE, "sizes[-3] > 0"),
    (MESSAGE, "sizes != 10"),
    (MESSAGE, "all sizes == 10"),
    (MESSAGE, "decrypted"),
    # types of payload fields
    (MESSAGE, "payload.fields.name > 3"),
    (MESSAGE, 'payload.fields.price == "3.5"'),
    (MESSAGE, "payload.fields.name in {1..5}"),
    (MESSAGE, "payload.fields.price in {a..z}"),
    (MESSAGE, "payload.fields.price contains 3"),
    (MESSAGE, "payload.fields.open == 1"),
    (MESSAGE, "ip == 10.0.0.8"),
]


@pytest.mark.parametrize(("values", "text"), HOLDS)
def test_a_filter_holds(values: dict[str, Any], text: str) -> None:
    assert Filter(text).holds(values | {"capture_start_ns": START})
    assert not Filter(f"not ({text})").holds(values | {"capture_start_ns": START})


@pytest.mark.parametrize(("values", "text"), FAILS)
def test_a_filter_does_not_hold(values: dict[str, Any], text: str) -> None:
    assert not Filter(text).holds(values | {"capture_start_ns": START})
    assert Filter(f"not ({text})").holds(values | {"capture_start_ns": START})


def test_an_expression_that_others_would_never_finish_ends() -> None:
    text = r'topic matches "(a*)*(a|aa)*b$"'
    assert not Filter(text).holds(record("message", topic="a" * 100_000))
