"""Rules, keys and frame records that the user requests while a capture is open."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest

from tests.readings import CAPTURES
from tests.tui.workers import Asker, worker_of
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Options
from zmtpscope.tui.client import RequestFailed
from zmtpscope.tui.requests import (
    CopyTextOf,
    ListChanged,
    ListSpec,
    OpenList,
    Progress,
    ReadAgain,
    Rows,
    Table,
    TableOf,
)
from zmtpscope.tui.worker.channel import CannotAnswer
from zmtpscope.tui.worker.loading import Opened
from zmtpscope.tui.worker.reading_again import loading_again


def read_again(worker: Asker, request: ReadAgain) -> None:
    """Wait until everything was read again."""
    epoch = worker.ask(request)
    worker.wait_for(Progress, lambda progress: progress.epoch == epoch and progress.is_done)


def first_message(worker: Asker, filter: str = "") -> dict[str, Any]:
    """Return the fields of the first message that matches a filter."""
    worker.ask(OpenList("first", ListSpec(filter=filter)))
    number = worker.ask(Rows("first", 0, 1)).rows[0].number
    return dict(json.loads(worker.ask(CopyTextOf(number, "json"))))


def test_a_file_without_keys_is_refused_and_changes_nothing(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("no keys here\n")
    with worker_of("patterns/pubsub.pcap") as worker:
        with pytest.raises(RequestFailed, match=r"notes\.txt"):
            worker.ask(ReadAgain(key_files=(str(path),)))
        assert all(each.epoch == 0 for each in worker.notices if isinstance(each, Progress))


def test_a_rule_names_the_payload_and_lists_restart() -> None:
    with worker_of("patterns/pubsub.pcap") as worker:
        before = worker.ask(OpenList("messages", ListSpec(filter="topic")))
        numbers = [row.number for row in worker.ask(Rows("messages", 0, 3)).rows]
        marked = worker.ask(OpenList("marked", ListSpec(only=tuple(numbers))))
        assert marked.found == 3
        assert first_message(worker, "kind == data")["payload"]["protocol"] == "text"
        read_again(worker, ReadAgain(decode_as=("topic==a.topic,zmtp:messagepack",)))
        states = [each.state for each in worker.notices if isinstance(each, ListChanged)]
        after = next(each for each in reversed(states) if each.name == "messages")
        assert after.generation > max(before.generation, marked.generation)
        assert worker.ask(Rows("messages", 0, 1)).rows
        assert not worker.ask(Rows("marked", 0, 1)).rows
        assert first_message(worker, "kind == data")["payload"]["protocol"] == "messagepack"


def test_views_are_counted_again() -> None:
    with worker_of("security/curve-with-key-log.pcap") as worker:
        encrypted = wait_until_counted(worker, "topics")
        read_again(worker, ReadAgain(key_files=(str(CAPTURES / "security" / "curve-with-key-log.keys"),)))
        opened = wait_until_counted(worker, "topics")
        assert [row.cells for row in opened.rows] != [row.cells for row in encrypted.rows]


def wait_until_counted(worker: Asker, view: str) -> Table:
    while (table := worker.ask(TableOf(view))).looked_at < table.total or not table.total:
        pass
    return table


def test_key_files_decrypt_traffic() -> None:
    with worker_of("security/curve-with-key-log.pcap") as worker:
        assert first_message(worker)["kind"] == "encrypted"
        read_again(worker, ReadAgain(key_files=(str(CAPTURES / "security" / "curve-with-key-log.keys"),)))
        assert first_message(worker)["decrypted"]
        read_again(worker, ReadAgain())
        assert first_message(worker)["kind"] == "encrypted"


def test_frames_are_records_on_request() -> None:
    with worker_of("patterns/multipart-20.pcap") as worker:
        worker.ask(OpenList("frames", ListSpec(("frame",))))
        assert not worker.ask(Rows("frames", 0, 1)).rows
        read_again(worker, ReadAgain(frames=True))
        assert worker.ask(Rows("frames", 0, 1)).rows


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (ReadAgain(decode_as=("tcp.port=5555,zmtp",)), "is not of the form tcp.port==5555,zmtp"),
        (ReadAgain(decode_as=("conn==1,zmtp:nothing",)), "there is no payload dissector 'nothing'"),
        (ReadAgain(key_files=("/no/such.keys",)), "/no/such.keys"),
        (ReadAgain(key_files=("~nobody-of-that-name/x.keys",)), "home"),
    ],
)
def test_an_error_is_reported_and_everything_stays(request_: ReadAgain, sentence: str) -> None:
    with worker_of("patterns/pubsub.pcap") as worker:
        with pytest.raises(RequestFailed, match=re.escape(sentence)):
            worker.ask(request_)
        assert first_message(worker)["record"] == "message"
        assert worker.ask(ReadAgain()) == 1


def test_a_removed_capture_stays_as_read(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "capture.pcap"
    path.write_bytes((CAPTURES / "patterns" / "pubsub.pcap").read_bytes())
    with worker_of(str(path)) as worker:
        path.unlink()
        with pytest.raises(RequestFailed, match=re.escape(str(path))):
            worker.ask(ReadAgain(frames=True))
        assert worker.ask(OpenList("messages", ListSpec())).found


def test_live_traffic_is_not_read_again() -> None:
    followed: Any = object()
    opened = Opened((), lambda: open_captures([]), followed)
    with pytest.raises(CannotAnswer, match="what comes live cannot be read again"):
        loading_again(ReadAgain(), opened, Options(index=True))
