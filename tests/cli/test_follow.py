"""`zmtpscope follow`: the conversation, and the files of its bodies."""

from __future__ import annotations

import base64
import json
import os
import pathlib

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.utils import PcapWriter

from tests.cli.running import Run
from tests.peer_octets import GREETING, message, ready
from tests.readings import CAPTURES, PUBSUB, REQREP
from tests.traffic import Conversation
from zmtpscope.conversations import body_files
from zmtpscope.export.safe_text import safe_text
from zmtpscope.records import to_text


def messages(zmtpscope: Run, *arguments: object) -> list[dict[str, object]]:
    code, output, _ = zmtpscope("follow", *arguments, "--json")
    assert code == 0
    return [record for line in output.splitlines() if (record := json.loads(line))["record"] == "message"]


def octets_of(records: list[dict[str, object]]) -> list[bytes]:
    bodies = [record["bodies"] for record in records]
    return [b"".join(map(base64.b64decode, each)) for each in bodies if isinstance(each, list)]


@pytest.mark.parametrize(("path", "conn"), [(REQREP, 1), (CAPTURES / "problems" / "server-started-later.pcap", 4)])
def test_the_only_connection_of_a_capture_needs_no_name(zmtpscope: Run, path: pathlib.Path, conn: int) -> None:
    assert zmtpscope("follow", path) == zmtpscope("follow", path, "--conn", conn)
    assert len(messages(zmtpscope, path)) > 1


def test_a_capture_without_connections_has_nothing_to_follow(zmtpscope: Run) -> None:
    code, output, errors = zmtpscope("follow", CAPTURES / "negative" / "http.pcap")
    assert (code, output) == (0, "")
    assert "no ZMTP found" in errors


def test_json_has_the_records_of_read(zmtpscope: Run) -> None:
    _, everything, _ = zmtpscope("read", "--json", PUBSUB)
    _, followed, _ = zmtpscope("follow", "--json", PUBSUB, "--topic", "a.topic")
    lines = followed.splitlines()
    assert set(lines) <= set(everything.splitlines())
    assert {json.loads(line).get("topic") for line in lines if '"record":"message"' in line} == {"a.topic"}
    expected = [line for line in everything.splitlines() if '"topic":"a.topic"' in line]
    assert [line for line in lines if '"topic":"a.topic"' in line] == expected


def test_all_conditions_of_a_selection_must_hold(zmtpscope: Run) -> None:
    both = messages(zmtpscope, PUBSUB, "--topic", "a.topic", "--conn", 1)
    assert {(each["conn"], each["topic"]) for each in both} == {(1, "a.topic")}
    assert messages(zmtpscope, PUBSUB, "--topic", "a.topic", "-Y", "conn == 1") == both


def test_bodies_in_one_file_with_an_index(zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    expected = octets_of(messages(zmtpscope, REQREP, "--conn", 1))
    target = tmp_path / "bodies"
    assert zmtpscope("follow", REQREP, "--conn", 1, "--bodies", target)[0] == 0
    octets = target.read_bytes()
    assert octets == b"".join(expected)
    index = [json.loads(line) for line in (tmp_path / "bodies.index.jsonl").read_text().splitlines()]
    assert [octets[each["offset"] :][: sum(each["kept"])] for each in index] == expected
    assert all(each["kept"] == each["sizes"] for each in index)
    assert sorted(os.listdir(tmp_path)) == ["bodies", "bodies.index.jsonl"]


def test_bodies_in_a_folder(zmtpscope: Run, tmp_path: pathlib.Path) -> None:
    expected = octets_of(messages(zmtpscope, REQREP, "--conn", 1))
    assert zmtpscope("follow", REQREP, "--conn", 1, "--bodies", f"{tmp_path}/new/")[0] == 0
    names = sorted(os.listdir(tmp_path / "new"))
    assert names[-1] == "index.jsonl"
    assert [(tmp_path / "new" / name).read_bytes() for name in names[:-1]] == expected
    index = (tmp_path / "new" / "index.jsonl").read_text().splitlines()
    assert [json.loads(line)["file"] for line in index] == names[:-1]
    assert os.listdir(tmp_path) == ["new"]


def test_existing_bodies_stay_and_a_failure_leaves_no_bodies(
    zmtpscope: Run, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_text("mine")
    folder.mkdir()
    (folder / "mine").touch()
    for target, why in ((file, "use --force to overwrite it"), (folder, "folder is not empty")):
        code, _, errors = zmtpscope("follow", REQREP, "--conn", 1, "--bodies", target)
        assert (code, why in errors) == (2, True)
    assert file.read_text() == "mine"
    assert zmtpscope("follow", REQREP, "--conn", 1, "--bodies", file, "--force")[0] == 0
    assert file.read_text() != "mine"
    monkeypatch.setattr(body_files, "MAX_FILES", 3)
    code, _, errors = zmtpscope("follow", REQREP, "--conn", 1, "--bodies", f"{tmp_path}/many/")
    assert (code, "more than 3 messages" in errors) == (2, True)
    assert sorted(os.listdir(tmp_path)) == ["file", "file.index.jsonl", "folder"]
    code, _, errors = zmtpscope("follow", REQREP, "--conn", 1, "--bodies", tmp_path / "no" / "such")
    assert (code, errors) == (1, f"zmtpscope: {tmp_path}/no/such: No such file or directory\n")


def test_payloads_are_shown_by_their_dissectors(zmtpscope: Run) -> None:
    path = CAPTURES / "implementations" / "jupyter.pcap"
    _, output, _ = zmtpscope("follow", path, "-Y", "payload.protocol == jupyter", "--as", "payload")
    assert ">    jupyter  " in output or "<    jupyter  " in output
    assert "00000000 " not in output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--topic", "a.topik"], "no topic a.topik; did you mean a.topic?"),
        (["--topic", ".to"], "no topic .to; there are a.topic, b.topic, c.topic"),
        (["--topic", "nonesuch/\x1b"], "no topic nonesuch/\\x1b; there are a.topic, b.topic, c.topic"),
        (["--conn", 7], "connections are numbered 1 to 2"),
        (["--peer", "nobody"], "no peer nobody; the capture has none"),
        (["-Y", "topic == nosuch"], " -> zmtpscope read -q prints a summary of the capture"),
        (["--topic", "a.topic", "-Y", "size > 1MB"], " -> zmtpscope read -q prints a summary of the capture"),
    ],
)
def test_that_there_is_nothing_to_follow_is_reported(zmtpscope: Run, arguments: list[object], words: str) -> None:
    front = "zmtpscope: no message matches the selection"
    behind = words if words.startswith(" ->") else f": {words}"
    assert zmtpscope("follow", PUBSUB, *arguments) == (0, "", f"{front}{behind}\n")


@pytest.mark.parametrize("topic", [b"\xff\xfe\x00bin", b"a\\b", b'say "hi"', "gr\u00f6\u00dfe".encode(), b"\x1b[31m"])
def test_topics_are_taken_as_lines_show_them(zmtpscope: Run, tmp_path: pathlib.Path, topic: bytes) -> None:
    path = tmp_path / "topics.pcap"
    talk = Conversation()
    for side, name in ((1, "PUB"), (0, "SUB")):
        talk.send(side, GREETING + ready(name))
    talk.send(1, message(topic, b"\x00" * 20))
    with PcapWriter(str(path)) as file:
        for packet in talk.packets:
            ends = ("10.0.0.1", "10.0.0.2") if packet.side == 0 else ("10.0.0.2", "10.0.0.1")
            ports = talk.ports if packet.side == 0 else talk.ports[::-1]
            segment = TCP(sport=ports[0], dport=ports[1], seq=packet.sequence, flags=packet.flags)
            file.write(Ether() / IP(src=ends[0], dst=ends[1]) / segment / packet.payload)
    shown = safe_text(to_text(topic))
    (found,) = messages(zmtpscope, path, "--topic", shown)
    assert found["topic"] == to_text(topic)
    lines = zmtpscope("follow", path, "--topic", shown)[1].splitlines()
    assert max(len(line) for line in lines if "  00000000 " in line) == 80
