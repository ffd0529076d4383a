"""Content frames that do not belong to the dissector of a message, among those that do."""

from __future__ import annotations

from zmtpscope.payloads.api import Json, Reader
from zmtpscope.payloads.text import is_text
from zmtpscope.records import to_text

_LARGEST = 1024
"""Octets of a frame that stands in the fields as it is; of others, only the size: the record has its octets anyway."""


def other_frame(reader: Reader, values: list[Json]) -> str:
    """Read the current frame as text or octets, put it into `values`; its summary."""
    octets = reader.data
    readable = is_text(octets)
    if readable:
        reader.text("text", hidden=True)
    else:
        reader.octets("octets", hidden=True)
    if len(octets) > _LARGEST:
        values.append({"octets": len(octets)})
    else:
        values.append(to_text(octets) if readable else octets)
    return octets[:_LARGEST].decode("utf-8", "ignore") if readable else f"{len(octets)} octets"
