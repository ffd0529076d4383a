"""JSON: objects and arrays, one per frame or one per line."""

from __future__ import annotations

import re

import orjson

from zmtpscope import compiled
from zmtpscope.payloads.api import Claim, Json, Malformed, Reader
from zmtpscope.payloads.dissected import Dissected
from zmtpscope.payloads.framewise import Framewise
from zmtpscope.payloads.json_text import BYTE_ORDER_MARK, SPACES, JsonText
from zmtpscope.payloads.limits import DEEPEST, MAX_FIELDS, Limit
from zmtpscope.payloads.values import as_summary

_BRACKETS = b"{[", b"}]"
_CONTAINERS, _ENDS = (dict, list), (b"}", b"]")
_LINE_ENDS = re.compile(r"\s*[\r\n]\s*")
"""White space with a line end, which cannot be part of a string."""
MAX_CLAIMED, FEW_CLAIMED = 1000, 100
"""Values that `claim` parses if orjson fails, in a frame with at most as many values as a message may have, or with
more."""
HEAD = 4096
"""Number of octets that a summary reads."""
MIN_INTEGER, BEYOND_INTEGERS = -(2.0**63), 2.0**64
"""A float beyond these bounds may have been an integer of more than 64 bits."""


class JsonPayload(Framewise[list[Json]]):
    """Claims a message if its first content frame is exactly one object or array.

    Other frames may have any format. Never claims YES, so that protocols based on JSON have priority.
    """

    name = "json"
    prefix = "json"
    begins = b"{[" + SPACES + BYTE_ORDER_MARK[:1]

    def recognise(self, octets: bytes) -> tuple[Claim, list[Json] | None]:
        documents = recognised(octets)
        return (Claim.NO if documents is None else Claim.MAYBE), documents

    def at_once(self, octets: bytes) -> tuple[str, Json] | None:
        found = ordinary(octets)
        if found is not None:
            return found
        documents = recognised(octets)
        return (summary_of(octets), documents[0]) if documents else None

    def claims_at_once(self, octets: bytes) -> bool:
        return type(loaded(octets)) in _CONTAINERS or recognised(octets) is not None

    def read_frame(self, reader: Reader, known: list[Json] | None, values: list[Json]) -> str:
        summary = summary_of(reader.data)
        _read(reader, known or [], values)
        return summary


def recognised(octets: bytes) -> list[Json] | None:
    """Parse one object or array, or several on lines of their own; None for other octets.

    The list contains the value; it is empty if only `JsonText` can parse it.
    """
    inside = octets.removeprefix(BYTE_ORDER_MARK).strip(SPACES)
    if not inside or inside[0] not in _BRACKETS[0] or inside[-1] not in _BRACKETS[1]:
        return None
    value = loaded(octets)
    if value is not None and _is_ordinary(value):
        return [value]
    most = MAX_CLAIMED if _most_values(octets) <= MAX_FIELDS else FEW_CLAIMED
    text = JsonText(octets, 0, most, trees=False)
    try:
        text.read()
    except Malformed:
        return None
    except Limit:  # the part read is JSON
        return []
    return [text.value]


def _read(reader: Reader, documents: list[Json], values: list[Json]) -> None:
    """Append the value of the current frame to `values`. `documents`: the value if it is already parsed."""
    octets = reader.data
    left = reader.budget.fields
    most = _most_values(octets)
    reader.budget.spend(len(octets), min(most, left))
    if documents and most <= left and not reader.trees:
        values += documents
        reader.adopt(len(octets), [])
        return
    text = JsonText(octets, reader.offset, left, trees=reader.trees)
    try:
        text.read()
    finally:
        values.append(text.value)
        reader.adopt(text.position, text.nodes)


def _most_values(octets: bytes) -> int:
    """Return an upper bound for the number of values in JSON: each is first or follows a comma or bracket."""
    return 1 + octets.count(b",") + octets.count(b"[") + octets.count(b"{")


def loaded(octets: bytes) -> Json | None:
    """Parse JSON with orjson; None if it is invalid."""
    if len(octets) > MAX_FIELDS and _most_values(octets) > MAX_FIELDS:
        return None  # avoid millions of objects for a hostile frame
    try:
        return orjson.loads(octets)
    except orjson.JSONDecodeError:
        return None


def _is_ordinary(value: Json) -> bool:
    """Whether `JsonText` would return the same value as orjson did.

    It would not if the value is nested too deep, or an integer of more than 64 bits became a float.
    """
    level = [value]
    for _ in range(DEEPEST):
        below = []
        for around in level:
            for each in around.values() if type(around) is dict else around:
                kind = type(each)
                if kind is dict or kind is list:
                    below.append(each)
                elif kind is float and not MIN_INTEGER < each < BEYOND_INTEGERS:
                    return False
        if not below:
            return True
        level = below
    return False


def summary_of(octets: bytes) -> str:
    head = octets[:HEAD].removeprefix(BYTE_ORDER_MARK).decode("utf-8", "ignore").strip()
    if "\n" in head or "\r" in head:
        head = _LINE_ENDS.sub(" ", head)
    return head + "…" if len(octets) > HEAD else head


@compiled.where_possible
def ordinary(octets: bytes) -> tuple[str, Json] | None:
    """Return (summary, value) of an object or array that orjson and `JsonText` parse alike, otherwise None."""
    if octets[-1:] not in _ENDS:  # rules out most octets that are not JSON
        return None
    value = loaded(octets)
    return (summary_of(octets), value) if type(value) in _CONTAINERS and _is_ordinary(value) else None


def dissected(octets: bytes) -> Dissected:
    """Dissect `octets`, the only content frame of a message.

    `ordinary` has accepted them; it may not any more if their file has changed since.
    """
    summary, value = ordinary(octets) or (summary_of(octets), None)
    return Dissected(JsonPayload.name, as_summary(summary), None if value == {} else value)


@compiled.where_possible
def summary_and_fields(octets: bytes) -> tuple[str, str | None]:
    """Return (summary, fields as JSON text) of the only content frame of a message, like `dissected`."""
    made = dissected(octets)
    return made.summary, None if made.fields is None else orjson.dumps(made.fields).decode()
