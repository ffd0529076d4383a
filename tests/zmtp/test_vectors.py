"""The byte vectors: fields with their octet ranges, finding ids with theirs, and whether anything is missing."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from tests.zmtp.sides import EARLIER_STEP, Transcript, feed, in_handshake, trees
from zmtpscope.findings import FINDINGS
from zmtpscope.zmtp.events import Greeting
from zmtpscope.zmtp.reader import FieldNode, Finding
from zmtpscope.zmtp.regime import Form, Framing
from zmtpscope.zmtp.side import SideReader

Vector = dict[str, Any]

VECTORS: list[Vector] = json.loads((pathlib.Path(__file__).parent.parent / "vectors.json").read_text())["vectors"]
TCP = [vector for vector in VECTORS if vector["transport"] == "tcp"]

RELATIONS = {"ZMTP3X-META-08", "PLAIN-06"}
"""Findings about both sides, which a reader of one side cannot raise. PLAIN-06 also needs the refused side
(conformance.md)."""

AT_THE_CLOSE = {"NULL-06"}
"""Findings of a close, which vectors do not contain unless something is cut."""


def side_for(vector: Vector, octets: bytes) -> SideReader:
    """A side in the state that the vector names."""
    context = vector.get("context", {})
    version = {"3.x": "3.1", "3.0-early": "3.0"}.get(vector["version"], vector["version"])
    if vector["state"] == "start":
        if version == "1.0":
            newer = octets[:1] == b"\xff" and octets[9] == 0x7F
            return SideReader(Form.PSEUDO_SIGNATURE if newer else Form.FRAMES_1, version)
        return SideReader(Form.GREETING_2 if version == "2.0" else Form.GREETING_3, version)
    mechanism = context.get("mechanism", "NULL")
    if vector["state"] == "handshake":
        names = [field["value"] for field in vector["expect"]["fields"] if field["name"] == "zmtp.command.name"]
        return in_handshake(version, mechanism, EARLIER_STEP.get((mechanism, *names[:1]), b""))
    framing = Framing.V1 if version == "1.0" else Framing.V2
    return SideReader.midstream(
        framing,
        offset=0,
        version=version,
        mechanism=mechanism if version >= "3" else None,
        socket_type=context.get("sender_socket_type"),
    )


def is_complete(transcript: Transcript, size: int) -> bool:
    whole = all(event.complete for event in transcript.events if isinstance(event, Greeting))
    message_open = bool(transcript.rows) and bool(transcript.rows[-1][3] & 1)
    return whole and transcript.position == size and not message_open


def value_of(leaf: FieldNode, octets: bytes, expected: object) -> object:
    """The value of a leaf in the manner of the vectors, which write octets in hex."""
    return leaf.value if leaf.value == expected else octets[leaf.start : leaf.start + leaf.length].hex()


def severity(finding: Finding) -> str:
    return finding.severity or FINDINGS[finding.id].severity


@pytest.mark.parametrize("vector", TCP, ids=lambda vector: vector["id"])
def test_vector(vector: Vector) -> None:
    """Every vector has the expected result."""
    octets = bytes.fromhex(vector["hex"])
    side = side_for(vector, octets)
    transcript = feed(side, octets)
    expect = vector["expect"]
    wanted = [(field["name"], field["start"], field["length"], field["value"]) for field in expect["fields"]]
    leaves = [leaf for tree in trees(transcript, octets) for leaf in tree.leaves()]
    expected_values = [field[3] for field in wanted] + [None] * len(leaves)
    found = [
        (leaf.name, leaf.start, leaf.length, value_of(leaf, octets, expected))
        for leaf, expected in zip(leaves, expected_values, strict=False)
    ]
    assert found == wanted
    assert [
        (finding.id, severity(finding), finding.start, finding.length)
        for finding in transcript.findings
        if finding.id not in AT_THE_CLOSE
    ] == [
        (error["id"], error["severity"], error.get("start"), error.get("length", 0))
        for error in expect["errors"]
        if error["id"] not in RELATIONS
    ]
    assert is_complete(transcript, len(octets)) == expect["complete"]


def test_there_are_vectors_of_every_version() -> None:
    """The file was found and is the one meant."""
    assert {vector["version"] for vector in TCP} >= {"1.0", "2.0", "3.0", "3.0-early", "3.1"}
    assert len(TCP) > 130
