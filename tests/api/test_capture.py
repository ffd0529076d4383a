"""`zmtpscope.open`: the records of `zmtpscope.read`, by number, by class and by filter, in any order of asking."""

from __future__ import annotations

import pathlib
import re
import warnings
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import zmtpscope
from tests.api.test_reading import PUBSUB, ignored_warnings
from tests.readings import CAPTURE_FILES, CAPTURES

__all__ = ["ignored_warnings"]
MIXED = [CAPTURES / name for name in ("implementations/jupyter.pcap", "patterns/pubsub.pcap", "security/gssapi.pcap")]


def values(records: Iterable[zmtpscope.Record]) -> list[dict[str, object]]:
    return [record.as_dict() for record in records]


@pytest.fixture(scope="module")
def capture() -> zmtpscope.Capture:
    return zmtpscope.open(MIXED)


@pytest.fixture(scope="module")
def expected() -> list[dict[str, object]]:
    return values(zmtpscope.read(MIXED, zmtpscope.Record))


@pytest.mark.parametrize("path", CAPTURE_FILES, ids=lambda path: path.stem)
def test_records_match_records_read_one_by_one(path: pathlib.Path) -> None:
    assert values(zmtpscope.open(path)) == values(zmtpscope.read(path, zmtpscope.Record))


def test_frames_are_there_where_they_are_asked_for() -> None:
    with_frames = zmtpscope.open(PUBSUB, frames=True)
    assert values(with_frames.of(zmtpscope.Frame)) == values(zmtpscope.read(PUBSUB, zmtpscope.Frame))
    with pytest.raises(ValueError, match="frames=True"):
        zmtpscope.open(PUBSUB).of(zmtpscope.Frame)


@given(data=st.data())
def test_records_are_had_by_their_numbers(
    data: st.DataObject, capture: zmtpscope.Capture, expected: list[dict[str, object]]
) -> None:
    assert len(capture) == len(expected)
    number = data.draw(st.integers(-len(expected), len(expected) - 1))
    assert capture[number].as_dict() == expected[number]
    some = data.draw(st.slices(len(expected)).filter(lambda cut: cut.step is None or cut.step > 0))
    assert values(capture[some]) == expected[some]


@pytest.mark.parametrize(
    "filter", ["size > 20", "record == command or topic contains a", "payload.protocol == jupyter", "severity == note"]
)
def test_filters_select_what_they_select_when_reading(capture: zmtpscope.Capture, filter: str) -> None:
    found = values(zmtpscope.read(MIXED, zmtpscope.Record, filter=filter))
    assert values(capture.filter(filter)) == found != []
    assert values(capture.filter(filter).messages()) == [each for each in found if each["record"] == "message"]


def test_classes_and_tables_match_reading(capture: zmtpscope.Capture) -> None:
    for name, view, class_ in (
        ("messages", capture.messages(), zmtpscope.Message),
        ("commands", capture.commands(), zmtpscope.Command),
        ("connections", capture.connections(), zmtpscope.Connection),
        ("findings", capture.findings(), zmtpscope.Finding),
    ):
        assert values(view) == values(zmtpscope.read(MIXED, class_)) != []
        table = zmtpscope.read(MIXED, class_).to_arrow()
        assert capture.to_arrow(name).equals(table)
        assert capture.to_arrow(class_).equals(table)
        assert view.to_arrow().equals(table)
    assert len(capture.to_pandas()) == len(capture.to_polars()) == len(capture.messages())


def test_line_octets_and_details_of_a_record(capture: zmtpscope.Capture) -> None:
    messages = capture.filter("topic == 'a.topic'")
    assert re.fullmatch(
        r'pubsub.pcap:29 .* PUB:5630 > SUB +message 7\+9 octets "a.topic"  payload 0\n', str(messages.line(0))
    )
    assert messages.octets(0) == b"\x01\x07a.topic\x00\x09payload 0"
    assert "61 2e 74 6f 70 69 63" in messages.detail(0)
    assert messages.octets(-1) == messages[-1:].octets(0) == b"\x01\x07a.topic\x00\x04late"


def test_findings_lead_to_what_they_are_about() -> None:
    capture = zmtpscope.open(CAPTURES / "security/plain-wrong-password.pcap")
    found = [capture.find(reference) for finding in capture.findings() for reference in finding.refs]
    assert found
    assert all(record is not None for record in found)
    assert capture.find("nothing") is None


def test_a_conversation_is_followed(capture: zmtpscope.Capture) -> None:
    assert values(capture.follow(conn=2)) == values(capture.filter("conn == 2")) != []
    assert values(capture.follow(topic="a.topic")) == values(capture.filter("topic == 'a.topic'")) != []
    assert values(capture.messages().follow(conn=2)) == values(capture.messages().filter("conn == 2"))
    with pytest.raises(TypeError, match="conn, peer or topic"):
        capture.follow()


def test_a_file_that_has_changed_leaves_the_records_without_bodies(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(PUBSUB.read_bytes())
    capture = zmtpscope.open(path, payload="off")
    path.write_bytes(b"")
    with warnings.catch_warnings(record=True, action="always") as warned:
        message = capture.messages()[0]
    assert (message.sizes, message.topic) == ([7, 9], "a.topic")
    assert (message.bodies, message.bodies_kept) == ([b"a.topic", b""], "head")  # what is known without the file
    assert str(warned[0].message).startswith(str(path))
    for ask in (lambda: capture.filter("bodies contains payload"), capture.to_arrow):
        with pytest.warns(zmtpscope.CaptureWarning, match=r"a\.pcap.*; bodies are missing"):
            ask()
    with pytest.raises(zmtpscope.OctetsError, match=r"a\.pcap"):
        capture.messages().octets(0)


def test_mistakes_are_a_sentence(capture: zmtpscope.Capture) -> None:
    with pytest.raises(IndexError):
        capture[len(capture)]
    with pytest.raises(ValueError, match="reversed"):
        capture[::-1]
    with pytest.raises(ValueError, match="there are no records 'message_s'; did you mean messages"):
        capture.to_arrow("message_s")
    with pytest.raises(zmtpscope.FilterError, match="did you mean topic"):
        capture.filter("topik == 1")


def test_views_are_shown_in_notebooks(capture: zmtpscope.Capture) -> None:
    html = capture._repr_html_()
    assert html.count("<tr>") == 21
    assert f"&lt;{len(capture)} records&gt;" in html
    assert repr(capture.connections()[:1]) == "<1 connection>"
