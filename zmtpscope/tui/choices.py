"""Names from which users choose: record types, time formats, columns of lists, formats to copy."""

from __future__ import annotations

from zmtpscope.records import RECORDS

MESSAGES = ("message",)
EVERYTHING = tuple(name for name in RECORDS if name != "frame")
"""All types of records, except frame records, which exist on request only."""

TIMES = {
    "r": "seconds since the first packet",
    "a": "time of day",
    "ad": "date and time of day",
    "d": "seconds since the row above",
    "e": "seconds since 1970-01-01 UTC",
    "u": "time of day, UTC",
    "ud": "date and time of day, UTC",
}
CYCLED_TIMES = ("r", "a", "ad", "d")


def next_time(time: str, *, has_neighbours: bool) -> str:
    """Return the time format after `time`. Without `has_neighbours`, the time since the row above is skipped."""
    cycled = CYCLED_TIMES if has_neighbours else CYCLED_TIMES[:-1]
    return cycled[(cycled.index(time) + 1) % len(cycled)] if time in cycled else cycled[0]


COLUMN_TITLES = {
    "time": "time",
    "packet": "packet number",
    "conn": "connection number",
    "from": "sender by name",
    "to": "receiver by name",
    "src": "address of the sender",
    "dst": "address of the receiver",
    "topic": "topic",
    "parts": "number of parts",
    "size": "size in octets",
    "after": "pause since the row above",
    "left": "content, if the side that connected sent it",
    "right": "content, if the side that listens sent it",
    "left_hex": "octets, if the side that connected sent them",
    "right_hex": "octets, if the side that listens sent them",
    "content": "content",
}
"""Columns of lists, besides fields."""


COPY_FORMS = {
    "line": "its line",
    "json": "JSON",
    "hex": "octets in hex",
    "base64": "octets in base64",
    "c": "octets as an array of C",
    "cat": "the zmtpscope cat command that sends it",
    "pyzmq": "a pyzmq program that sends it",
}
"""Formats in which a record can be copied, with titles."""
