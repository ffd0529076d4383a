"""Single values as lines show them.

All that comes from the network goes through `safe_text`, wherever the line goes: a tab or a newline in a topic would
else be one of the line. A backslash that is data is doubled, so the octets can be had back.
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
"""A value that is not null as text."""


def shown_by(operand: Operand, clock: Clock) -> Shown:
    """How the values of an operand are shown. `time` is as `clock` writes it; names of Wireshark show what tshark
    does."""
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
    """As filters write it."""
    return "true" if value else "false"


def octets(value: bytes) -> str:
    """Text as far as they are, the rest as escapes."""
    return safe_text(to_text(value))


def seconds(time: int) -> str:
    """Nanoseconds as seconds, to nine decimals."""
    sign, time = ("-", -time) if time < 0 else ("", time)
    return f"{sign}{time // SECOND}.{time % SECOND:09}"


def date(time: int) -> str:
    """RFC 3339, to nine decimals."""
    return timestamp(time)


def member(value: Any) -> str:
    """Of what rides inside: text as it is, the rest as JSON."""
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
"""Those that show something else than ours do."""
