"""`zmtpscope.read`: the records of `read --json` as objects, one by one and as tables."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pathlib
import threading
import warnings
from collections.abc import Callable, Iterator

import orjson
import pytest

import zmtpscope
from docs.api import generate
from tests.readings import CAPTURE_FILES, CAPTURES, PUBSUB, read_inside
from tests.waiting import PATIENCE
from zmtpscope.export.values import as_base64


@pytest.fixture(autouse=True)
def ignored_warnings() -> Iterator[None]:
    with warnings.catch_warnings(action="ignore", category=zmtpscope.CaptureWarning):
        yield


@pytest.mark.parametrize("path", CAPTURE_FILES, ids=lambda path: path.stem)
def test_records_match_json_lines(path: pathlib.Path) -> None:
    records = list(zmtpscope.read(path, zmtpscope.Record))
    lines = [orjson.dumps(record.as_dict(), default=as_base64) for record in records]
    expected = [{name: line[name] for name in line if name != "time"} for line in read_inside(path).records]
    assert list(map(json.loads, lines)) == expected
    for record in records:
        known = generate.KNOWN[record.type.name]
        assert [name for name in known if getattr(record, name) is None] == []
        assert repr(record).isprintable()


def test_a_class_selects_its_records_and_a_filter_some_of_them() -> None:
    everything = list(zmtpscope.read(PUBSUB, zmtpscope.Record))
    commands = [record.as_dict() for record in everything if isinstance(record, zmtpscope.Command)]
    assert [record.as_dict() for record in zmtpscope.read(PUBSUB, zmtpscope.Command)] == commands
    about_a = [each for each in commands if each["topic"] == "a"]
    found = zmtpscope.read(PUBSUB, zmtpscope.Record, filter="record == command and topic == a")
    assert [record.as_dict() for record in found] == about_a != []


def test_frames_are_had_by_their_class() -> None:
    frames = list(zmtpscope.read(PUBSUB, zmtpscope.Frame))
    messages = list(zmtpscope.read(PUBSUB))
    assert [frame.size for frame in frames] == [size for message in messages for size in message.sizes or ()]
    assert {type(frame) for frame in frames} == {zmtpscope.Frame}


def test_the_size_of_a_message_is_that_of_its_frames() -> None:
    encrypted = CAPTURES / "security/curve-4.3.5.pcap"
    for message in [*zmtpscope.read(PUBSUB), *zmtpscope.read(encrypted)]:
        assert message.size == (None if message.sizes is None else sum(message.sizes))


def test_several_files_and_directories_are_merged() -> None:
    paths = [CAPTURES / "patterns/reqrep.pcap", PUBSUB]
    times = [record.ts_ns for record in zmtpscope.read(paths, zmtpscope.Connection)]
    assert len(times) == sum(1 for path in paths for _ in zmtpscope.read(path, zmtpscope.Connection))
    assert sum(1 for _ in zmtpscope.read(CAPTURES / "patterns")) > 1000


def test_records_are_returned_before_the_file_ends(tmp_path: pathlib.Path) -> None:
    """The rest is written into the fifo after the first message has been returned."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    octets = PUBSUB.read_bytes()
    had_one = threading.Event()
    waited: list[bool] = []

    def write() -> None:
        with fifo.open("wb", buffering=0) as file:
            file.write(octets[:-200])
            waited.append(had_one.wait(PATIENCE))
            file.write(octets[-200:])

    writer = threading.Thread(target=write)
    writer.start()
    messages = zmtpscope.read(fifo)
    first = next(messages)
    had_one.set()
    assert first.topic == "a.topic"
    assert 1 + sum(1 for _ in messages) == sum(1 for _ in zmtpscope.read(PUBSUB))
    writer.join()
    assert waited == [True]


def test_a_closed_reader_reads_no_further() -> None:
    with zmtpscope.read(PUBSUB) as messages:
        next(messages)
    assert list(messages) == []


def test_asyncio_continues_meanwhile() -> None:
    async def read() -> list[zmtpscope.Message]:
        return [message async for message in zmtpscope.read(PUBSUB)]

    async def both() -> list[list[zmtpscope.Message]]:
        return await asyncio.gather(read(), read())

    expected = [message.as_dict() for message in zmtpscope.read(PUBSUB)]
    assert [[message.as_dict() for message in each] for each in asyncio.run(both())] == [expected, expected]


def test_a_running_event_loop_is_no_hindrance() -> None:
    async def count() -> int:
        return sum(1 for _ in zmtpscope.read(PUBSUB))

    assert asyncio.run(count()) == sum(1 for _ in zmtpscope.read(PUBSUB))


@pytest.mark.parametrize("class_", [zmtpscope.Message, zmtpscope.Command, zmtpscope.Frame, zmtpscope.Gap])
def test_tables_have_the_same_values(class_: type[zmtpscope.Record]) -> None:
    expected = [record.as_dict() for record in zmtpscope.read(PUBSUB, class_)]
    for record in expected:
        if (payload := record.get("payload")) is not None:
            record["payload"] = payload | {
                "fields": None if payload["fields"] is None else json.dumps(payload["fields"])
            }
    table = zmtpscope.read(PUBSUB, class_).to_arrow()
    assert table.to_pylist() == expected
    assert table.column_names == [field.name for field in class_.type.fields]
    assert len(zmtpscope.read(PUBSUB, class_).to_pandas()) == len(expected)
    assert zmtpscope.read(PUBSUB, class_).to_polars().height == len(expected)


def test_a_table_of_nothing_has_the_columns() -> None:
    table = zmtpscope.read(PUBSUB, filter="topic == nothing").to_arrow()
    assert (table.num_rows, table.num_columns) == (0, len(zmtpscope.Message.type.fields))


def test_a_table_of_what_was_handed_out_is_refused() -> None:
    messages = zmtpscope.read(PUBSUB)
    next(messages)
    with pytest.raises(RuntimeError, match="read again"):
        messages.to_arrow()


def test_public_names_are_completed() -> None:
    assert {"read", "open", "sniff", "Message"} <= set(dir(zmtpscope))


def test_damage_is_warned_of_where_the_loop_is() -> None:
    with pytest.warns(zmtpscope.CaptureWarning, match="cut-file.pcap: the file ends inside a packet") as warned:
        assert sum(1 for _ in zmtpscope.read(CAPTURES / "damage/cut-file.pcap")) == 19
    assert warned[0].filename == __file__


MISTAKES: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: zmtpscope.read("no such file"), zmtpscope.CaptureError, "no such file: "),
    (lambda: zmtpscope.read(PUBSUB, filter="topik"), zmtpscope.FilterError, "did you mean topic"),
    (lambda: zmtpscope.read(PUBSUB, filters="topic"), TypeError, "no setting named 'filters'; did you mean filter"),  # type: ignore[call-arg]
    (lambda: zmtpscope.read(PUBSUB, display_filter="topic"), TypeError, "write filter"),  # type: ignore[call-arg]
    (lambda: zmtpscope.read(PUBSUB, "message"), TypeError, "by class, for example zmtpscope.Finding, not 'message'"),  # type: ignore[call-overload]
    (lambda: zmtpscope.read(PUBSUB, int), TypeError, "selected by class"),  # type: ignore[type-var]
    (lambda: zmtpscope.read(PUBSUB, packets=0), ValueError, "packets=0: use 1 or more"),
    (lambda: zmtpscope.read(None), TypeError, "expected a name or several, not NoneType"),  # type: ignore[call-overload]
    (lambda: zmtpscope.read(io.BytesIO()), TypeError, "not BytesIO"),  # type: ignore[call-overload]
    (lambda: zmtpscope.read(PUBSUB, body="some"), ValueError, "'some' is none of full"),
    (lambda: zmtpscope.read(PUBSUB, decode_as="tcp.port==1"), ValueError, "is not of the form"),
    (lambda: zmtpscope.read(PUBSUB, payload="jsn"), ValueError, "did you mean json"),
    (lambda: zmtpscope.read(PUBSUB, keys="no such key"), Exception, "no such key"),
    (lambda: zmtpscope.read(PUBSUB, payload_files={"jupyter": ["no such kernel"]}), OSError, "no such kernel"),
]


@pytest.mark.parametrize(("call", "kind", "words"), MISTAKES)
def test_mistakes_are_errors_at_the_call(call: Callable[[], object], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        call()


def test_settings_reach_the_analyser() -> None:
    plain = CAPTURES / "security/plain-accepted.pcap"
    passwords = {command.password for command in zmtpscope.read(plain, zmtpscope.Command, show_secrets=True)}
    masked = {command.password for command in zmtpscope.read(plain, zmtpscope.Command)}
    assert "***" in masked
    assert "***" not in passwords
    assert next(zmtpscope.read(PUBSUB, body="none")).bodies is None
    assert next(zmtpscope.read(PUBSUB, payload="off")).payload is None
    curve = CAPTURES / "security/curve-with-key-log"
    opened = zmtpscope.read(curve.with_suffix(".pcap"), keys=curve.with_suffix(".keys"), filter="decrypted")
    assert next(opened).bodies == [b"hello"]


def test_records_are_shown_without_harm() -> None:
    values = {field.name: None for field in zmtpscope.Message.type.fields}
    hostile = "\x1b]0;title\x07<script>\u202e</script>"
    message = zmtpscope.Message({name: (value,) for name, value in (values | {"topic": hostile}).items()})
    assert repr(message).isprintable()
    html = message._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "\x1b" not in html
    assert "\u202e" not in html


def test_the_stubs_of_type_checkers_are_current() -> None:
    assert generate.STUB.read_text() == generate.stub(), "run python docs/api/generate.py"
