"""The lines of field trees."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dissect.talks import connected
from tests.traffic import Capture
from zmtpscope.capture.segments import ACK
from zmtpscope.dissect import Analyser, Options
from zmtpscope.dissect.records.details import Detail
from zmtpscope.export.clock import Clock
from zmtpscope.export.details import MAX_FIELDS, tree_lines
from zmtpscope.export.text import MAX_FRAMES, Look, TextLines
from zmtpscope.zmtp.details import field_tree
from zmtpscope.zmtp.reader import FieldNode


def test_names_of_fields_are_made_safe_as_values_are() -> None:
    """Keys of MessagePack are field names from the network; plug-ins choose any names."""
    leaf = FieldNode("messagepack.\x1b[31m\u202e\n", 0, 2, "\x1b[0m")
    tree = FieldNode("zmtp.body", 0, 2, None, [leaf])
    (_, line) = tree_lines(Detail(0, b"{}", tree, []), show_secrets=False)
    assert line.split() == ["messagepack.\\x1b[31m\\u202e\\x0a", "[0..1]", '"\\x1b[0m"']


def test_no_more_fields_are_shown_than_people_read() -> None:
    leaves = [FieldNode("zmtp.body", place, 1, place) for place in range(MAX_FIELDS + 2)]
    tree = FieldNode("zmtp.frame", 0, len(leaves), None, leaves)
    *_, last = lines = list(tree_lines(Detail(0, bytes(len(leaves)), tree, []), show_secrets=False))
    assert len(lines) == MAX_FIELDS + 2
    assert last == "    ... and more than 20,000 fields: --json has all of them"


@pytest.mark.parametrize("look", [{"tree": True}, {"hex": True}])
def test_frames_are_made_as_they_are_shown_and_no_more_of_them_than_people_read(
    look: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = 0

    def count(*given: Any, **more: Any) -> FieldNode:
        nonlocal made
        made += 1
        return field_tree(*given, **more)

    monkeypatch.setattr("zmtpscope.dissect.records.details.field_tree", count)
    talk = connected("PUSH", "PULL")
    talk.add(0, ACK, b"\1\0" * 5_000 + b"\0\0")
    options = Options(details=True)
    text = TextLines(Look(Clock("r", lambda: 0), **look), options)
    lines = [line for batch in Analyser(options).run(Capture(talk.packets)) for line in text.lines(batch)]
    assert "    ... and more than 1,000 frames: --frames prints one line for each, --json their bodies\n" in lines
    assert MAX_FRAMES < made < MAX_FRAMES + 10
