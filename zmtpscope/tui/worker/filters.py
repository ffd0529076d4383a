"""Checks and completions of filters, and filters made from the value of a cell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.export.preview import quoted
from zmtpscope.export.safe_text import safe_text
from zmtpscope.filter import Filter, FilterError
from zmtpscope.filter.checking import PAYLOAD, operand_of
from zmtpscope.filter.conditions import FieldOperand
from zmtpscope.filter.expected import Expected, expected
from zmtpscope.filter.fields import FIELDS, FilterField, Type
from zmtpscope.filter.syntax import What
from zmtpscope.filter.writing import comparison, literal, way_to
from zmtpscope.findings import FINDINGS
from zmtpscope.records import RECORDS, to_text
from zmtpscope.store import Store
from zmtpscope.tui.requests import Completion, FilterProblem, Followed
from zmtpscope.tui.worker.sides import Sides

Offer = tuple[str, str]
"""A text to insert, and its meaning."""

MOST = 200
"""Completions."""

OPERATORS: tuple[tuple[str, str, tuple[Type, ...]], ...] = (
    ("==", "is", tuple(Type)),
    ("!=", "is not", tuple(Type)),
    ("in", "is one of", tuple(Type)),
    ("contains", "has within it", (Type.TEXT, Type.OCTETS, Type.MEMBERS)),
    ("matches", "fits a regular expression", (Type.TEXT, Type.OCTETS, Type.MEMBERS)),
    ("<", "is less than", tuple(each for each in Type if each not in (Type.ADDRESS, Type.TRUTH))),
    ("<=", "is at most", tuple(each for each in Type if each not in (Type.ADDRESS, Type.TRUTH))),
    (">", "is more than", tuple(each for each in Type if each not in (Type.ADDRESS, Type.TRUTH))),
    (">=", "is at least", tuple(each for each in Type if each not in (Type.ADDRESS, Type.TRUTH))),
)
"""Operators: text, meaning, and the types they apply to."""

JOINERS = {"and": "both hold", "or": "one of them holds", ")": "the end of the bracket"}
IN_FRONT = (
    ("not", "the opposite"),
    ("any", "of a list one element"),
    ("all", "of a list every element"),
    ("len(", "how long text or octets are"),
    ("lower(", "in small letters"),
    ("upper(", "in capital letters"),
)
MAX_EXAMINED, MAX_MESSAGES = 2000, 30
"""Number of last records, and messages among them, searched for member names."""

DEEPEST = 6

_HAS_MEMBERS = Filter("record == message and payload.fields")

FUNCTIONS = ("len(", "lower(", "upper(")

USUAL = ("topic", "size", "conn", "record", "socket_type", "parts", "payload.protocol", "port", "ip", "severity", "id")
"""Fields offered first."""


def check(text: str) -> FilterProblem | None:
    """Return the error of a filter, or None."""
    if not text.strip():
        return None
    try:
        Filter(text)
    except FilterError as error:
        hint = "" if error.hint is None else f"; {error.hint}"
        return FilterProblem(safe_text(f"{error.sentence}{hint}"), error.start)
    return None


def complete(text: str, place: int, store: Store) -> Completion:
    """Return completions for the position `place` of a filter: texts that start with the typed one, then texts that
    contain it."""
    wanted = expected(text, place)
    typed = wanted.typed.lower()
    offers = [offer for offer in _OFFERS[wanted.what](wanted, store) if typed.strip("\"'") in offer[0].lower()]
    offers += [(joiner, JOINERS[joiner]) for joiner in wanted.joiners if joiner.startswith(typed)]
    offers.sort(key=lambda offer: not offer[0].lower().lstrip('"').startswith(typed.lstrip("\"'")))
    texts, notes = zip(*offers[:MOST], strict=True) if offers else ((), ())
    return Completion(wanted.start, wanted.stop, texts, notes)


def _fields(wanted: Expected, store: Store) -> Iterator[Offer]:
    if wanted.typed.startswith(f"{PAYLOAD}."):
        ways = (way for fields in _members(store) for way in ways_of(fields))
        yield from ((way, "a member of what rides inside messages") for way in dict.fromkeys(ways))
        return
    for name in (*USUAL, *(each for each in FIELDS if each not in USUAL)):
        if wanted.inside != "(" or FIELDS[name].type in (Type.TEXT, Type.OCTETS, Type.MEMBERS):
            yield name, meaning_of(FIELDS[name])
    if wanted.inside != "(":
        yield from (offer for offer in IN_FRONT if not wanted.inside or offer[0] in FUNCTIONS)


def meaning_of(field: FilterField) -> str:
    return field.meaning if field.alias_of is None else f"{field.alias_of}: {field.meaning}"


def _members(store: Store) -> list[Any]:
    rows = np.arange(max(0, len(store) - MAX_EXAMINED), len(store))
    numbers = store.select(_HAS_MEMBERS, rows)[-MAX_MESSAGES:]
    if not len(numbers):
        return []
    payloads = MessageColumns.of(store.batch(numbers), store.options)["payload"].tolist()
    return [payload["fields"] for payload in payloads if payload is not None]


def ways_of(fields: Any) -> list[str]:
    """Return the paths of all members of a decoded payload, as filters write them: `header.msg_type`."""
    found: list[str] = []
    waiting: list[tuple[tuple[str, ...], Any]] = [((), fields)]
    while waiting and len(found) < MOST:
        way, value = waiting.pop()
        if isinstance(value, list):
            waiting += [(way, each) for each in value[:MOST]]
        elif isinstance(value, dict) and len(way) < DEEPEST:
            waiting += [((*way, str(key)), each) for key, each in value.items()]
        if way:
            found.append(way_to(way))
    return [way for way in found if safe_text(way) == way]


def _operators(wanted: Expected, store: Store) -> Iterable[Offer]:
    assert wanted.operand is not None
    return [(text, meaning) for text, meaning, types in OPERATORS if wanted.operand.type in types]


def _values(wanted: Expected, store: Store) -> Iterator[Offer]:
    """Yield values of the field to complete that occur in records; none for functions and parts of fields."""
    operand = wanted.operand
    if not isinstance(operand, FieldOperand) or operand.steps:
        return
    field = operand.field
    seen = store.values_seen(field) if (field.scale, field.shift) == (1, 0) and field.derive is None else []
    values = [*field.words, *(each for each in seen if each not in field.words)]
    if field.type is Type.TRUTH:
        values = [True, False]
    for value in values:
        written = literal(field, value)
        if written is not None and safe_text(written) == written:
            yield written, _meaning_of_value(field, value)


def _meaning_of_value(field: FilterField, value: object) -> str:
    name = field.alias_of or field.name
    if name == "record" and value in RECORDS:
        return RECORDS[str(value)].meaning
    return FINDINGS[str(value)].text if name == "id" and value in FINDINGS else ""


def _set(wanted: Expected, store: Store) -> Iterable[Offer]:
    return [("{", "a set of values, or of ranges: {1, 5..9}")]


def _nothing(wanted: Expected, store: Store) -> Iterable[Offer]:
    return ()


_OFFERS = {
    What.FIELD: _fields,
    What.OPERATOR: _operators,
    What.VALUE: _values,
    What.MEMBER: _values,
    What.SET: _set,
    What.JOINER: _nothing,
    What.NOTHING: _nothing,
}


Values = Mapping[str, Any]

FIELDS_OF_COLUMNS = {
    "time": ("ts_ns",),
    "from": ("src_ip", "src_port"),
    "to": ("dst_ip", "dst_port"),
    "src": ("src_ip", "src_port"),
    "dst": ("dst_ip", "dst_port"),
    "content": ("payload.protocol",),
    "after": ("ts_ns",),
    **dict.fromkeys(("left", "right", "left_hex", "right_hex"), ("conn", "side")),
}
"""Fields of columns that have no field of their name."""


def cell_filter(values: Values, column: str) -> str | None:
    """Return a filter for records with the same values in a column, or None."""
    conditions = []
    for name in FIELDS_OF_COLUMNS.get(column, (column,)):
        found = [comparison(name, value) for value in operand_of(name).values(values)]
        if len(found) != 1 or found[0] is None:
            return None
        conditions.append(found[0])
    return " && ".join(conditions)


def followed(values: Values, sides: Sides) -> Iterator[Followed]:
    conn = values.get("conn")
    if conn is None:
        return
    yield Followed("conn", f"connection {conn}", f"conn == {conn}")
    topic = values.get("topic")
    if topic is not None and (filter := comparison("topic", topic)) is not None:
        yield Followed("topic", f"topic {quoted(to_text(topic) if isinstance(topic, bytes) else topic)}", filter)
    for side in (values.get("side"), None if values.get("side") is None else 1 - values["side"]):
        identity = None if side is None else sides.announced(conn, side)[1]
        if identity:
            conns = ", ".join(map(str, sides.connections_of(identity)))
            yield Followed("peer", f"peer {quoted(identity)}", f"conn in {{{conns}}}")
            return
