"""Check the arguments of socket calls, so that errors are raised at the call with the mistake."""

from __future__ import annotations

from collections.abc import Iterable

from zmtpscope.live.peer.endpoint import Endpoint, parse_endpoint
from zmtpscope.records import from_text, to_text

Octets = bytes | bytearray | memoryview
Text = str | bytes
"""Octets, or text: UTF-8, any other octet as `\\xNN`, and each backslash doubled."""


def checked_parts(parts: object) -> list[bytes]:
    """Raises `TypeError` unless `parts` is a list (or tuple) of octets, and `ValueError` if it is empty."""
    if not isinstance(parts, list | tuple):
        raise TypeError(f"a message is a list of parts, for example [b'hello'], not {_kind(parts)}")
    if not parts:
        raise ValueError("a message has at least one part")
    for part in parts:
        if type(part) is not bytes:
            return [_part(part) for part in parts]
    return parts if isinstance(parts, list) else [*parts]


def _part(part: object) -> bytes:
    if isinstance(part, str):
        raise TypeError(f"a part of a message is octets, as {part[:20].encode()!r}, not text")
    if not isinstance(part, bytes | bytearray | memoryview):
        raise TypeError(f"a part of a message is octets, not {_kind(part)}")
    return bytes(part)


def octets_of(text: object, what: str) -> bytes:
    """Return the octets of a topic, group or identity. Raises `TypeError` if it is neither octets nor text."""
    if isinstance(text, str):
        return from_text(text)
    if not isinstance(text, bytes):
        raise TypeError(f"{what} is text or octets, not {_kind(text)}")
    return text


def text_of(text: object, what: str) -> str:
    """Return the text of a topic, group or identity. Raises `TypeError` if it is neither octets nor text."""
    return text if isinstance(text, str) else to_text(octets_of(text, what))


def several(texts: Iterable[Text], option: str) -> list[Text]:
    """Topics or groups. Raises `TypeError` for a single text instead of a list."""
    if isinstance(texts, str | bytes):
        raise TypeError(f"{option} takes a list, as {option}=[{texts!r}]")
    return [*texts]


def endpoint_of(endpoint: object, *, bind: bool) -> Endpoint:
    """Raises `TypeError` for any other type than text, and `ValueError` as `parse_endpoint` does."""
    if isinstance(endpoint, Endpoint):
        return endpoint
    if not isinstance(endpoint, str):
        raise TypeError(f"an endpoint is text, for example 'tcp://127.0.0.1:5555', not {_kind(endpoint)}")
    return parse_endpoint(endpoint, bind=bind)


def check_kind(value: object, kinds: tuple[type, ...], option: str) -> None:
    """Raise `TypeError` if the value of an option has none of the types `kinds`."""
    if not isinstance(value, kinds):
        expected = " or ".join("None" if kind is type(None) else f"{kind.__name__}(...)" for kind in kinds)
        raise TypeError(f"{option} is {expected}, not {_kind(value)}")


def _kind(value: object) -> str:
    return type(value).__name__
