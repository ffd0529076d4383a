"""The HTTP upgrade that opens a ZWS connection (wire.md 12, RFC 6455 section 4)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from zmtpscope.records import to_text
from zmtpscope.zmtp.events import Fields
from zmtpscope.zmtp.reader import Cut, Reader
from zmtpscope.zmtp.websocket import HEAD_END

VERSION = "zws-2.0"

LARGEST_HEAD = 16 << 10
"""Octets of an HTTP head; a larger one is not an upgrade to ZWS."""

REQUEST_START, RESPONSE_START = b"GET ", b"HTTP/1."
SWITCHING = re.compile(rb"HTTP/1\.[0-9] 101(?: .*)?")
LINE_END = b"\r\n"
PROTOCOLS = b"sec-websocket-protocol"
SECRETS = frozenset({b"authorization", b"proxy-authorization", b"cookie", b"set-cookie"})

SUB_PROTOCOL = re.compile(rb"ZWS2\.0(?:/([A-Z0-9._+-]{1,20}))?")
"""Matches the sub-protocol, with the security mechanism if there is one."""


class Token(NamedTuple):
    """A WebSocket sub-protocol in an HTTP request or response, and its stream offset."""

    octets: bytes
    start: int

    @property
    def is_zws(self) -> bool:
        """Whether the sub-protocol is ZWS 2.0, such as `ZWS2.0` or `ZWS2.0/NULL`."""
        return SUB_PROTOCOL.fullmatch(self.octets) is not None

    @property
    def mechanism(self) -> str | None:
        """The security mechanism in the name of the sub-protocol; None for ZWS without a mechanism."""
        match = SUB_PROTOCOL.fullmatch(self.octets)
        return None if match is None or match[1] is None else match[1].decode("ascii")


class Head(NamedTuple):
    first_line: bytes
    is_websocket: bool
    protocols: tuple[Token, ...]

    @property
    def zws(self) -> Token | None:
        return next((token for token in self.protocols if token.is_zws), None)

    @property
    def offers(self) -> list[bytes]:
        return [token.octets for token in self.protocols]

    @property
    def chosen(self) -> Token | None:
        """The ZWS sub-protocol that a response (101 Switching Protocols) accepts; None if it accepts none."""
        switches = self.is_websocket and SWITCHING.fullmatch(self.first_line) is not None
        return self.zws if switches and len(self.protocols) == 1 else None


def read_head(reader: Reader, first_line: str) -> Head:
    """Parse an HTTP head up to its empty line.

    `first_line` is the name of the first line in the field tree. Raises `Cut` if the head is incomplete.
    """
    end = reader.data.find(HEAD_END, reader.position, min(reader.stop, reader.position + LARGEST_HEAD))
    if end < 0:
        reader.rest("http.head")
        raise Cut
    first = _read_line(reader, first_line)
    is_websocket, protocols = False, list[Token]()
    while reader.position < end + len(LINE_END):
        start = reader.offset
        name, colon, value = _line(reader).partition(b":")
        folded = name.strip().lower()
        if folded in SECRETS:
            reader.text("http.header.name", len(name) + len(colon))
            _read_line(reader, "http.header.secret")
            continue
        _read_line(reader, "http.header")
        if folded == b"upgrade":
            is_websocket = is_websocket or b"websocket" in value.lower()
        elif folded == PROTOCOLS:
            protocols += _tokens(value, start + len(name) + len(colon))
    reader.octets("http.end", len(LINE_END))
    return Head(first, is_websocket, tuple(protocols))


def _read_line(reader: Reader, name: str) -> bytes:
    """Read a line as the field `name`. The field includes the line end, the returned line does not."""
    line = _line(reader)
    reader.octets(name, len(line) + len(LINE_END))
    reader.show(to_text(line))
    return line


def _line(reader: Reader) -> bytes:
    return reader.data[reader.position : reader.data.index(LINE_END, reader.position)]


def _tokens(value: bytes, start: int) -> list[Token]:
    """Split a comma-separated list of sub-protocols that starts at stream offset `start`."""
    return [Token(match[0], start + match.start()) for match in re.finditer(rb"[^\s,]+", value)]


def read_request(reader: Reader, fields: Fields) -> None:
    """Parse an HTTP request into `fields`. The first ZWS sub-protocol in it gives the mechanism."""
    _announce(fields, read_head(reader, "http.request_line").zws)


def read_response(reader: Reader, fields: Fields) -> None:
    _announce(fields, read_head(reader, "http.status_line").chosen)


def _announce(fields: Fields, token: Token | None) -> None:
    if token is not None:
        fields["version_announced"] = VERSION
        fields["mechanism"] = token.mechanism


class Upgrade(NamedTuple):
    """The HTTP upgrade of a connection whose client offers ZWS.

    `client` is the side that sent the request. `chosen` is the accepted sub-protocol, or None. `request` or `response`
    is None if the octets of that side are missing.
    """

    client: int
    chosen: Token | None
    request: Head | None
    response: Head | None


def find_upgrade(prefixes: Sequence[bytes], *, over: bool = False) -> Upgrade | bool:
    """Return the HTTP upgrade in the first octets of both sides.

    Returns True if more octets are needed, and False if there is no upgrade to ZWS. `over`: no more octets will arrive,
    so one side is sufficient.
    """
    requests = [_begins(octets, REQUEST_START) for octets in prefixes]
    responses = [_begins(octets, RESPONSE_START) for octets in prefixes]
    for client, server in ((0, 1), (1, 0)):
        if (requests[client] or not prefixes[client]) and (responses[server] or not prefixes[server]) and any(prefixes):
            return _between(client, prefixes[client], prefixes[server], over)
    return False


def _begins(octets: bytes, start: bytes) -> bool:
    """Whether the octets start with `start`, or are the beginning of it; False if there are none."""
    return bool(octets) and start.startswith(octets[: len(start)])


def _between(client: int, asked: bytes, answered: bytes, over: bool) -> Upgrade | bool:
    request, response = _whole(asked), _whole(answered)
    if request is not None and (not request.is_websocket or request.zws is None):
        return False
    if request is not None and response is not None:
        return Upgrade(client, response.chosen, request, response)
    too_large = (request is None and len(asked) >= LARGEST_HEAD) or (response is None and len(answered) >= LARGEST_HEAD)
    if not over or too_large:
        return not too_large
    if request is not None:  # the choice was not captured; most likely it is the first offer
        return Upgrade(client, request.zws, request, None)
    return response is not None and response.chosen is not None and Upgrade(client, response.chosen, None, response)


def _whole(octets: bytes) -> Head | None:
    """Parse an HTTP head; None if it is incomplete."""
    try:
        return read_head(Reader(octets, 0, len(octets), 0), "")
    except Cut:
        return None


def asks_for_websocket(octets: bytes) -> Head | None:
    """Return the HTTP head in the octets if it requests a WebSocket with any sub-protocol, otherwise None."""
    head = _whole(octets) if octets.startswith(REQUEST_START) else None
    return head if head is not None and head.is_websocket else None


def plain_websocket(prefixes: Sequence[bytes]) -> tuple[int, str] | None:
    """Return (client side, status line of the response) of a WebSocket upgrade without ZWS, or None."""
    for client in (0, 1):
        asked = asks_for_websocket(prefixes[client])
        if asked is not None and asked.zws is None:
            answer = _whole(prefixes[1 - client]) if prefixes[1 - client].startswith(RESPONSE_START) else None
            return None if answer is None else (client, to_text(answer.first_line.partition(b" ")[2]))
    return None


def begins_like_an_upgrade(octets: bytes) -> bool:
    """Whether the octets are a complete HTTP head that offers or accepts ZWS."""
    if not octets.startswith((REQUEST_START, RESPONSE_START)):
        return False
    head = _whole(octets)
    return head is not None and head.is_websocket and head.zws is not None
