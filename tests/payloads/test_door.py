"""The message of a careless or hostile dissector is printed, and so is its fault."""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Callable
from contextlib import ExitStack
from enum import StrEnum
from typing import Any

import pytest

from tests.dissect.talks import connected
from tests.payloads.reading import dissected
from tests.peer_octets import message
from tests.readings import CAPTURES
from tests.suites import some
from tests.traffic import Capture
from zmtpscope.cli import run
from zmtpscope.cli.terminal import painter
from zmtpscope.dissect import Analyser, Batch, Options
from zmtpscope.dissect.records.details import details
from zmtpscope.export.clock import Clock
from zmtpscope.export.json_lines import lines
from zmtpscope.export.styles import STYLES
from zmtpscope.export.tables import Tables
from zmtpscope.export.text import Look, TextLines
from zmtpscope.payloads import registry
from zmtpscope.payloads.api import About, Claim, Malformed, Message, Payload, Reader, Settings
from zmtpscope.payloads.limits import MAX_FIELDS
from zmtpscope.payloads.registry import Registry
from zmtpscope.records import RECORDS
from zmtpscope.zmtp.reader import FieldNode

Dissect = Callable[[Message, Reader], Any]
Bodies = tuple[tuple[bytes, ...], ...]
COLUMNS = {record: tuple(field.name for field in type_.fields) for record, type_ in RECORDS.items()}
BODIES = (b"hunter2, and more", b"the second"), (b"alone",), (b"", b"")


class Point:
    def __init__(self, kind: Any, name: str = "other") -> None:
        self.name, self.value, self.kind = name, "other:Other", kind
        self.package = "other"

    def load(self) -> Any:
        return self.kind

    def __lt__(self, other: Point) -> bool:
        return self.name < other.name


class Other(Payload):
    """A third party's dissector, which claims everything."""

    name = "other"
    prefix = "other"
    judges = True

    def claim(self, message: Message, about: About) -> Claim:
        return Claim.YES

    def dissect(self, message: Message, reader: Reader) -> str:
        return ""


def that(dissect: Dissect) -> type[Payload]:
    return type("That", (Other,), {"dissect": lambda self, message, reader: dissect(message, reader)})


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[Any]], Registry]:
    """Return a function that makes a registry with one installed dissector."""

    def install(kind: type[Any]) -> Registry:
        monkeypatch.setattr(registry, "_points", lambda: [Point(kind)])
        monkeypatch.setattr(registry, "OURS", ())
        return Registry()

    return install


class Output:
    """The complete output, in every format, for a PUSH that sends `bodies`."""

    def __init__(self, payloads: Registry, folder: pathlib.Path, bodies: Bodies = BODIES) -> None:
        talk = connected("PUSH", "PULL")
        for each in bodies:
            talk.send(0, message(*each))
        talk.close()
        self.capture = Capture(talk.packets)
        self.payloads, self.folder = payloads, folder
        self.records = [json.loads(line) for line in self._lines(Options(payloads=payloads))]
        self.messages = [record for record in self.records if record["record"] == "message"]
        self.findings = [record["id"] for record in self.records if record["record"] == "finding"]
        self.tables()
        self.quiet = self._run(Options(payloads=payloads, records=False))[1].summary.findings
        self.text = self._text()

    @property
    def batches(self) -> list[Batch]:
        return self._run(Options(payloads=self.payloads))[0]

    def _run(self, options: Options) -> tuple[list[Batch], Analyser]:
        analyser = Analyser(options)
        return list(analyser.run(self.capture)), analyser

    def _lines(self, options: Options) -> list[bytes]:
        return [line for batch in self._run(options)[0] for line in lines(batch, options)]

    def _text(self) -> str:
        """Return text lines with field trees and hex; the trees tile their octets."""
        options = Options(payloads=self.payloads, frames=True, details=True)
        batches, _ = self._run(options)
        for batch in batches:
            for item, index in batch.in_order():
                for detail in details(item, index):
                    at = detail.offset
                    for leaf in detail.tree.leaves():
                        assert leaf.start == at, leaf.name
                        at += leaf.length
                    assert at == detail.offset + len(detail.octets)
        for paint in (painter(STYLES), lambda style, text: text):
            made = TextLines(Look(Clock("r", lambda: 0), paint, chat=True, tree=True, hex=True), options)
            text = "".join(line for batch in batches for line in made.lines(batch))
        assert text.replace("\n", "").isprintable()
        text.encode()
        return text

    def tables(self) -> None:
        options = Options(payloads=self.payloads)
        for form in ("csv", "parquet"):
            with Tables(self.folder, form, COLUMNS, options, force=True) as tables:
                for batch in self._run(options)[0]:
                    tables.add(batch)
                tables.commit()


def endless(message: Message, reader: Reader) -> str:
    while True:
        reader.octets("nothing", 0)


def endless_findings(message: Message, reader: Reader) -> str:
    while True:
        reader.finding("ODD")


def endless_groups(message: Message, reader: Reader) -> str:
    while True:
        with reader.group("nothing"):
            pass


def endless_insides(message: Message, reader: Reader) -> str:
    with reader.array("nothing"):
        while True:
            reader.go_to(99)
            reader.inside("nothing")


def endless_unpacking(message: Message, reader: Reader) -> str:
    while True:
        reader.unpacked("nothing", 0, b"more")


def nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


def cyclic(message: Message, reader: Reader) -> str:
    value: list[Any] = []
    value.append(value)
    reader.give("x", value)
    return ""


def below_below(message: Message, reader: Reader) -> str:
    with ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(reader.object("o"))
        reader.give("x", nested(50))
    return ""


def groups_in_groups(message: Message, reader: Reader) -> str:
    with ExitStack() as stack:
        for _ in range(5000):
            stack.enter_context(reader.group("g"))
        reader.octets("x")
    return ""


def in_itself(message: Message, reader: Reader) -> str:
    reader.inside("x")
    return ""


def packed_in_itself(message: Message, reader: Reader) -> str:
    reader.unpacked("x", 0, b"again")
    return ""


LIMITED: dict[str, tuple[Dissect, str]] = {
    "reads nothing for ever": (endless, "PAYLOAD-02"),
    "finds something for ever": (endless_findings, "PAYLOAD-02"),
    "groups nothing for ever": (endless_groups, "PAYLOAD-02"),
    "looks inside of nothing for ever": (endless_insides, "PAYLOAD-02"),
    "unpacks nothing for ever": (endless_unpacking, "PAYLOAD-02"),
    "gives a million items": (lambda message, reader: reader.whole([0] * 1_000_000), "PAYLOAD-02"),
    "says a million items": (lambda message, reader: reader.value("x", 0, [0] * 1_000_000), "PAYLOAD-02"),
    "gives what is deep": (lambda message, reader: reader.give("x", nested(100_000)), "PAYLOAD-05"),
    "says what is deep": (lambda message, reader: reader.value("x", 0, nested(1000)), "PAYLOAD-05"),
    "gives what is in itself": (cyclic, "PAYLOAD-05"),
    "gives what is deep deep inside": (below_below, "PAYLOAD-05"),
    "groups in groups": (groups_in_groups, "PAYLOAD-05"),
    "looks inside of what it is": (in_itself, "PAYLOAD-05"),
    "unpacks itself": (packed_in_itself, "PAYLOAD-05"),
}


@pytest.mark.parametrize("what", some(LIMITED, 3))
def test_limits_hold(what: str, door: Callable[[type[Any]], Registry], tmp_path: pathlib.Path) -> None:
    """Endless or bottomless results are read up to the limits."""
    dissect, id_ = LIMITED[what]
    output = Output(door(that(dissect)), tmp_path)
    assert id_ in output.findings
    assert all(record["bodies_kept"] == "full" for record in output.messages)


class Broken(Exception):
    def __str__(self) -> str:
        raise ValueError("not even that")


def raising(error: BaseException) -> Dissect:
    def dissect(message: Message, reader: Reader) -> str:
        reader.octets("first", min(1, reader.left))
        with reader.object("o"), reader.array("a"):
            raise error

    return dissect


def assigns(message: Message, reader: Reader) -> str:
    reader.fields = {"x": object()}
    return ""


def assigns_inside(message: Message, reader: Reader) -> str:
    reader.octets("x", 0)
    reader.fields["y"] = object()
    return ""


def adds_to_more(message: Message, reader: Reader) -> str:
    with reader.more("x", [object()]):
        reader.octets("y", 0)
    return ""


FAILING: dict[str, Dissect] = {
    "returns nothing": lambda message, reader: None,
    "returns a number": lambda message, reader: 7,
    "fails": raising(KeyError("x")),
    "fails without words": raising(Broken()),
    "fails in odd words": raising(ValueError("\ud800\x1b[31m" + "x" * 100_000)),
    "stops": raising(StopIteration()),
    "ends the program": raising(SystemExit(5)),
    "gives an object": lambda message, reader: reader.give("x", object()),
    "says an object": lambda message, reader: reader.value("x", 0, object(), hidden=True),
    "says an object inside": lambda message, reader: reader.value("x", 0, [object()]),
    "assigns an object": assigns,
    "assigns an object to a field": assigns_inside,
    "begins an array with an object": adds_to_more,
    "has a severity of its own": lambda message, reader: reader.finding("ODD", severity="awful"),
    "finds something nowhere": lambda message, reader: reader.finding("ODD", start=-(2**70), length=2**70),
    "finds something at no number": lambda message, reader: reader.finding("ODD", start="here"),
    "finds with no words": lambda message, reader: reader.finding("ODD", detail=object()),
    "unpacks text": lambda message, reader: reader.unpacked("x", 0, "text"),
    "goes to no frame": lambda message, reader: reader.go_to("first"),
}


@pytest.mark.parametrize("what", FAILING)
def test_failures_are_reported_with_the_octets(
    what: str, door: Callable[[type[Any]], Registry], tmp_path: pathlib.Path
) -> None:
    output = Output(door(that(FAILING[what])), tmp_path)
    assert output.findings.count("PAYLOAD-01") == len(BODIES)
    assert output.quiet["warn", "PAYLOAD-01"] == len(BODIES)
    assert [record["payload"] for record in output.messages] == [None] * len(BODIES)
    assert all(record["bodies_kept"] == "full" for record in output.messages)
    texts = [record["text"] for record in output.records if record["record"] == "finding"]
    assert max(map(len, texts)) < 1000


class Word(StrEnum):
    HELLO = "hello"


def reads_again(message: Message, reader: Reader) -> str:
    reader.octets("x", min(1, reader.left))
    reader.go_to(0)
    reader.octets("y", min(3, reader.left))
    reader.octets("z")
    return ""


def reads_again_inside(message: Message, reader: Reader) -> str:
    with reader.object("o"):
        reader.octets("x", min(4, reader.left))
        reader.position = 0
        reader.octets("y", min(2, reader.left))
    return ""


def reads_in_front(message: Message, reader: Reader) -> str:
    reader.position = -3
    reader.octets("x", 2)
    return ""


def goes_far(message: Message, reader: Reader) -> str:
    for frame in (99, -1):
        reader.go_to(frame)
        with reader.object("o"), reader.group("g"):
            reader.octets("x")
        reader.finding("ODD", reader.offset)
        reader.secret("password")
        reader.inside("z")
    return ""


def adopts_anything(message: Message, reader: Reader) -> str:
    odd: Any = [FieldNode("x", -5, 3, b""), FieldNode("y", 0, 1 << 40, b""), FieldNode("z", 93, 1, object()), object()]
    reader.adopt(0, odd)
    return ""


def changes_what_is_shared(message: Message, reader: Reader) -> str:
    frames: Any = message.frames
    frames.append(b"one more")
    return ""


def gives_odd_numbers(message: Message, reader: Reader) -> str:
    odd = [math.nan, math.inf, 2**100, -(2**63) - 1, b"\xff", True, None, "\ud800\x1b"]
    reader.give("a", odd)
    reader.value("b", 0, {b"\xff": odd, None: odd, 1.5: 0, 2**100: 0})
    reader.fields["c"] = 2**100
    return ""


def names_from_the_network(message: Message, reader: Reader) -> str:
    reader.prefix = "other\x1b[31m"
    reader.octets("\ud800\u202e\n", min(1, reader.left))
    with reader.object("\x1b[31m"):
        reader.octets("x")
    return ""


def malformed(message: Message, reader: Reader) -> str:
    reader.octets("x", min(1, reader.left))
    with reader.object("o"):
        raise Malformed("\ud800\x1b[31m" + "x" * 100_000)


CARELESS: dict[str, Dissect] = {
    "returns a long summary": lambda message, reader: "x" * 10_000_000,
    "returns odd text": lambda message, reader: "\ud800\x1b[31m",
    "returns a member": lambda message, reader: Word.HELLO,
    "reads again": reads_again,
    "reads again inside": reads_again_inside,
    "reads in front": reads_in_front,
    "reads beyond the end": lambda message, reader: str(reader.octets("x", 1000)),
    "reads less than nothing": lambda message, reader: str(reader.octets("x", -1)),
    "goes far": goes_far,
    "adopts anything": adopts_anything,
    "changes what is shared": changes_what_is_shared,
    "gives odd numbers": gives_odd_numbers,
    "names fields after the network": names_from_the_network,
    "is malformed in odd words": malformed,
}


@pytest.mark.parametrize("what", CARELESS)
def test_careless_dissectors_are_reported(
    what: str, door: Callable[[type[Any]], Registry], tmp_path: pathlib.Path
) -> None:
    output = Output(door(that(CARELESS[what])), tmp_path)
    assert len(output.messages) == len(BODIES)
    assert all(record["bodies_kept"] == "full" for record in output.messages)
    assert all(record["payload"] is not None for record in output.messages) or "PAYLOAD-01" in output.findings


@pytest.mark.parametrize("at_once", [False, True])
def test_a_name_may_be_a_member_of_an_enum(
    at_once: bool, door: Callable[[type[Any]], Registry], tmp_path: pathlib.Path
) -> None:
    class Protocol(StrEnum):
        MINE = "other"

    members: dict[str, Any] = {"name": Protocol.MINE, "dissect": lambda self, message, reader: "said"}
    if at_once:
        members["at_once"] = lambda self, octets: ("said", None)
    output = Output(door(type("Named", (Other,), members)), tmp_path)
    assert {(record["payload"]["protocol"], record["payload"]["summary"]) for record in output.messages} == {
        ("other", "said")
    }
    assert "other said" in output.text
    made = [each for batch in output.batches for run in batch.messages for each in run.payloads or ()]
    assert {type(each.protocol) for each in made if each is not None} == {str}


def test_odd_values_are_what_every_output_can_hold(
    door: Callable[[type[Any]], Registry], tmp_path: pathlib.Path
) -> None:
    output = Output(door(that(gives_odd_numbers)), tmp_path)
    fields = output.messages[0]["payload"]["fields"]
    odd = ["NaN", "Infinity", hex(2**100), hex(-(2**63) - 1), "/w==", True, None, "\\ud800\x1b"]
    assert fields == {
        "a": odd,
        "b": {"\\xff": odd, "null": odd, "1.5": 0, hex(2**100): 0},
        "c": hex(2**100),
    }


def password_then(dissect: Dissect) -> Dissect:
    def read(message: Message, reader: Reader) -> Any:
        reader.secret("word", min(7, reader.left))
        return dissect(message, reader)

    return read


@pytest.mark.parametrize("what", FAILING)
def test_a_password_stays_hidden_where_the_dissector_fails_behind_it(
    what: str, door: Callable[[type[Any]], Registry], tmp_path: pathlib.Path
) -> None:
    output = Output(door(that(password_then(FAILING[what]))), tmp_path)
    assert "PAYLOAD-01" in output.findings
    assert "hunter2" not in output.text
    assert "68 75 6e" not in output.text
    assert "aHVudGVyMi" not in json.dumps(output.records)


def test_a_password_in_no_frame_stars_no_other(door: Callable[[type[Any]], Registry], tmp_path: pathlib.Path) -> None:
    output = Output(door(that(goes_far)), tmp_path)
    assert "hunter2" in output.text


CLAIMS: dict[str, Callable[[], Any]] = {
    "fails": lambda: 1 // 0,
    "nothing": lambda: None,
    "seven": lambda: 7,
    "text": lambda: "YES",
    "a list": lambda: [Claim.YES],
}


@pytest.mark.parametrize("what", CLAIMS)
def test_a_claim_that_is_none_is_a_no(what: str, door: Callable[[type[Any]], Registry], tmp_path: pathlib.Path) -> None:
    kind = type("That", (Other,), {"claim": lambda self, message, about: CLAIMS[what]()})
    output = Output(door(kind), tmp_path)
    assert [record["payload"] for record in output.messages] == [None] * len(BODIES)


def test_a_dissector_that_wants_all_messages_gets_all(
    door: Callable[[type[Any]], Registry], tmp_path: pathlib.Path
) -> None:
    """This holds even if it claims none of them."""
    asked: list[Message] = []

    class Wanting(Other):
        begins = b"x"
        wants_all = True

        def claim(self, message: Message, about: About) -> Claim:
            asked.append(message)
            return Claim.NO

    output = Output(door(Wanting), tmp_path, ((b"a",),) * 300)
    assert [record["payload"] for record in output.messages] == [None] * 300
    assert asked


def failing_made(settings: Settings) -> None:
    raise ValueError("\x1b no argument")


UNFIT: dict[str, dict[str, Any]] = {
    "it cannot be made": {"__init__": lambda self, settings: failing_made(settings)},
    "it has no prefix": {"prefix": None},
    "what it begins with is no octets": {"begins": "{"},
    "its least number of frames is none": {"least_frames": None},
    "it has another name": {"name": "mine"},
    "it has no name": {"name": None},
}


@pytest.mark.parametrize("what", UNFIT)
def test_an_unfit_dissector_is_left_out_with_a_reason(
    what: str, door: Callable[[type[Any]], Registry], tmp_path: pathlib.Path
) -> None:
    payloads = door(type("Unfit", (Other,), UNFIT[what]))
    output = Output(payloads, tmp_path)
    assert [record["payload"] for record in output.messages] == [None] * len(BODIES)
    (problem,) = payloads.problems
    assert "other" in problem


def test_an_unfit_dissector_is_reported_on_standard_error(
    door: Callable[[type[Any]], Registry], capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    door(type("Unfit", (Other,), UNFIT["it cannot be made"]))
    capture = str(CAPTURES / "patterns" / "multihop-proxy.pcap")
    for command in (["read", "-q", capture], ["export", capture, "-o", str(tmp_path / "tables")]):
        assert run(command) == 0
        (line,) = [line for line in capsys.readouterr().err.splitlines() if "the payload dissector" in line]
        assert line.startswith(
            "zmtpscope: the payload dissector other cannot be used: ValueError: \\x1b no argument ->"
        )


def test_fields_of_others_are_counted_once() -> None:
    """A dissector may use the maximum number of fields."""

    def reads(message: Message, reader: Reader) -> str:
        for number in range(MAX_FIELDS):
            reader.octets(f"f{number}", 0)
        return ""

    made = dissected(that(reads), b"x")
    assert made.findings == []
    assert len(made.fields) == MAX_FIELDS
