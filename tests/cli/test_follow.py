"""`zmtpscope follow`: what was said, and where its bodies go."""

from __future__ import annotations

import base64
import json
import os
import pathlib

import pytest

from tests.cli.running import Run
from tests.readings import CAPTURES
from zmtpscope.conversations import body_files

PUBSUB = CAPTURES / "patterns" / "pubsub.pcap"
REQREP = CAPTURES / "patterns" / "reqrep.pcap"


def messages(zmtpscope: Run, *arguments: object) -> list[dict[str, object]]:
    code, output, _ = zmtpscope("follow", *arguments, "--json")
    assert code == 0
    return [record for line in output.splitlines() if (record := json.loads(line))["record"] == "message"]


def octets_of(records: list[dict[str, object]]) -> list[bytes]:
    bodies = [record["bodies"] for record in records]
    return [b"".join(map(base64.b64decode, each)) for each in bodies if isinstance(each, list)]


def test_json_has_the_records_of_read(zmtpscope: Run) -> None:
    _, everything, _ = zmtpscope("read", "--json", PUBSUB)
    _, followed, _ = zmtpscope("follow", "--json", PUBSUB, "--topic", "a.topic")
    lines = followed.splitlines()
    assert set(lines) <= set(everything.splitlines())
    assert {json.loads(line).get("topic") for line in lines if '"record":"message"' in line} == {"a.topic"}
    expected = [line for line in everything.splitlines() if '"topic":"a.topic"' in line]
    assert [line for line in lines if '"topic":"a.topic"' in line] == expected


def test_all_that_is_asked_for_has_to_hold(zmtpscope: Run) -> None:
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


def test_what_is_there_stays_and_what_fails_leaves_nothing(
    zmtpscope: Run, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_text("mine")
    folder.mkdir()
    (folder / "mine").touch()
    for target, why in ((file, "--force overwrites it"), (folder, "this folder is not empty")):
        code, _, errors = zmtpscope("follow", REQREP, "--conn", 1, "--bodies", target)
        assert (code, why in errors) == (2, True)
    assert file.read_text() == "mine"
    assert zmtpscope("follow", REQREP, "--conn", 1, "--bodies", file, "--force")[0] == 0
    assert file.read_text() != "mine"
    monkeypatch.setattr(body_files, "MOST_FILES", 3)
    code, _, errors = zmtpscope("follow", REQREP, "--conn", 1, "--bodies", f"{tmp_path}/many/")
    assert (code, "more than 3 messages" in errors) == (2, True)
    assert sorted(os.listdir(tmp_path)) == ["file", "file.index.jsonl", "folder"]
    code, _, errors = zmtpscope("follow", REQREP, "--conn", 1, "--bodies", tmp_path / "no" / "such")
    assert (code, errors) == (1, f"zmtpscope: {tmp_path}/no/such: No such file or directory\n")


def test_payloads_as_their_dissectors_say(zmtpscope: Run) -> None:
    path = CAPTURES / "implementations" / "jupyter.pcap"
    _, output, _ = zmtpscope("follow", path, "-Y", "payload.protocol == jupyter", "--as", "payload")
    assert ">    jupyter  " in output or "<    jupyter  " in output
    assert "00000000  " not in output


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([REQREP], "say what to follow: --conn N, --peer IDENTITY, --topic TOPIC or -Y FILTER"),
        (["--conn", 1], "name a capture to read"),
        ([REQREP, "--conn", 0], "--conn"),
        ([REQREP, "--conn", 1, "-Y", "topik"], "topik"),
        ([REQREP, "--conn", 1, "--json", "--as", "hex"], "leave out --json"),
    ],
)
def test_mistakes_are_a_sentence(zmtpscope: Run, arguments: list[object], error: str) -> None:
    code, output, errors = zmtpscope("follow", *arguments)
    assert (code, output) == (2, "")
    assert error in errors


def test_nothing_to_follow_is_said(zmtpscope: Run) -> None:
    assert zmtpscope("follow", REQREP, "--topic", 'no"such\\topic') == (
        0,
        "",
        "zmtpscope: nothing was said that is followed -> zmtpscope read -q sums up what there is\n",
    )
