"""JSON beyond the limits: the place where reading ends, and the fields before it."""

from __future__ import annotations

import json

import pytest

from tests.payloads.reading import START, assert_tiled, claimed, dissected
from zmtpscope.payloads.api import Claim
from zmtpscope.payloads.json import JsonPayload, recognised
from zmtpscope.payloads.limits import MAX_FIELDS


@pytest.mark.parametrize("levels", [65, 1000, 5000])
@pytest.mark.parametrize("trees", [False, True])
def test_deep(levels: int, trees: bool) -> None:
    octets = b'[7,{"a":' * (levels // 2) + b"[" + b"]" + b"}]" * (levels // 2)
    assert claimed(JsonPayload, octets) is Claim.MAYBE
    made = dissected(JsonPayload, octets, trees=trees)
    assert [each.id for each in made.findings] == ["PAYLOAD-05"]
    assert made.findings[0].start == START + 32 * 8
    value, depth = made.fields, 0
    while value:
        depth, value = depth + 1, value[1] if isinstance(value, list) else value["a"] if value else None
    assert depth == 63 or depth == 64
    if trees:
        assert_tiled(made, octets)


def test_as_deep_as_is_read() -> None:
    octets = b"[" * 64 + b"]" * 64
    assert recognised(octets)
    assert dissected(JsonPayload, octets).findings == []
    assert dissected(JsonPayload, octets, trees=True).findings == []


@pytest.mark.parametrize("trees", [False, True])
def test_many_fields(trees: bool) -> None:
    octets = b"[" + b"1," * MAX_FIELDS + b"1]"
    made = dissected(JsonPayload, octets, trees=trees)
    assert [each.id for each in made.findings] == ["PAYLOAD-02"]
    assert made.fields == [1] * (MAX_FIELDS - 1)
    if trees:
        assert_tiled(made, octets)


def test_fields_of_all_frames_count() -> None:
    frames = [b"[" + b"1," * 5999 + b"1]"] * 2
    for trees in (False, True):
        made = dissected(JsonPayload, *frames, trees=trees)
        assert [each.id for each in made.findings] == ["PAYLOAD-02"]
        assert [len(each) for each in made.fields] == [6000, MAX_FIELDS - 6001 - 1]


def test_commas_in_strings_are_no_fields() -> None:
    octets = json.dumps({"text": "a, b, [c], {d}" * 5000}).encode()
    for trees in (False, True):
        made = dissected(JsonPayload, octets, trees=trees)
        assert made.findings == []
        assert len(made.fields["text"]) == 70000
