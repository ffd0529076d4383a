"""The HTTP upgrade that opens a ZWS connection (wire.md 12, RFC 6455 section 4): read, build, and what was agreed."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha1
from typing import NamedTuple

from zmtpscope.records import to_text
from zmtpscope.zmtp.events import Fields
from zmtpscope.zmtp.reader import Cut, Reader
from zmtpscope.zmtp.websocket import HEAD_END

VERSION = "zws-2.0"
"""The version in force on a connection that was upgraded to ZWS 2.0."""

LARGEST_HEAD = 16 << 10
"""Octets of an HTTP head; a larger one is no upgrade to ZWS."""

REQUEST_START, RESPONSE_START = b"GET ", b"HTTP/1."
SWITCHING = re.compile(rb"HTTP/1\.[0-9] 101(?: .*)?")
LINE_END = b"\r\n"
PROTOCOLS = b"sec-websocket-protocol"
SECRETS = frozenset({b"authorization", b"proxy-authorization", b"cookie", b"set-cookie"})
"""Headers whose values nobody should see."""

SUB_PROTOCOL = re.compile(rb"ZWS2\.0(?:/([A-Z0-9._+-]{1,20}))?")
"""The name of the protocol, and the security mechanism if there is one."""

ACCEPT_SUFFIX = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""What is appended to the key of a request before it is hashed (RFC 6455, 4.2.2)."""


class Token(NamedTuple):
    """A sub-protocol that is offered or chosen; `start` is a stream offset."""

    octets: bytes
    start: int

    @property
    def is_zws(self) -> bool:
        """Whether it is ZWS 2.0, with whatever mechanism."""
        return SUB_PROTOCOL.fullmatch(self.octets) is not None

    @property
    def mechanism(self) -> str | None:
        """The mechanism that it names; None: ZWS without one."""
        match = SUB_PROTOCOL.fullmatch(self.octets)
        return None if match is None or match[1] is None else match[1].decode("ascii")


class Head(NamedTuple):
    """An HTTP head: its first line, whether it asks for or grants a WebSocket, and the sub-protocols that it names."""

    first_line: bytes
    is_websocket: bool
    protocols: tuple[Token, ...]

    @property
    def zws(self) -> Token | None:
        """The first sub-protocol that is ZWS."""
        return next((token for token in self.protocols if token.is_zws), None)

    @property
    def offers(self) -> list[bytes]:
        """What a request offers."""
        return [token.octets for token in self.protocols]

    @property
    def chosen(self) -> Token | None:
        """In a response that switches protocols: what was chosen, if that is ZWS."""
        switches = self.is_websocket and SWITCHING.fullmatch(self.first_line) is not None
        return self.zws if switches and len(self.protocols) == 1 else None


def read_head(reader: Reader, first_line: str) -> Head:
    """An HTTP head up to its empty line; `first_line` names its first line in the tree.

    Raises `Cut` where it is not whole.
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
    """The rest of a line; its end belongs to its octets, not to its value."""
    line = _line(reader)
    reader.octets(name, len(line) + len(LINE_END))
    reader.show(to_text(line))
    return line


def _line(reader: Reader) -> bytes:
    """The rest of a line, not read yet."""
    return reader.data[reader.position : reader.data.index(LINE_END, reader.position)]


def _tokens(value: bytes, start: int) -> list[Token]:
    """What is listed in `value`, whose first octet has the stream offset `start`, with commas between."""
    return [Token(match[0], start + match.start()) for match in re.finditer(rb"[^\s,]+", value)]


def read_request(reader: Reader, fields: Fields) -> None:
    """The request of the side that opened the connection: what it offers first counts as its mechanism."""
    _announce(fields, read_head(reader, "http.request_line").zws)


def read_response(reader: Reader, fields: Fields) -> None:
    """The response: the mechanism that was chosen."""
    _announce(fields, read_head(reader, "http.status_line").chosen)


def _announce(fields: Fields, token: Token | None) -> None:
    if token is not None:
        fields["version_announced"] = VERSION
        fields["mechanism"] = token.mechanism


class Upgrade(NamedTuple):
    """What came of an upgrade that offers ZWS.

    `client` is the side that asked. `chosen` is None where ZWS was not chosen, `request` or `response` None where that
    side's octets are not there.
    """

    client: int
    chosen: Token | None
    request: Head | None
    response: Head | None


def find_upgrade(prefixes: Sequence[bytes], *, over: bool = False) -> Upgrade | bool:
    """What the first octets of both sides say: an upgrade; True: perhaps one, once more octets are there; False: none.

    `over`: no more octets will come, so one side has to be enough.
    """
    requests = [_begins(octets, REQUEST_START) for octets in prefixes]
    responses = [_begins(octets, RESPONSE_START) for octets in prefixes]
    for client, server in ((0, 1), (1, 0)):
        if (requests[client] or not prefixes[client]) and (responses[server] or not prefixes[server]) and any(prefixes):
            return _between(client, prefixes[client], prefixes[server], over)
    return False


def _begins(octets: bytes, start: bytes) -> bool:
    """Whether the octets, of which there are some, begin like this as far as they go."""
    return bool(octets) and start.startswith(octets[: len(start)])


def _between(client: int, asked: bytes, answered: bytes, over: bool) -> Upgrade | bool:
    """The same, where one side may be asking and the other answering."""
    request, response = _whole(asked), _whole(answered)
    if request is not None and (not request.is_websocket or request.zws is None):
        return False
    if request is not None and response is not None:
        return Upgrade(client, response.chosen, request, response)
    too_large = (request is None and len(asked) >= LARGEST_HEAD) or (response is None and len(answered) >= LARGEST_HEAD)
    if not over or too_large:
        return not too_large
    if request is not None:  # what was chosen is not known: the first offer, most likely
        return Upgrade(client, request.zws, request, None)
    return response is not None and response.chosen is not None and Upgrade(client, response.chosen, None, response)


def _whole(octets: bytes) -> Head | None:
    """The head that these octets begin with; None where it is not whole."""
    try:
        return read_head(Reader(octets, 0, len(octets), 0), "")
    except Cut:
        return None


def asks_for_websocket(octets: bytes) -> Head | None:
    """The head with which a client asks for a WebSocket, whatever its sub-protocol; None if it asks for none."""
    head = _whole(octets) if octets.startswith(REQUEST_START) else None
    return head if head is not None and head.is_websocket else None


def plain_websocket(prefixes: Sequence[bytes]) -> tuple[int, str] | None:
    """The side that asks for a WebSocket without naming ZWS, and the status line of the answer; None if none does."""
    for client in (0, 1):
        asked = asks_for_websocket(prefixes[client])
        if asked is not None and asked.zws is None:
            answer = _whole(prefixes[1 - client]) if prefixes[1 - client].startswith(RESPONSE_START) else None
            return None if answer is None else (client, to_text(answer.first_line.partition(b" ")[2]))
    return None


def begins_like_an_upgrade(octets: bytes) -> bool:
    """Whether these octets are a whole head that offers or chooses ZWS: nothing else begins so by chance."""
    if not octets.startswith((REQUEST_START, RESPONSE_START)):
        return False
    head = _whole(octets)
    return head is not None and head.is_websocket and head.zws is not None


def build_request(path: str, host: str, key: bytes, offers: Sequence[str]) -> bytes:
    """A request for ZWS; `key` are 16 octets that should be random."""
    return _build_head(
        f"GET {path} HTTP/1.1",
        {
            "Host": host,
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Key": b64encode(key).decode("ascii"),
            "Sec-WebSocket-Protocol": ", ".join(offers),
            "Sec-WebSocket-Version": "13",
        },
    )


def build_response(key: bytes, chosen: str) -> bytes:
    """The answer to the request with that key."""
    accept = sha1(b64encode(key) + ACCEPT_SUFFIX, usedforsecurity=False).digest()
    return _build_head(
        "HTTP/1.1 101 Switching Protocols",
        {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Accept": b64encode(accept).decode("ascii"),
            "Sec-WebSocket-Protocol": chosen,
        },
    )


def _build_head(first_line: str, headers: dict[str, str]) -> bytes:
    lines = [first_line, *[f"{name}: {value}" for name, value in headers.items()], "", ""]
    return "\r\n".join(lines).encode("ascii")
