"""Format single values for lines.

Text from the network passes through `safe_text`: a tab or newline in a topic would end a field or line. A backslash in
data is doubled, so that the octets can be restored.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import orjson

from zmtpscope.export.clock import Clock, timestamp
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.values import as_base64
from zmtpscope.filter.checking import described
from zmtpscope.filter.conditions import Applied, Operand
from zmtpscope.filter.fields import FilterField, Type
from zmtpscope.records import SECOND, to_text

Shown = Callable[[Any], str]
"""Formats a value that is not null."""


def shown_by(operand: Operand, clock: Clock) -> Shown:
    """Return a function that writes a field's values. `clock` formats times; fields with Wireshark names look as in
    tshark."""
    field = described(operand)
    if isinstance(operand, Applied):
        return FORMS[operand.type]
    if field.name == "time":
        return lambda time: clock(time).strip()
    if field.name in WIRESHARK:
        return WIRESHARK[field.name]
    if (field.scale, field.shift) != (1, 0):
        return seconds if field.scale == SECOND else _converted(field)
    return FORMS[operand.type]


def truth(value: bool) -> str:
    """Write a truth value as in filters."""
    return "true" if value else "false"


def octets(value: bytes) -> str:
    """Write octets as text, escaped if necessary."""
    return safe_text(to_text(value))


def seconds(time: int) -> str:
    """Write seconds with nine decimals."""
    sign, time = ("-", -time) if time < 0 else ("", time)
    return f"{sign}{time // SECOND}.{time % SECOND:09}"


def date(time: int) -> str:
    """Write a date as in RFC 3339, with nine decimals."""
    return timestamp(time)


def member(value: Any) -> str:
    """Return a value inside a payload: text unchanged, other types as JSON."""
    if isinstance(value, str):
        return safe_text(value.replace("\\", "\\\\"))
    if isinstance(value, bytes):
        return octets(value)
    return safe_text(orjson.dumps(value, default=as_base64, option=orjson.OPT_NON_STR_KEYS).decode())


def _converted(field: FilterField) -> Shown:
    def shown(value: int) -> str:
        number = Fraction(value - field.shift, field.scale)
        return str(number) if number.denominator == 1 else f"{float(number):g}"

    return shown


FORMS: dict[Type, Shown] = {
    Type.NUMBER: str,
    Type.TIME: str,
    Type.DURATION: str,
    Type.TRUTH: truth,
    Type.TEXT: safe_text,
    Type.ADDRESS: safe_text,
    Type.OCTETS: octets,
    Type.MEMBERS: member,
}

WIRESHARK: dict[str, Shown] = {
    "frame.time": date,
    "zmtp.data": bytes.hex,
    "zmtp.ping.context": bytes.hex,
    "zmtp.flags": "0x{:02x}".format,
}
"""Formats that differ from ours."""
