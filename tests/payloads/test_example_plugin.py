"""Plug-ins: the one of docs/example-plugin, installed by pip, and misbehaving ones."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import threading
from typing import Any

import pytest
import zmq

from tests.readings import run
from tests.relay import Relay
from tests.suites import some

DOCS = pathlib.Path(__file__).parents[2] / "docs"
PLUGIN = DOCS / "example-plugin"
PAGE = (DOCS / "new-payload-dissector.md").read_text()

REQUEST = b'{"text": "hello"}'


def talk(first_of_worker: list[bytes]) -> bytes:
    """A capture of a worker, a broker and a client of pyzmq; the worker begins with `first_of_worker`."""
    context = zmq.Context()
    context.rcvtimeo = 10_000
    broker, worker, client = (context.socket(kind) for kind in (zmq.ROUTER, zmq.DEALER, zmq.REQ))
    relay = Relay(broker.bind_to_random_port("tcp://127.0.0.1"))
    accepting = threading.Thread(target=relay.accept, args=(2,))
    accepting.start()
    worker.connect(f"tcp://127.0.0.1:{relay.port}")
    worker.send_multipart([b"", b"MDPW01", *first_of_worker])
    worker_address, *_ = broker.recv_multipart()
    client.connect(f"tcp://127.0.0.1:{relay.port}")
    client.send_multipart([b"MDPC01", b"echo", REQUEST])
    client_address, *_, request = broker.recv_multipart()
    broker.send_multipart([worker_address, b"", b"MDPW01", b"\2", b"client-7", b"", request])
    *_, request = worker.recv_multipart()
    worker.send_multipart([b"", b"MDPW01", b"\3", b"client-7", b"", request])
    *_, reply = broker.recv_multipart()
    broker.send_multipart([client_address, b"", b"MDPC01", b"echo", reply])
    assert client.recv_multipart() == [b"MDPC01", b"echo", REQUEST]
    accepting.join()
    context.destroy(linger=0)
    return relay.capture()


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("majordomo") / "majordomo.pcap"
    path.write_bytes(talk([b"\1", b"echo"]))
    return str(path)


@pytest.fixture(scope="module")
def bodies(capture: str) -> list[list[str]]:
    """The frames of all messages, where no plug-in is."""
    return [each["bodies"] for each in records(capture) if each["record"] == "message"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder into which pip has installed the plug-in."""
    folder = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    here = ["--no-deps", "--no-build-isolation", "--target", str(folder), str(PLUGIN)]
    done = subprocess.run([*pip, *here], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def install(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a folder where processes look for packages."""
    path = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *([path] if path else [])]))


def lines(*arguments: str) -> list[str]:
    """Return the output of `zmtpscope read`, without packet and time and with single blanks. The run must succeed."""
    done = run("read", *arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    return [" ".join(line[20:].split()) for line in done.stdout.decode().splitlines()]


def records(*arguments: str) -> list[dict[str, Any]]:
    done = run("read", "--json", *arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    return [json.loads(line) for line in done.stdout.splitlines()]


# -- the plug-in of the page -------------------------------------------------------------------------------------------


def test_the_page_shows_the_plugin_as_it_is() -> None:
    blocks = re.findall(r"```(?:python|toml)\n(.*?)```", PAGE, re.DOTALL)
    settings, *code = [block.strip() for block in blocks]
    assert (PLUGIN / "pyproject.toml").read_text().strip().endswith(settings)
    read = (PLUGIN / "zmtpscope_majordomo" / "__init__.py").read_text()
    for part in code:
        assert read.count(part) == 1, part
        read = read.replace(part, "")
    assert read.split() == []


def test_the_page_shows_what_is_printed(capture: str, site: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(site, monkeypatch)
    (shown,) = re.findall(r"^```\n((?:.* > .*\n)+)```", PAGE, re.MULTILINE)
    assert {" ".join(line[20:].split()) for line in shown.splitlines()} <= set(lines(capture))


def test_no_dissector_claims_it_without_the_plugin(capture: str) -> None:
    assert not [line for line in lines(capture) if "majordomo" in line]


def test_its_fields_equal_the_record(capture: str, site: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(site, monkeypatch)
    found = records(capture)
    payloads = [each["payload"] for each in found if each["record"] == "message"]
    assert {each["protocol"] for each in payloads} == {"majordomo"}
    body = [{"protocol": "json", "summary": REQUEST.decode(), "fields": {"text": "hello"}}]
    worker = {"header": "MDPW01", "client": ["client-7"], "body": body}
    client = {"header": "MDPC01", "service": "echo", "body": body}
    assert [each["fields"] for each in payloads] == [
        {"header": "MDPW01", "command": "READY", "service": "echo"},
        worker | {"command": "REQUEST"},
        worker | {"command": "REPLY"},
        client,
        client,
    ]
    assert not [each for each in found if each["record"] == "finding" and each["severity"] != "chat"]


def test_its_field_tree_names_the_octets(capture: str, site: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(site, monkeypatch)
    printed = run("read", "-V", capture).stdout.decode()
    (ready,) = re.findall(r"majordomo echo worker: READY\n((?: {4}[ ]*zmtp.*\n| {4}[ ]*mdp.*\n)*)", printed)
    leaves = [line.split() for line in ready.splitlines() if "mdp." in line]
    starts = [int(re.findall(r"[0-9]+", place)[0]) for _, place, *_ in leaves]
    header, command, service = starts
    assert (command - header, service - command) == (6 + 2, 1 + 2)  # and the header of the following frame
    assert leaves == [
        ["mdp.header", f"[{header}..{header + 5}]", '"MDPW01"'],
        ["mdp.command", f"[{command}]", "1"],
        ["mdp.service", f"[{service}..{service + 3}]", '"echo"'],
    ]


def test_its_finding_is_reported(tmp_path: pathlib.Path, site: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(site, monkeypatch)
    path = tmp_path / "unready.pcap"
    path.write_bytes(talk([b"\4"]))
    (finding,) = (each for each in records(str(path)) if each.get("id") == "PAYLOAD-04")
    assert (finding["severity"], finding["text"], finding["count"]) == (
        "warn",
        "Reported by a payload dissector: mdp: a worker replies that never was READY",
        1,
    )
    assert "PAYLOAD-04" in run("read", "-q", str(path)).stdout.decode()


def test_the_plugin_reports_nothing_that_the_capture_may_lack(
    tmp_path: pathlib.Path, site: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(site, monkeypatch)
    path = tmp_path / "late.pcap"
    whole = talk([b"\4"])
    path.write_bytes(whole[:24] + packets_behind(whole, whole.index(b"MDPW01")))
    found = records("-d", "conn==1,zmtp/3.1", str(path))
    fields = [each["payload"]["fields"] for each in found if each["record"] == "message" and each["conn"] == 1]
    assert [each["command"] for each in fields] == ["REQUEST", "REPLY"]
    assert not [each for each in found if each.get("id") == "PAYLOAD-04"]


def packets_behind(capture: bytes, place: int) -> bytes:
    """Return the packets of a pcap after the one with the octet at `place`."""
    at = 24
    while at <= place:
        at += 16 + int.from_bytes(capture[at + 8 : at + 12], "little")
    return capture[at:]


# -- plug-ins that do what they should not -----------------------------------------------------------------------------

HEAD = """
from zmtpscope.payloads.api import Claim, Payload

class Broken(Payload):
    name = prefix = "broken"
"""
CLAIMS = """
    def claim(self, message, about):
        return Claim.YES

    def dissect(self, message, reader):
"""
BROKEN = HEAD + CLAIMS


def install_broken(folder: pathlib.Path, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plug-in of one module, as an installer leaves it."""
    (folder / "broken.py").write_text(code)
    information = folder / "broken_package-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-package\nVersion: 1\n")
    (information / "entry_points.txt").write_text("[zmtpscope.payloads]\nbroken = broken:Broken\n")
    install(folder, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "id", "text"),
    [
        ("        raise KeyError('oops')", "PAYLOAD-01", "broken: KeyError: 'oops', frame 1"),
        ("        return 7", "PAYLOAD-01", "broken: TypeError: it returned int, not a summary, frame 1"),
        ("        reader.give('x', object())", "PAYLOAD-01", "broken: TypeError: object is not a JSON type, frame 1"),
        ("        reader.finding('x', severity='loud')", "PAYLOAD-01", "broken: ValueError: a finding is one of"),
        ("        while True: reader.give('x', 1)", "PAYLOAD-02", "broken: more than 10000 fields"),
        ("        while True: reader.go_to(1); reader.octets('x')", "PAYLOAD-02", "broken: more than 10000 fields"),
        ("        return self.dissect(message, reader)", "PAYLOAD-05", "broken: nested too deep"),
        ("        reader.octets('\\ud800\\x1b', 99)", "PAYLOAD-03", "\\ud800\\x1b needs 99 octets, but only 6 remain"),
    ],
)
def test_a_plugin_that_fails_is_reported_and_the_octets_are_shown(
    code: str,
    id: str,
    text: str,
    capture: str,
    bodies: list[list[str]],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install_broken(tmp_path, BROKEN + code, monkeypatch)
    found = records(capture)
    notes = [each for each in found if each.get("id") == id]
    assert len(notes) == 5
    assert text in notes[-1]["text"].replace("\x1b", "\\x1b")
    assert [each["bodies"] for each in found if each["record"] == "message"] == bodies
    printed = run("read", "-V", "-x", capture)
    assert (printed.returncode, printed.stderr) == (0, b"")
    assert b"\x1b" not in printed.stdout
    assert b"4d 44 50 57 30 31" in printed.stdout


@pytest.mark.parametrize("code", ["        return 'perhaps'", "        raise ValueError('oops')"])
def test_a_plugin_whose_claim_makes_no_sense_claims_nothing(
    code: str, capture: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = lines("-V", capture)
    install_broken(tmp_path, HEAD + "    def claim(self, message, about):\n" + code, monkeypatch)
    assert lines("-V", capture) == before


UNINSTALL = "report it to the author of broken-package, or uninstall that package"


@pytest.mark.parametrize(
    ("code", "problem"),
    some(
        [
            ("import nowhere", f"ModuleNotFoundError: No module named 'nowhere' -> {UNINSTALL}"),
            ("raise SystemExit(5)", f"SystemExit: 5 -> {UNINSTALL}"),
            (
                "Broken = dict",
                f"TypeError: broken:Broken is not a subclass of Payload named 'broken' -> {UNINSTALL}",
            ),
            (HEAD + "    prefix = None", f"TypeError: its prefix is not text -> {UNINSTALL}"),
            (HEAD + "    begins = 'x'", f"TypeError: its begins_with is neither octets nor None -> {UNINSTALL}"),
            (HEAD + "    begins = (b'',)", f"TypeError: its begins_with is neither octets nor None -> {UNINSTALL}"),
            (HEAD + "    least_frames = '2'", f"TypeError: its least_frames is not a number -> {UNINSTALL}"),
            (
                HEAD + "    def __init__(self, settings):\n        raise ValueError('no schema')",
                "ValueError: no schema -> check its options in -d and --payload-file, or report it to its author",
            ),
        ],
        4,
    ),
)
def test_a_plugin_that_cannot_be_used_is_reported_once(
    code: str, problem: str, capture: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = run("read", capture).stdout
    install_broken(tmp_path, code, monkeypatch)
    error = f"zmtpscope: the payload dissector broken cannot be used: {problem}\n"
    read = run("read", capture)
    assert (read.returncode, read.stdout, read.stderr.decode()) == (0, before, error)
    export = run("export", "-o", str(tmp_path / "out"), capture)
    assert export.returncode == 0
    assert export.stderr.decode().startswith(error)
    named = run("read", "-d", "conn==1,zmtp:broken/x", capture)
    assert (named.returncode, named.stderr.decode()) == (0, error)
    assert run("read", "--payload", "off", capture).stderr == b""
