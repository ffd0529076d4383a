"""Mermaid and SVG: their contents, and that no data of peers becomes syntax of either, or of a terminal."""

from __future__ import annotations

import pathlib
import re
import unicodedata
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.export.diagram.drawing import as_mermaid, as_svg, as_text, of_file, of_traffic
from tests.peer_octets import GREETING, command, message, ready
from tests.readings import CAPTURES
from tests.traffic import Conversation
from zmtpscope.export.diagram.layout import Diagram
from zmtpscope.export.diagram.mermaid import MAX_TEXT
from zmtpscope.export.diagram.text import ASCII, UNICODE
from zmtpscope.records import to_text

SVG = "{http://www.w3.org/2000/svg}"
ELEMENTS = {"svg", "title", "style", "rect", "path", "text"}
ATTRIBUTES = {"width", "height", "viewBox", "role", "class", "x", "y", "rx", "d"}
LABEL = r"(?:[A-Za-z0-9 .,:_/()+=\"'|…-]|#[0-9]+;|<br/>)*"
STATEMENT = re.compile(
    rf"    (?:participant p\d+ as {LABEL}|p\d+(?:->>|-->>|--x)p\d+: \d{LABEL}|Note over p\d+(?:,p\d+)?: [\d.]{LABEL})"
)
"""All that a line of Mermaid may be: letters, digits and a few marks, and the others by their numbers. Labels of
statements begin with a digit, so none begins with `wrap:`."""

HOSTILE = [
    "</text><script>alert(1)</script>",
    "]]><!--",
    "&#x3c;img src=x onerror=alert(1)&#x3e;",
    '"; p1->>p2: forged',
    "wrap: nowrap: %%{init: {}}%%",
    "end\nparticipant p9 as forged",
    "#60;br/#62;$$x$$```",
    "\x1b[2J\x1b]0;title\x07\u202e\u2028",
]


def texts(picture: ElementTree.Element) -> list[str]:
    return [each.text or each[0].tail or "" for each in picture.iter(f"{SVG}text")]


def diagram_with(topic: bytes, identity: str, name: str) -> Diagram:
    """A subscription, messages and a command with hostile text."""
    talk = Conversation()
    talk.send(0, GREETING)
    talk.send(1, GREETING)
    talk.send(0, ready("SUB", ("Identity", to_text(identity.encode()))))
    talk.send(1, ready("PUB"))
    talk.send(0, command("NULL", "SUBSCRIBE", topic=to_text(topic)))
    talk.send(1, message(topic, topic * 3))
    talk.send(1, message(topic))
    octets = name.encode()
    talk.send(1, bytes([4, len(octets) + 1, len(octets)]) + octets)
    talk.reset(0)
    return of_traffic(talk)


def assert_harmless(diagram: Diagram) -> None:
    """None of the three forms holds anything that we did not write."""
    for line in as_text(diagram).splitlines():
        assert {unicodedata.category(character) for character in line}.isdisjoint({"Cc", "Cf", "Cs", "Zl", "Zp"})
    head, *statements = as_mermaid(diagram)
    assert head == "sequenceDiagram"
    assert [line for line in statements if STATEMENT.fullmatch(line) is None] == []
    assert len(statements) == len(diagram.lifelines) + len(diagram.rows)
    for element in as_svg(diagram).iter():
        assert element.tag.removeprefix(SVG) in ELEMENTS
        assert set(element.attrib) <= ATTRIBUTES


@given(st.binary(max_size=40), st.text(max_size=20), st.text(min_size=1, max_size=30))
def test_no_text_of_peers_becomes_syntax(topic: bytes, identity: str, name: str) -> None:
    assert_harmless(diagram_with(topic, identity, name))


@pytest.mark.parametrize("text", HOSTILE)
def test_text_that_means_something_elsewhere_is_text(text: str) -> None:
    diagram = diagram_with(text.encode() * 2, text, text)  # long enough to be cut in a picture
    assert_harmless(diagram)
    assert any("SUBSCRIBE" in each for each in texts(as_svg(diagram)))


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("faults/*.pcap")), ids=lambda path: path.stem)
def test_faulty_peers_are_drawn_as_any_other(path: pathlib.Path) -> None:
    diagram = of_file(str(path.relative_to(CAPTURES)))
    if diagram.rows:
        assert_harmless(diagram)


def test_mermaid_draws_no_more_than_it_can() -> None:
    diagram = of_file("damage/holes.pcap", folds=False)
    many = Diagram(diagram.lifelines, diagram.rows * 20)
    lines = as_mermaid(many)
    assert MAX_TEXT - 500 < sum(len(line) + 1 for line in lines) <= MAX_TEXT
    (left_out,) = re.findall(r"(\d+) more rows are left out", lines[-1])
    assert int(left_out) == len(many.rows) - (len(lines) - len(many.lifelines) - 2)


def test_a_picture_has_the_contents_of_the_text() -> None:
    diagram = of_file("patterns/pubsub.pcap")
    shown = texts(as_svg(diagram))
    for row in diagram.rows:
        assert any(row.what[:20] in each for each in shown)
    for line in diagram.lifelines:
        assert line.name in shown


def test_a_picture_needs_nothing_else() -> None:
    picture = as_svg(of_file("patterns/multihop-proxy.pcap"))
    (style,) = picture.iter(f"{SVG}style")
    assert style.text is not None
    assert "url(" not in style.text
    assert "@import" not in style.text
    assert "prefers-color-scheme:dark" in style.text


def test_nothing_is_outside_of_a_picture() -> None:
    for name in ("patterns/pubsub.pcap", "patterns/multihop-proxy.pcap", "damage/holes.pcap"):
        picture = as_svg(of_file(name))
        width, height = float(picture.attrib["width"]), float(picture.attrib["height"])
        for rectangle in picture.iter(f"{SVG}rect"):
            left, top = float(rectangle.get("x", "0")), float(rectangle.get("y", "0"))
            assert 0 <= left <= left + float(rectangle.attrib["width"]) <= width
            assert 0 <= top <= top + float(rectangle.attrib["height"]) <= height


def test_marks_of_terminals_are_one_column_wide() -> None:
    for marks in (UNICODE, ASCII):
        assert all(len(mark) == 1 for mark in marks[:-1])
    assert all(mark.isascii() for mark in ASCII)
