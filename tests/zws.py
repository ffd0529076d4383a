"""Sides of ZWS connections for tests: their octets, complete, in fragments, masked, damaged."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from hashlib import sha1
from typing import NamedTuple, TypeVar

from hypothesis import strategies as st

from tests.strategies import BODIES, COMMAND_FIELDS, damaged
from zmtpscope.zmtp.commands import build_command
from zmtpscope.zmtp.regime import Form
from zmtpscope.zmtp.upgrade import VERSION
from zmtpscope.zmtp.websocket import (
    BINARY,
    CLOSE,
    CONTINUATION,
    EXTENDED,
    FINAL,
    MASKED,
    PING,
    PONG,
    TEXT,
    Unmasking,
    combined,
    repeated,
)
from zmtpscope.zmtp.zws import ZWS_COMMAND, ZWS_MORE
from zmtpscope.zmtp.zws_side import ZwsReader

Drawn = TypeVar("Drawn")
Draw = Callable[[st.SearchStrategy[Drawn]], Drawn]

NONCE = bytes(range(16))
"""Octets from which the key of an upgrade is made."""

MASK = b"\x37\xfa\x21\x3d"

SUB_PROTOCOLS = {None: "ZWS2.0", "NULL": "ZWS2.0/NULL", "PLAIN": "ZWS2.0/PLAIN", "CURVE": "ZWS2.0/CURVE"}


ACCEPT_SUFFIX = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""Appended to the request's key before it is hashed (RFC 6455, 4.2.2)."""


def build_request(path: str, host: str, key: bytes, offers: Sequence[str]) -> bytes:
    """`key` must have 16 octets, and should be random."""
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


def build_websocket_frame(payload: bytes, opcode: int = BINARY, *, key: bytes = b"", final: bool = True) -> bytes:
    """A `key` of four octets masks the payload."""
    size = len(payload)
    short = size if size < 126 else 126 if size <= 0xFFFF else 127
    length = bytes([MASKED * bool(key) | short]) + size.to_bytes(EXTENDED.get(short, 1), "big")[short < 126 :]
    return bytes([FINAL * final | opcode]) + length + key + (masked(payload, key) if key else payload)


def masked(octets: bytes, key: bytes) -> bytes:
    """Apply or remove the mask, which is the same operation."""
    return combined(octets, repeated(key, len(octets)))


def build_message_zws(
    body: bytes, *, more: bool = False, command: bool = False, key: bytes = b"", cuts: tuple[int, ...] = ()
) -> bytes:
    """Build one ZWS frame; a client masks with a `key` of four octets.

    A further WebSocket frame starts at each index of `cuts`, in flags and body.
    """
    octets = bytes([ZWS_MORE * more | ZWS_COMMAND * command]) + body
    edges = [0, *cuts, len(octets)]
    last = len(edges) - 2
    return b"".join(
        build_websocket_frame(
            octets[edges[at] : edges[at + 1]], CONTINUATION if at else BINARY, key=key, final=at == last
        )
        for at in range(last + 1)
    )


def request(*offers: str) -> bytes:
    return build_request("/zmq", "127.0.0.1", NONCE, offers or ("ZWS2.0/NULL", "ZWS2.0"))


def response(chosen: str = "ZWS2.0/NULL") -> bytes:
    return build_response(NONCE, chosen)


def message_frames(client: bool, *bodies: bytes) -> bytes:
    last = len(bodies) - 1
    key = MASK if client else b""
    return b"".join(build_message_zws(body, more=part < last, key=key) for part, body in enumerate(bodies))


def ready(client: bool, socket_type: str, **fields: str) -> bytes:
    body = build_command("NULL", "READY", {"socket_type": socket_type, **fields})
    return build_message_zws(body, command=True, key=MASK if client else b"")


class ZwsSide(NamedTuple):
    client: bool
    chosen: str | None
    octets: bytes

    @property
    def unmasked(self) -> bytes:
        return Unmasking().feed(self.octets)

    def reader(self) -> ZwsReader:
        return ZwsReader(Form.ZWS_REQUEST if self.client else Form.ZWS_RESPONSE, VERSION, self.chosen)


@st.composite
def frames(draw: Draw, client: bool, mechanism: str) -> bytes:
    """Draw a message, a command, or another WebSocket frame, whole or in fragments."""
    key = draw(st.binary(min_size=4, max_size=4)) if client else b""
    kind = draw(st.sampled_from(["message"] * 6 + ["command"] * 3 + ["control"] * 2 + ["text", "empty"]))
    if kind == "control":
        payload = draw(st.sampled_from([b"", b"\x03", b"\x03\xe8", b"\x03\xe9bye"]) | st.binary(max_size=130))
        return build_websocket_frame(payload, draw(st.sampled_from([CLOSE, PING, PONG, 11])), key=key)
    if kind in ("text", "empty"):
        payload = b"" if kind == "empty" else draw(BODIES)
        return build_websocket_frame(payload, TEXT if kind == "text" else 2, key=key, final=draw(st.booleans()))
    if kind == "command":
        name = draw(st.sampled_from(sorted(name for which, name in COMMAND_FIELDS if which == mechanism)))
        body = build_command(mechanism, name, draw(COMMAND_FIELDS[mechanism, name]))
    else:
        body = draw(BODIES | st.integers(0, 400).map(bytes))
    cuts = tuple(sorted(draw(st.lists(st.integers(0, len(body) + 1), max_size=2)))) if draw(st.booleans()) else ()
    more = draw(st.booleans())
    octets = build_message_zws(body, more=more, command=kind == "command", key=key, cuts=cuts)
    if cuts and draw(st.booleans()):  # a control frame after the first fragment
        first = len(build_message_zws(body[: max(0, cuts[0] - 1)], key=key)) - (cuts[0] == 0)
        ping = build_websocket_frame(b"amid", PING, key=key)
        octets = octets[:first] + ping + octets[first:]
    return octets


@st.composite
def zws_sides(draw: Draw, client: bool | None = None, chosen: str | None = "any") -> ZwsSide:
    client = draw(st.booleans()) if client is None else client
    chosen = draw(st.sampled_from([None, "NULL", "NULL", "PLAIN", "CURVE"])) if chosen == "any" else chosen
    name = SUB_PROTOCOLS[chosen]
    head = (
        request(*draw(st.sampled_from([(name,), (name, "ZWS2.0/NULL"), ("chat", name)]))) if client else response(name)
    )
    drawn = draw(st.lists(frames(client, chosen or "NULL"), max_size=7))
    if chosen is None:
        drawn.insert(0, build_message_zws(draw(BODIES), key=MASK if client else b""))
    elif chosen == "NULL" and draw(st.booleans()):
        drawn.insert(0, ready(client, draw(st.sampled_from(["SUB", "RADIO", "PUSH", "PUB", "REQ"]))))
    return ZwsSide(client, chosen, head + b"".join(drawn))


@st.composite
def damaged_zws_sides(draw: Draw) -> ZwsSide:
    side = draw(zws_sides())
    head = side.octets.index(b"\r\n\r\n") + 4
    return side._replace(octets=side.octets[:head] + draw(st.just(side.octets[head:]) | damaged(side.octets[head:])))
