"""JSON lines: every field, on every line, whatever way a line was made."""

from __future__ import annotations

import base64
import json
import pathlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser, Batch, MessageRun, Options
from zmtpscope.dissect.batch import Stream
from zmtpscope.export.json_lines import escaped, lines, message_lines, record_line
from zmtpscope.records import RECORDS
from zmtpscope.zmtp.regime import Framing, Phase, regime

CAPTURES = pathlib.Path(__file__).parent.parent.parent / "captures"
FILES = sorted(path for path in CAPTURES.rglob("*.pcap*") if path.suffix != ".json")
DEFAULT = Options()
STREAM = Stream(3, "00ff00ff00ff00ff", 0, "10.0.0.2", 51234, "fe80::1%25", 5555)


def batches(path: pathlib.Path, options: Options) -> list[Batch]:
    return list(Analyser(options).run(open_captures([str(path)])))


def records(path: pathlib.Path, options: Options = DEFAULT) -> list[dict[str, Any]]:
    return [json.loads(line) for batch in batches(path, options) for line in lines(batch, options)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_lines_have_every_field_of_their_record_and_the_time(path: pathlib.Path) -> None:
    for record in records(path, Options(frames=True)):
        names = [field.name for field in RECORDS[record["record"]].fields]
        names.insert(names.index("ts_ns") + 1, "time")
        assert list(record) == names


OPTIONS = [
    DEFAULT,
    Options(bodies="none"),
    Options(bodies="head", head=3),
    Options(body_limit=20),
]


@pytest.mark.parametrize("options", OPTIONS, ids=["full", "none", "head", "limit"])
def test_the_quick_way_writes_what_the_careful_one_does(options: Options) -> None:
    names = ("pubsub", "reqrep", "curve-4.3.5", "holes", "xpub-xsub", "frame-sizes", "midstream-1.0", "jeromq-pubsub")
    for path in FILES:
        if path.stem in names:
            for batch in batches(path, options):
                for run in batch.runs:
                    careful = [record_line(run, index, batch.files, options) for index in range(len(run.first))]
                    assert list(message_lines(run, batch.files, options)) == careful


@st.composite
def message_runs(draw: st.DrawFn) -> MessageRun:
    """Messages in a stretch of a stream, parts of which may be missing in front and behind."""
    messages = draw(st.lists(st.lists(st.binary(max_size=12), min_size=1, max_size=4), min_size=1, max_size=5))
    kinds = draw(
        st.lists(st.sampled_from([0, 0, 0, 0x100, 0x200, 0x400]), min_size=len(messages), max_size=len(messages))
    )
    data, offsets, bodies, sizes, flags, first, last = b"", [], [], [], [], [], []
    for parts, kind in zip(messages, kinds, strict=True):
        first.append(len(offsets))
        for place, body in enumerate(parts):
            offsets.append(len(data))
            bodies.append(len(data) + 2)
            sizes.append(len(body))
            flags.append(int(place < len(parts) - 1) | kind)
            data += bytes([flags[-1] & 1, len(body)]) + body
        last.append(len(offsets) - 1)
    if draw(st.booleans()):
        sizes[-1] = draw(st.sampled_from([100, 2**48 + 1, 2**63 - 1]))  # announced, never sent whole
    lost, kept = draw(st.integers(0, 3)), len(data) - draw(st.integers(0, 3))
    times = draw(st.lists(st.integers(-(2**60), 2**62), min_size=len(messages), max_size=len(messages)))
    packets = [draw(st.sampled_from([7, (1 << 40) | 9])) for _ in messages]
    types = st.sampled_from([None, "PUB", "XPUB", "REQ", "REP", "ROUTER", "100 %d %s"])
    as_array = lambda values: np.array(values, np.int64)  # noqa: E731
    run = MessageRun(
        stream=STREAM,
        regime=regime(Framing.V2, "3.1", "NULL", Phase.TRAFFIC),
        confidence="likely",
        data=data[lost:kept],
        base=1000 + lost,
        offsets=as_array(offsets) + 1000,
        bodies=as_array(bodies) + 1000,
        sizes=as_array(sizes),
        flags=as_array(flags),
        pieces=None,
        version=draw(st.sampled_from([None, "3.1"])),
        socket_type=draw(types),
        peer_socket_type=draw(types),
        first=as_array(first),
        last=as_array(last),
        complete=np.array([draw(st.booleans()) for _ in messages]),
        orders=as_array(range(len(messages))),
        packets=as_array(packets),
        times=as_array(times),
        packet_ends=as_array(packets),
        time_ends=as_array(times),
    )
    return run


@settings(max_examples=200)
@given(message_runs(), st.sampled_from(OPTIONS))
def test_the_quick_way_equals_the_careful_one_for_any_rows(run: MessageRun, options: Options) -> None:
    files = ['odd "%" name \udcff', None]
    careful = [record_line(run, index, files, options) for index in range(len(run.first))]
    assert list(message_lines(run, files, options)) == careful


def test_bodies_are_base64_and_names_are_text() -> None:
    messages = [record for record in records(CAPTURES / "patterns" / "pubsub.pcap") if record["record"] == "message"]
    assert messages[0]["topic"] == "a.topic"
    assert [base64.b64decode(body) for body in messages[0]["bodies"]] == [b"a.topic", b"payload 0"]
    assert messages[0]["sizes"] == [7, 9]


def test_time_is_the_time_stamp_for_people() -> None:
    for record in records(CAPTURES / "patterns" / "reqrep.pcap"):
        assert record["time"].endswith(f"{record['ts_ns'] % 10**9:09}Z")
        assert np.datetime64(record["time"][:-1], "ns").astype(np.int64) == record["ts_ns"]


def test_passwords_are_masked_unless_asked_for() -> None:
    path = CAPTURES / "security" / "plain-accepted.pcap"
    for options, shown in ((Options(), "***"), (Options(show_secrets=True), "s3cret")):
        hello = [record for record in records(path, options) if record.get("name") == "HELLO"]
        assert [(record["username"], record["password"]) for record in hello] == [("admin", shown)]


def test_a_terminal_gets_ascii_that_means_the_same() -> None:
    line = json.dumps({"text": "Grüße \x7f 🚀 \u202e", "octets": "AAAA"}, ensure_ascii=False).encode()
    assert escaped(line).isascii()
    assert b"\x7f" not in escaped(line)
    assert json.loads(escaped(line)) == json.loads(line)


def test_a_number_that_no_signed_64_bits_hold_is_null() -> None:
    path = CAPTURES / "security" / "curve-4.3.5.pcap"
    for batch in batches(path, DEFAULT):
        for record in batch.records:
            if record.type == "command" and record.values["nonce"] is not None:
                changed = replace(record, values={**record.values, "nonce": 2**63})
                assert json.loads(record_line(changed, -1, batch.files, DEFAULT))["nonce"] is None
                return
    raise AssertionError("no command with a nonce")


@given(message_runs())
def test_no_row_has_a_number_that_is_negative_or_too_large(run: MessageRun) -> None:
    for line in message_lines(run, ["a", "b"], DEFAULT):
        row = json.loads(line)
        assert row["length"] is None or 0 < row["length"] < 2**63
