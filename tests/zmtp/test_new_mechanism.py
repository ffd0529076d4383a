"""A new mechanism is one module and one row in the table: the one of docs/new-mechanism.md, with its code."""

from __future__ import annotations

import pathlib
import re
import sys
import types

import pytest

from tests.peer_octets import command
from tests.traffic import Capture, Conversation, records
from zmtpscope.dissect import Analyser, Options
from zmtpscope.dissect.records.details import details
from zmtpscope.export.clock import Clock
from zmtpscope.export.text import Look, TextLines
from zmtpscope.option_texts import parse_decode_as
from zmtpscope.zmtp.commands import build_command
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.greeting import build_greeting_3
from zmtpscope.zmtp.mechanism import Mechanism
from zmtpscope.zmtp.mechanisms import MECHANISMS
from zmtpscope.zmtp.regime import Framing

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "new-mechanism.md").read_text()

CLIENT, SERVER = build_greeting_3("TOY"), build_greeting_3("TOY", as_server=True)


def followed(page: str) -> dict[str, str]:
    """Return the files of a developer who follows the page exactly, by the names that it gives them."""
    parts = re.findall(r"^(?:.* )?In `(\S+)`:\n\n```(python|diff)\n(.*?)```|^```python\n(.*?)```", page, re.M | re.S)
    result: dict[str, str] = {}
    for name, kind, content, more in parts:
        if kind == "diff":
            result[name] = changed((ROOT / name).read_text(), content)
        elif name:
            result[name] = content
        else:
            *_, last = result  # a section without a name continues the file before it
            result[last] += "\n\n" + more
    return result


def changed(text: str, diff: str) -> str:
    """`text` with a change made; each part of it must fit in one place."""
    for part in diff.split("@@\n"):
        lines = part.splitlines(True)
        before, after = ("".join(line[1:] for line in lines if line[0] in f" {sign}") for sign in "-+")
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return text


def run(files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Mechanism]:
    modules = {}
    for name, content in files.items():
        module = types.ModuleType(name.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
        if not name.endswith("__init__.py"):
            monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(content, name, "exec"), module.__dict__)
        modules[module.__name__] = module
    table: dict[str, Mechanism] = modules["zmtpscope.zmtp.mechanisms"].MECHANISMS
    return table


@pytest.fixture(autouse=True)
def _toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the row of the page into the table; nothing else is touched."""
    monkeypatch.setitem(MECHANISMS, "TOY", run(followed(PAGE), monkeypatch)["TOY"])


def test_the_page_names_its_files_and_changes_one() -> None:
    files = followed(PAGE)
    assert list(files) == ["zmtpscope/zmtp/mechanisms/toy.py", "zmtpscope/zmtp/mechanisms/__init__.py"]
    assert not (ROOT / "zmtpscope/zmtp/mechanisms/toy.py").exists()


@pytest.mark.parametrize(
    ("left_out", "error"),
    [
        ("+from zmtpscope.zmtp.mechanisms.toy import TOY\n", NameError),
        (" In `zmtpscope/zmtp/mechanisms/toy.py`:", ValueError),
        ("from zmtpscope.zmtp.layout import Layout\n", NameError),
        ("(NULL, PLAIN, CURVE, GSSAPI)}\n", AssertionError),
        (", TOY", KeyError),
    ],
)
def test_a_page_without_a_step_fails(left_out: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    assert left_out in PAGE
    with pytest.raises(error):
        _ = run(followed(PAGE.replace(left_out, "")), monkeypatch)["TOY"]


def hello() -> bytes:
    return command("TOY", "HELLO", username="ada")


def welcome() -> bytes:
    return command("TOY", "WELCOME", challenge=b"riddle??")


def initiate() -> bytes:
    return command("TOY", "INITIATE", answer=b"solution", socket_type="DEALER", identity="a1")


def ready() -> bytes:
    return command("TOY", "READY", socket_type="ROUTER")


def message(counter: int, sealed: bytes, *, in_command: bool = False) -> bytes:
    body = build_command("TOY", "MESSAGE", {"counter": counter, "sealed": sealed})
    return build_frame(Framing.V2, body, command=in_command)


def talk(client: list[bytes], server: list[bytes], size: int = 1000) -> Conversation:
    """Both sides by turns, step by step, in packets of `size` octets."""
    conversation = Conversation()
    for step in range(max(len(client), len(server))):
        for side, steps in enumerate((client, server)):
            octets = b"".join(steps[step : step + 1])
            conversation.send(side, octets, range(0, len(octets), size))
    conversation.close()
    return conversation


def whole(size: int = 1000) -> Conversation:
    """A valid connection with messages, in both forms."""
    return talk(
        [CLIENT, hello(), initiate(), message(1, b"sealed request")],
        [SERVER, welcome(), ready(), message(1, bytes(300)) + message(2, b"in a command", in_command=True)],
        size,
    )


def findings(conversation: Conversation) -> list[str]:
    found, _ = records(Capture(conversation.packets))
    return [record["id"] for record in found if record["record"] == "finding" and "CMD" in record["id"]]


@pytest.mark.parametrize("size", [1, 1000])
def test_a_connection_is_read_like_that_of_any_mechanism(size: int) -> None:
    everything, analyser = records(Capture(whole(size).packets, size))
    found = [record for record in everything if record["record"] != "finding"]
    assert {record["severity"] for record in everything if record["record"] == "finding"} == {"chat"}
    assert [record["record"] for record in found] == [
        *["greeting"] * 2,
        *["command"] * 4,
        *["message"] * 3,
        "connection",
    ]
    named = [(record["name"], record["side"]) for record in found if record["record"] == "command"]
    assert named == [("HELLO", 0), ("WELCOME", 1), ("INITIATE", 0), ("READY", 1)]
    assert found[2]["username"] == "ada"
    assert (found[4]["socket_type"], found[4]["identity"]) == ("DEALER", "a1")
    assert {(record["kind"], record["parts"]) for record in found if record["record"] == "message"} == {
        ("encrypted", None)
    }
    connection = found[-1]
    assert (connection["mechanism"], connection["handshake"], connection["security_server"]) == ("TOY", "complete", 1)
    assert (connection["socket_type_0"], connection["socket_type_1"]) == ("DEALER", "ROUTER")
    assert analyser.summary.mechanisms == {"TOY": 1}
    assert analyser.summary.sums.hold()


@pytest.mark.parametrize(
    ("client", "server", "found"),
    [
        (["hello", "initiate"], ["welcome", "ready"], []),
        (["initiate"], ["welcome"], ["ZMTP3X-CMD-13"]),
        (["hello", "welcome"], [], ["ZMTP3X-CMD-12"]),
        (["hello", "initiate", "hello"], ["welcome", "ready"], ["ZMTP3X-CMD-07"]),
        (["short"], [], ["ZMTP3X-CMD-14"]),
        (["other"], [], ["ZMTP3X-CMD-05"]),
        (["hello", "message"], ["welcome"], ["ZMTP3X-CMD-13"]),
        (["hello", "clear"], ["welcome"], ["ZMTP3X-CMD-09"]),
    ],
)
def test_the_handshake_is_judged_by_the_row(client: list[str], server: list[str], found: list[str]) -> None:
    fields = {
        "hello": hello(),
        "welcome": welcome(),
        "initiate": initiate(),
        "ready": ready(),
        "short": build_frame(Framing.V2, b"\x05HELLO\x09ada", command=True),
        "other": build_frame(Framing.V2, b"\x05OTHER", command=True),
        "message": message(1, b"too early"),
        "clear": build_frame(Framing.V2, b"too early"),
    }
    assert (
        findings(talk([CLIENT, *[fields[name] for name in client]], [SERVER, *[fields[name] for name in server]]))
        == found
    )


def test_the_leaves_of_every_tree_tile_its_unit() -> None:
    names = []
    for batch in Analyser(Options(details=True)).run(Capture(whole().packets)):
        for item, index in batch.in_order():
            for detail in details(item, index):
                leaves = list(detail.tree.leaves())
                assert leaves[0].start == detail.offset
                ends = [leaf.start + leaf.length for leaf in leaves]
                assert [leaf.start for leaf in leaves[1:]] == ends[:-1]
                assert ends[-1] == detail.offset + len(detail.octets)
                names += [(leaf.name, leaf.value) for leaf in leaves]
    own = [(name, value) for name, value in names if name.startswith("toy.")]
    assert own == [
        ("toy.username_length", 3),
        ("toy.username", "ada"),
        ("toy.challenge", b"riddle??"),
        ("toy.answer", b"solution"),
        ("toy.counter", 1),
        ("toy.sealed", b"sealed request"),
        ("toy.counter", 1),
        ("toy.sealed", bytes(300)),
        ("toy.counter", 2),
        ("toy.sealed", b"in a command"),
    ]


def test_the_lines_match_the_page() -> None:
    text = TextLines(Look(Clock("r", lambda: 0)), Options())
    fields = [line for batch in Analyser(Options()).run(Capture(whole().packets)) for line in text.lines(batch)]
    shown = re.findall(r"```\n( +\d+ .*?)```", PAGE, re.DOTALL)
    assert "".join(fields) == shown[0]


def test_the_mechanism_can_be_forced() -> None:
    forced = parse_decode_as("tcp.port==5555,zmtp/3.1/TOY")
    conversation = Conversation(syn=False)
    conversation.send(0, message(7, b"sealed") + message(8, b"sealed, too"))
    found, _ = records(Capture(conversation.packets), Options(decode_as=(forced,)))
    assert [(record["record"], record.get("kind")) for record in found][:2] == [("message", "encrypted")] * 2
    assert found[-1]["mechanism"] == "TOY"
