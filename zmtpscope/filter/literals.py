"""Convert the literals in a filter to the type of the field with which they are compared."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from typing import Any

from zmtpscope.filter.fields import FilterField, Type
from zmtpscope.filter.tokens import FilterError, Kind, Token
from zmtpscope.records import SECOND, to_text

LARGEST = 1 << 64
SIZES = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
DURATIONS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": SECOND, "min": 60 * SECOND, "h": 3600 * SECOND}
TRUTHS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}

_NUMBER = re.compile(r"([+-]?(?:\d[\d_]{0,30}(?:\.\d{0,30})?|\.\d{1,30}))([A-Za-z]*)")
_HEX = re.compile(r"0[xX][0-9A-Fa-f]{1,16}")
_OCTETS = re.compile(r"[0-9A-Fa-f]{2}([:-])[0-9A-Fa-f]{2}(?:\1[0-9A-Fa-f]{2})*|[0-9A-Fa-f]{2}:")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?)?(Z|[+-]\d\d:\d\d)?")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def literal(field: FilterField, token: Token, text: str) -> Any:
    """Convert a literal to a value of `field`. Raises `FilterError`; `text` is the filter."""
    try:
        return _READERS[field.type](field, token)
    except ValueError as error:
        what = f"{field.name} is {field.type.value}, and {token.text} is none"
        raise FilterError(what, text, token.start, token.stop, hint=str(error), expected="value") from None


def _number(field: FilterField, token: Token) -> int | Fraction:
    if token.kind is Kind.WORD and token.text.lower() in ("true", "false"):
        return int(token.text.lower() == "true")
    number, unit = _split(token)
    if unit and unit not in SIZES:
        raise ValueError(f"units are {', '.join(SIZES)}")
    return _whole(number * SIZES[unit] if unit else number * field.scale + field.shift)


def _duration(field: FilterField, token: Token) -> int | Fraction:
    number, unit = _split(token)
    if unit and unit not in DURATIONS:
        raise ValueError(f"units are {', '.join(DURATIONS)}")
    return _whole(number * DURATIONS[unit] / field.unit_ns if unit else number * field.scale)


def _split(token: Token) -> tuple[Fraction, str]:
    """Split a number from its unit; a space may separate them (`1.5 KiB`)."""
    text = token.text if token.kind is Kind.WORD else token.value.decode("utf-8", "replace").replace(" ", "")
    if _HEX.fullmatch(text):
        return Fraction(int(text, 16)), ""
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError("write digits, with or without a unit: 1500, 1.5KiB, 20ms, 0xff")
    return Fraction(match[1].replace("_", "")), match[2]


def _whole(number: Fraction) -> int | Fraction:
    if abs(number) > LARGEST:
        raise ValueError("it is too large")
    return int(number) if number.denominator == 1 else number


def _time(field: FilterField, token: Token) -> int | Fraction:
    text = token.text if token.kind is Kind.WORD else token.value.decode("utf-8", "replace")
    if token.kind is Kind.WORD and (_NUMBER.fullmatch(text) and _NUMBER.fullmatch(text)[2] == ""):  # type: ignore[index]
        return _whole(Fraction(text.replace("_", "")) * field.scale)
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError('write "2026-11-22 16:08:25.5" (UTC, or with +01:00 after it), or a number')
    day, clock, fraction, zone = match.groups()
    moment = datetime.fromisoformat(f"{day}T{clock or '00:00'}{zone or ''}")
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(moment.timestamp()) * SECOND + int((fraction or "0").ljust(9, "0"))


def _truth(field: FilterField, token: Token) -> bool:
    if token.kind is Kind.STRING or token.text.lower() not in TRUTHS:
        raise ValueError("write true or false")
    return TRUTHS[token.text.lower()]


def _text(field: FilterField, token: Token) -> str:
    return to_text(octets_of(token))


def octets_of(token: Token) -> bytes:
    return token.value if token.kind is Kind.STRING else token.text.encode("utf-8", "surrogateescape")


def _octets(field: FilterField, token: Token) -> bytes:
    if token.kind is Kind.WORD:
        if _OCTETS.fullmatch(token.text):
            return bytes.fromhex(re.sub("[:-]", "", token.text))
        if re.fullmatch(r"0[xX](?:[0-9A-Fa-f]{2})+", token.text):
            return bytes.fromhex(token.text[2:])
    return octets_of(token)


def _address(field: FilterField, token: Token) -> Network:
    text = octets_of(token).decode("utf-8", "replace")
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ValueError("write 10.0.0.1, 10.0.0.0/8 or fe80::/10") from None


@lru_cache(maxsize=65_536)
def address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an IP address as written in records; None if it is no address."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _member(field: FilterField, token: Token) -> Any:
    """Convert a literal that is compared with a member of a payload.

    Members have the types of JSON: numbers, booleans and null are compared with values of the same type only.
    """
    if token.kind is Kind.STRING:
        return token.value.decode("utf-8", "backslashreplace")
    if token.text in ("true", "false"):
        return token.text == "true"
    try:
        return _number(field, token)
    except ValueError:
        return token.text


_READERS: dict[Type, Callable[[FilterField, Token], Any]] = {
    Type.NUMBER: _number,
    Type.TRUTH: _truth,
    Type.TEXT: _text,
    Type.OCTETS: _octets,
    Type.MEMBERS: _member,
    Type.ADDRESS: _address,
    Type.TIME: _time,
    Type.DURATION: _duration,
}
