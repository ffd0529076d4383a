"""Connection metadata, the property list of READY and INITIATE (wire.md 7.2)."""

from __future__ import annotations

import re
from typing import Any

from zmtpscope.records import from_text
from zmtpscope.zmtp.events import Fields
from zmtpscope.zmtp.reader import Cut, Reader
from zmtpscope.zmtp.regime import Regime
from zmtpscope.zmtp.socket_types import DRAFT, IDENTIFIED, PEERS

LARGEST_VALUE = 2**31 - 1

PROPERTY_NAME = re.compile(r"[A-Za-z0-9\-_.+]{1,255}")
_RESOURCE_PART = r"[A-Za-z0-9$\-_@.&+]+"
_RESOURCE = re.compile(_RESOURCE_PART + r"(?:/" + _RESOURCE_PART + r")*")

_DEFINED = {"socket-type": "Socket-Type", "identity": "Identity", "resource": "Resource"}
"""Specified spelling by folded name: property names ignore case (D15)."""


Seen = dict[str, tuple[int, int, str]]
"""First value of each property by folded name: (stream offset, size in octets, text)."""


def read_metadata(reader: Reader, regime: Regime, fields: Fields) -> None:
    """Parse the remaining octets as properties, up to the first that is too long.

    Fills `metadata` (names and values, in order, with repeats), `socket_type` and `identity`.
    """
    metadata: list[dict[str, str]] = []
    fields["metadata"] = metadata
    seen: Seen = {}
    whole = True
    while reader.left and whole:
        start = reader.offset
        with reader.group("zmtp.metadata"):
            try:
                whole = _read_property(reader, metadata, seen)
            except Cut:
                whole = False
                reader.finding("ZMTP3X-META-04", start, reader.offset - start)
    if reader.left:
        reader.rest("zmtp.trailing")
    _judge(reader, regime, fields, seen, whole)


def _read_property(reader: Reader, metadata: list[dict[str, str]], seen: Seen) -> bool:
    """Parse one property and append its name and value to `metadata`.

    `seen` has the first value of each property. Returns False if the property is truncated, so that no other can be
    parsed.
    """
    start = reader.offset
    name_length = reader.u8("zmtp.metadata.name_length")
    name = reader.text("zmtp.metadata.name", name_length)
    value_start = reader.offset
    value_length = reader.u32("zmtp.metadata.value_length")
    if value_length > LARGEST_VALUE:
        reader.finding("ZMTP3X-META-03", value_start, 4)
        return False
    if value_length > reader.left:
        reader.text("zmtp.metadata.value", reader.left)
        reader.finding("ZMTP3X-META-04", value_start, reader.offset - value_start)
        return False
    value = reader.text("zmtp.metadata.value", value_length, keep_empty=True)
    metadata.append({"name": name, "value": value})
    _judge_name(reader, start + 1, name_length, name, seen)
    seen.setdefault(name.lower(), (value_start + 4, value_length, value))
    return True


def _judge_name(reader: Reader, start: int, length: int, name: str, seen: Seen) -> None:
    if not name:
        reader.finding("ZMTP3X-META-01", start - 1, 1)
        return
    folded = name.lower()
    defined = _DEFINED.get(folded)
    if PROPERTY_NAME.fullmatch(name) is None:
        reader.finding("ZMTP3X-META-02", start, length)
    elif defined is None and not folded.startswith("x-"):
        reader.finding("ZMTP3X-META-14", start, length)
    elif defined is not None and defined != name:
        reader.finding("ZMTP3X-META-12", start, length)
    if folded in seen:
        reader.finding("ZMTP3X-META-05", start, length)


def _judge(reader: Reader, regime: Regime, fields: Fields, seen: Seen, whole: bool) -> None:
    """Add findings about the properties that ZMTP defines.

    `seen` has the first value of each; repeated values are ignored. `whole`: no property is truncated.
    """
    socket_type = None
    if "socket-type" in seen:
        start, length, socket_type = seen["socket-type"]
        fields["socket_type"] = socket_type
        if socket_type not in PEERS:
            reader.finding("ZMTP3X-META-07", start, length)
        elif socket_type in DRAFT and regime.version == "3.0":
            reader.finding("ZMTP3X-META-07", start, length, "note")
    elif whole:
        reader.finding("ZMTP3X-META-06")
    if "identity" in seen:
        start, length, identity = seen["identity"]
        fields["identity"] = identity
        if socket_type in PEERS and socket_type not in IDENTIFIED:
            reader.finding("ZMTP3X-META-09", start, length)
        if length > 255:
            reader.finding("ZMTP3X-META-10", start, length)
        if identity.startswith("\0"):
            reader.finding("ZMTP3X-META-11", start, 1)
    if "resource" in seen:
        start, length, resource = seen["resource"]
        if _RESOURCE.fullmatch(resource) is None:
            reader.finding("ZMTP3X-META-13", start, length)


def build_metadata(fields: Fields) -> bytes:
    """Build metadata from `fields["metadata"]` or, without it, from `socket_type` and `identity`."""
    metadata: list[dict[str, Any]] | None = fields.get("metadata")
    if metadata is None:
        named = (("Socket-Type", fields.get("socket_type")), ("Identity", fields.get("identity")))
        metadata = [{"name": name, "value": value} for name, value in named if value is not None]
    return b"".join(_build_property(from_text(each["name"]), from_text(each["value"])) for each in metadata)


def _build_property(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + len(value).to_bytes(4, "big") + value
