"""The fields of a record, as in outputs and filters, with links to related records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from zmtpscope.export.clock import timestamp
from zmtpscope.export.details import MAX_FIELDS
from zmtpscope.export.preview import preview
from zmtpscope.export.safe_text import safe_text
from zmtpscope.filter.fields import FIELDS, Type
from zmtpscope.filter.writing import comparison, member
from zmtpscope.record_fields import Field
from zmtpscope.records import RECORDS
from zmtpscope.store import Store
from zmtpscope.tui.requests import Node

LONGEST = 200

MAX_FINDINGS = 20

DEEPEST = 20


def nodes_of_record(store: Store, number: int, values: dict[str, Any]) -> Iterator[Node]:
    """Yield the fields of a record that have a value as nodes, below a node for the record."""
    kind = values["record"]
    yield Node(0, "record", kind, -1, filter=f"record == {kind}")
    connection = store.connection(values["conn"], near=number)
    links = {"conn": connection, "conn_id": connection}
    if kind == "finding":
        links["offset"] = store.unit_of(values, number)
    for field in RECORDS[kind].fields:
        value = values[field.name]
        if value is None or value == []:
            continue
        if field.name == "refs":
            yield from _nodes_of_refs(store, number, value)
        elif isinstance(value, list):
            yield from _nodes_of_list(field, value)
        elif isinstance(value, dict):
            yield from _nodes_of_payload(field.name, value)
        else:
            link = links.get(field.name)
            yield _node(
                1, field.name, _text(field, value), comparison(field.name, value), None if link == number else link
            )


def nodes_of_findings(store: Store, number: int, values: dict[str, Any]) -> Iterator[Node]:
    if values.get("offset") is None or values["record"] == "finding":
        return
    found = store.findings_about(values, number)[:MAX_FINDINGS].tolist()
    if found:
        yield Node(0, "findings", f"{len(found)}", -1)
    for each in found:
        finding = store.row(each)
        text = f"{finding['text']}" + (f" -> {finding['hint']}" if finding["hint"] else "")
        yield Node(1, finding["id"], _cut(safe_text(text)), -1, link=each, style=finding["severity"])


def _node(depth: int, name: str, text: str, filter: str | None = None, link: int | None = None) -> Node:
    return Node(depth, safe_text(name), text, -1, link=link, filter=filter or "")


def _nodes_of_refs(store: Store, number: int, refs: Sequence[str]) -> Iterator[Node]:
    yield _node(1, "refs", f"{len(refs)}")
    for place, each in enumerate(refs):
        yield _node(2, f"refs[{place}]", safe_text(each), comparison("refs", each), store.find(each, near=number))


def _nodes_of_list(field: Field, value: list[Any]) -> Iterator[Node]:
    yield _node(1, field.name, f"{len(value)}")
    for place, each in enumerate(value[:MAX_FIELDS]):
        name = f"{field.name}[{place}]"
        if isinstance(each, dict):
            yield _node(2, name, "")
            for inner, text in each.items():
                path = f"{field.name}.{inner}"
                yield _node(3, path, _text(field, text), comparison(path, text))
        elif each is None:
            yield _node(2, name, "not kept")
        else:
            yield _node(2, name, _text(field, each), comparison(field.name, each))


def _nodes_of_payload(name: str, value: dict[str, Any]) -> Iterator[Node]:
    yield _node(1, name, safe_text(value["protocol"] or ""))
    for inner in ("protocol", "summary"):
        if value[inner] is not None:
            path = f"{name}.{inner}"
            yield _node(2, path, _cut(safe_text(value[inner])), comparison(path, value[inner]))
    if value["fields"] is not None:
        yield from _nodes_of_members("fields", value["fields"])


def _nodes_of_members(name: str, value: Any) -> Iterator[Node]:
    waiting: list[tuple[int, str, Any, tuple[str, ...]]] = [(2, name, value, ())]
    left = MAX_FIELDS
    while waiting and left:
        depth, name, value, way = waiting.pop()
        left -= 1
        if isinstance(value, dict | list) and value and len(way) < DEEPEST:
            inner = (
                [(depth + 1, f"[{place}]", each, way) for place, each in enumerate(value)]
                if isinstance(value, list)
                else [(depth + 1, str(key), each, (*way, str(key))) for key, each in value.items()]
            )
            waiting += reversed(inner)
            yield _node(depth, name, f"{len(value)}")
        else:
            is_plain = not isinstance(value, dict | list) and value is not None
            yield _node(depth, name, _json_text(value), member(way, value) if is_plain else None)


def _json_text(value: Any) -> str:
    if isinstance(value, bytes):
        return preview(value, len(value), LONGEST)
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return _cut(safe_text(str(value)))


def _text(field: Field, value: Any) -> str:
    if isinstance(value, bytes):
        size = len(value)
        return preview(value, size, LONGEST) + (f" ({size} octets)" if size > 16 else "")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if field.name in FIELDS and FIELDS[field.name].type is Type.TIME:
            return timestamp(value)
        return f"{value} {field.unit}" if field.unit else f"{value}"
    return _cut(safe_text(str(value)))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
