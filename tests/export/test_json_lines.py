"""JSON lines: every line has every field, however it was made."""

from __future__ import annotations

import base64
import json
import pathlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dissect.talks import connected
from tests.peer_octets import message
from tests.readings import CAPTURE_FILES, CAPTURES, EVERY_CAPTURE
from tests.rows_by_hand import values_of
from tests.suites import examples
from tests.traffic import Capture
from tests.twins import twins
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser, Batch, FrameTable, MessageTable, Options, Record
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records import topics
from zmtpscope.dissect.records.batch import RANKS
from zmtpscope.dissect.records.row_contents import Wanted, asked_rows
from zmtpscope.dissect.records.tables import Sender
from zmtpscope.export import json_lines, json_rows
from zmtpscope.export.json_lines import escaped, line_of, lines
from zmtpscope.export.values import record_values
from zmtpscope.payloads.dissected import Dissected
from zmtpscope.payloads.registry import Registry
from zmtpscope.record_fields import COMMON
from zmtpscope.records import RECORDS, empty
from zmtpscope.zmtp.regime import Framing, Phase, regime

DEFAULT = Options()
STREAM = Stream(3, "00ff00ff00ff00ff", 0, "10.0.0.2", 51234, "fe80::1%25", 5555)


def batches(path: pathlib.Path, options: Options) -> list[Batch]:
    return list(Analyser(options).run(open_captures([str(path)])))


def records(path: pathlib.Path, options: Options = DEFAULT) -> list[dict[str, Any]]:
    return [json.loads(line) for batch in batches(path, options) for line in lines(batch, options)]


def careful(batch: Batch, options: Options) -> list[bytes]:
    return [line_of(values) for values in values_of(batch, options)]


@pytest.mark.parametrize("path", CAPTURE_FILES, ids=lambda path: path.name)
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
    Options(payloads=Registry()),
]


@pytest.mark.parametrize("options", OPTIONS, ids=["full", "none", "head", "limit", "payloads"])
def test_the_quick_way_writes_what_the_careful_one_does(options: Options) -> None:
    names = ("pubsub", "reqrep", "curve-4.3.5", "holes", "xpub-xsub", "frame-sizes", "midstream-1.0", "jeromq-pubsub")
    names += ("jupyter", "zre-zyre")
    for path in EVERY_CAPTURE:
        if path.stem in names:
            for batch in batches(path, options):
                wanted = careful(batch, options)
                for lines_between in twins("zmtpscope.export.json_text.lines_between"):
                    with pytest.MonkeyPatch.context() as patched:
                        patched.setattr(json_lines, "lines_between", lines_between)
                        assert list(lines(batch, options)) == wanted


JSON = [b"{}", b"[]", b'{"a": [1, 2.50, true]}', b'{"a":1,"a":2}', b'[1e3, "\\n"]', b'{"a":\n1}', b'{"a": 1', b" [0]"]
JSON += [
    '{"\xe9": "\U0001f600"}'.encode(),
    b'{"text": "' + b"x" * 300 + b'", "n": -0.010}',
    b"[" + b"1," * 3000 + b"1]",
]
"""Some are plain JSON, some are not, and some are no JSON."""
SHAPES = Registry().asked()[2]


def batches_of_json() -> list[Batch]:
    conversation = connected("PUSH", "PULL")
    conversation.send(0, b"".join(map(message, JSON)))
    found = list(Analyser(Options(payloads=Registry())).run(Capture(conversation.packets)))
    assert (
        sum(int(run.json.sum()) for batch in found for run in batch.messages if run.json is not None) == len(JSON) - 2
    )
    return found


def test_json_is_written_as_if_its_values_were_made() -> None:
    options = Options(payloads=Registry())
    for batch in batches_of_json():
        wanted = careful(batch, options)
        for lines_between in twins("zmtpscope.export.json_text.lines_between"):
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(json_lines, "lines_between", lines_between)
                assert list(lines(batch, options)) == wanted


@st.composite
def message_runs(
    draw: st.DrawFn, stream: Stream = STREAM, bodies_of: st.SearchStrategy[bytes] | None = None
) -> MessageTable:
    """Messages in a stretch of a stream, parts of which may be missing in front and behind."""
    size = draw(st.sampled_from([0, 1, 2, 3, 12, 200, 201, 1500]))
    text = st.text(' a"\\~', min_size=size, max_size=size).map(str.encode)
    body = st.binary(min_size=size, max_size=size) | text | text | st.sampled_from([b"", b"abc", b"a\x7f"])
    body = body | st.sampled_from(JSON) if size else st.just(b"")
    parts = st.lists(body if bodies_of is None else bodies_of, min_size=1, max_size=draw(st.sampled_from([1, 4, 8])))
    messages = draw(st.lists(parts, min_size=1, max_size=5))
    kinds = draw(
        st.lists(st.sampled_from([0, 0, 0, 0x100, 0x200, 0x400]), min_size=len(messages), max_size=len(messages))
    )
    header = draw(st.sampled_from([2, 9]))
    data, offsets, bodies, sizes, flags, first, last = b"", [], [], [], [], [], []
    for parts_of, kind in zip(messages, kinds, strict=True):
        first.append(len(offsets))
        for place, octets in enumerate(parts_of):
            offsets.append(len(data))
            bodies.append(len(data) + header)
            sizes.append(len(octets))
            flags.append(int(place < len(parts_of) - 1) | kind)
            data += bytes([0xFF] * header) + octets
        last.append(len(offsets) - 1)
        data += b"\x04\x00" * draw(st.integers(0, 3))  # records other than messages
    if draw(st.booleans()):
        sizes[-1] = draw(st.sampled_from([100, 2**48 + 1, 2**63 - 1]))  # announced, never sent whole
    lost, kept = draw(st.integers(0, 3)), len(data) - draw(st.integers(0, 3))
    times = draw(st.lists(st.sampled_from([-1, 0, 5, 2**62]), min_size=len(messages), max_size=len(messages)))
    packets = [draw(st.sampled_from([7, 8, (1 << 40) | 9])) for _ in messages]
    types = st.sampled_from([None, "PUB", "XPUB", "SUB", "REQ", "REP", "ROUTER", "100 %d %s"])
    as_array = lambda values: np.array(values, np.int64)  # noqa: E731
    sender = Sender(
        stream=stream,
        regime=regime(Framing.V2, "3.1", "NULL", Phase.TRAFFIC),
        confidence=draw(st.sampled_from(["proven", "likely", "guess"])),
        data=data[lost:kept],
        base=1000 + lost,
        end=1000 + len(data),
        version=draw(st.sampled_from([None, "3.1"])),
        socket_type=draw(types),
        peer_socket_type=draw(types),
    )
    run = MessageTable(
        senders=[sender],
        offsets=as_array(offsets) + 1000,
        bodies=as_array(bodies) + 1000,
        sizes=as_array(sizes),
        flags=as_array(flags),
        first=as_array(first),
        last=as_array(last),
        complete=np.array([draw(st.sampled_from([True, True, True, False])) for _ in messages]),
        orders=as_array(sorted(draw(st.integers(0, 5)) for _ in messages)),
        packets=as_array(packets),
        times=as_array(times),
        packet_ends=as_array(packets[::-1]),
        time_ends=as_array(times[::-1]),
    )
    if run.socket_type is not None:
        run.topics = topics.first_frames(run)
        for row in np.flatnonzero(topics.may_match(run)).tolist():
            run.topics[row] = draw(st.integers(-1, min(int(run.sizes[run.first[row]]), topics.LARGEST_TOPIC)))
    if draw(st.booleans()):
        run.payloads = [None if kind else draw(st.none() | st.none() | payloads) for kind in kinds]
    if draw(st.sampled_from([True, True, True, False])):
        others = np.array([run.payloads is None or run.payloads[row] is None for row in range(len(messages))])
        asked = asked_rows(run, SHAPES, Wanted(True, False, False, texts=True, json=True, limit=1 << 20))
        run.texts = None if asked.texts is None else asked.texts & others
        run.json = np.isin(np.arange(len(messages)), asked.json) & others
    return run


words = st.text(max_size=8)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words
    | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
contents_of = st.none() | st.lists(values, max_size=3) | st.dictionaries(words, values, max_size=3)
payloads = st.builds(Dissected, st.sampled_from(["", "json", "text", "zre"]), words, contents_of)
"""Results of dissectors; results without a protocol have failed."""


def frames_of(run: MessageTable) -> FrameTable:
    """The frames of the first messages of a run, one by one."""
    count = len(run.first)
    rows = {name: getattr(run, name) for name in ("orders", "packets", "times")}
    columns = {name: getattr(run, name)[:count] for name in ("offsets", "bodies", "sizes", "flags")}
    return FrameTable(senders=run.senders, **columns, messages=columns["offsets"], **rows)


@st.composite
def mixed_batches(draw: st.DrawFn) -> Batch:
    """Runs of some streams, their frames, and records between them."""
    batch = Batch(['odd "%" name \udcff', None])
    for conn in range(1, draw(st.integers(1, 4))):
        stream = STREAM._replace(conn=conn, side=draw(st.sampled_from([0, 1])))
        run = draw(message_runs(stream))
        batch.messages.append(run)
        if draw(st.booleans()):
            batch.frames.append(frames_of(run))
    for ordinal in draw(st.lists(st.integers(0, 6), max_size=5)):
        values = empty("gap") | {"schema": 1, "record": "gap", "ts_ns": 5, "reason": 'file","file":'}
        batch.records.append(Record.of("gap", (ordinal, draw(st.integers(0, 4)), 0, 0, 0, RANKS["gap"]), values))
    return batch


@examples(300)
@given(
    mixed_batches(),
    st.sampled_from([*OPTIONS, Options(bodies="head", head=0)]),
    st.sampled_from([1, 1000, json_rows.CHUNK]),
)
def test_the_quick_way_equals_the_careful_one_for_any_rows(batch: Batch, options: Options, chunk: int) -> None:
    wanted = careful(batch, options)
    for lines_between in twins("zmtpscope.export.json_text.lines_between"):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(json_lines, "lines_between", lines_between)
            patched.setattr(json_rows, "CHUNK", chunk)  # how many rows are made at once changes nothing
            assert list(lines(batch, options)) == wanted


@pytest.mark.parametrize("lines_between", twins("zmtpscope.export.json_text.lines_between"))
def test_plain_text_is_a_string_of_json(lines_between: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "lines_between", lines_between)
    printable = "".join(map(chr, range(0x20, 0x7F)))
    texts = [*printable, *(printable[at:] + printable[:at] for at in range(len(printable)))]
    talk = connected("PUSH", "PULL")
    talk.send(0, b"".join(message(text.encode()) for text in texts))
    options = Options(payloads=Registry())
    read = [
        json.loads(line) for batch in Analyser(options).run(Capture(talk.packets, 9)) for line in lines(batch, options)
    ]
    rows = [record for record in read if record["record"] == "message"]
    assert [row["payload"]["summary"] for row in rows] == texts
    assert [base64.b64decode(row["bodies"][0]).decode() for row in rows] == texts


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


@given(
    st.integers(-(2**62), 2**62),
    st.none() | st.integers(0, 2**40),
    st.none() | st.text(max_size=9),
    st.binary(max_size=99),
)
def test_p20_the_line_of_a_record_is_the_line_of_its_values(
    time: int, packet: int | None, file: str | None, octets: bytes
) -> None:
    own = dict.fromkeys([field.name for field in RECORDS["leftover"].fields[len(COMMON) :]]) | {"data": octets}
    record = Record("leftover", (0, 0, 0, 0, 0, 0), STREAM, time, file, packet, own)
    for lines_of_records in twins("zmtpscope.export.json_text.lines_of_records"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(json_lines, "lines_of_records", lines_of_records)
            assert [*lines(Batch([], records=[record]), DEFAULT)] == [line_of(record_values(record, DEFAULT))]


def test_a_number_that_no_signed_64_bits_hold_is_null() -> None:
    path = CAPTURES / "security" / "curve-4.3.5.pcap"
    for batch in batches(path, DEFAULT):
        for record in batch.records:
            if record.type == "command" and record.own["nonce"] is not None:
                changed = replace(record, own={**record.own, "nonce": 2**63})
                (line,) = lines(Batch([], records=[changed]), DEFAULT)
                assert json.loads(line)["nonce"] is None
                assert record_values(changed, DEFAULT)["nonce"] is None
                return
    raise AssertionError("no command with a nonce")


@given(message_runs())
def test_no_row_has_a_number_that_is_negative_or_too_large(run: MessageTable) -> None:
    for line in lines(Batch(["a", "b"], messages=[run]), DEFAULT):
        row = json.loads(line)
        assert row["length"] is None or 0 < row["length"] < 2**63
