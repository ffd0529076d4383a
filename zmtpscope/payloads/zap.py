"""ZAP (27/ZAP, wire.md 13), by which a server sends the credentials of its clients to a handler.

Usually both are in one process; ZAP is on the network only if the application forwards it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from zmtpscope.payloads.api import About, Claim, Malformed, Message, Payload, Reader
from zmtpscope.zmtp import z85

VERSION = b"1.0"
FRAMES = 6
"""Frames of a reply, and of a request without credentials."""

MAX_CREDENTIALS = 2

CREDENTIALS = {
    b"NULL": (),
    b"PLAIN": ("username", "password"),
    b"CURVE": ("client_key",),
    b"GSSAPI": ("principal",),
}

CURVE_KEY = 32

STATUSES = (b"200", b"300", b"400", b"500")
LARGEST_METADATA = 1 << 16
"""Octets of metadata that `claim` checks."""

ASKING = frozenset({"REQ", "DEALER", "ROUTER", None})
ANSWERING = frozenset({"REP", "ROUTER", "DEALER", None})
"""Socket types that send requests and replies: each may be part of a proxy."""

_ANY_VERSION = re.compile(rb"[0-9]{1,3}\.[0-9]{1,3}")
_ANY_STATUS = re.compile(rb"[0-9]{3}")


class Zap(Payload):
    """Dissects ZAP requests and replies.

    A request has version, request id, domain, address, identity, mechanism and credentials; a reply has version,
    request id, status code, status text, user id and metadata.
    """

    name = "zap"
    prefix = "zap"
    least_frames = FRAMES
    looks_in_front = True
    socket_types = ASKING | ANSWERING
    judges = True

    def claim(self, message: Message, about: About) -> Claim:
        frames = message.frames[_start(message) :]
        if not frames or _ANY_VERSION.fullmatch(frames[0]) is None:
            return Claim.NO
        if about.socket_type in ASKING and _is_request(frames):
            wrong = 0
        elif about.socket_type in ANSWERING and _is_reply(frames):
            wrong = int(frames[2] not in STATUSES)
        else:
            return Claim.NO
        wrong += frames[0] != VERSION
        return (Claim.YES, Claim.MAYBE, Claim.NO)[wrong]

    def dissect(self, message: Message, reader: Reader) -> str:
        start = _start(message)
        frames = message.frames[start:]
        reader.go_to(start)
        place, size = reader.offset, reader.left
        version = reader.text("version")
        if version != VERSION.decode():
            reader.finding("ZAP-01", place, size, detail=version)
        if _is_request(frames):
            return _request(reader)
        if _is_reply(frames):
            return _reply(reader)
        raise Malformed("neither a request nor a reply")


def _start(message: Message) -> int:
    """Return the index of the version frame.

    Request and reply end with the message. Frames of an envelope may precede them, with or without a delimiter. Without
    a delimiter, `message.content` is wrong: it is the frame after the first empty one, which is often the identity.
    """
    frames = message.frames
    most = FRAMES + MAX_CREDENTIALS
    for start in range(max(0, len(frames) - most), len(frames) - FRAMES + 1):
        behind = frames[start:]
        if _ANY_VERSION.fullmatch(behind[0]) is not None and (_is_request(behind) or _is_reply(behind)):
            return start
    return message.content


def _is_request(frames: Sequence[bytes]) -> bool:
    if len(frames) < FRAMES:
        return False
    mechanism, credentials = frames[5], frames[FRAMES:]
    expected = CREDENTIALS.get(mechanism)
    if expected is None or len(credentials) != len(expected):
        return False
    return mechanism != b"CURVE" or len(credentials[0]) == CURVE_KEY


def _is_reply(frames: Sequence[bytes]) -> bool:
    return len(frames) == FRAMES and _ANY_STATUS.fullmatch(frames[2]) is not None and _is_metadata(frames[5])


def _is_metadata(octets: bytes) -> bool:
    """Whether octets are metadata only: name length (1), name, value length (4), value, repeated."""
    size = len(octets)
    if size > LARGEST_METADATA:
        return False
    position = 0
    while position < size:
        position += 1 + octets[position]
        position += 4 + int.from_bytes(octets[position : position + 4])  # a truncated one ends past the end
    return position == size


def _request(reader: Reader) -> str:
    reader.give("kind", "request")
    request_id, domain, address, _, mechanism = [
        _next(reader, name) for name in ("request_id", "domain", "address", "identity", "mechanism")
    ]
    user = ""
    for name in CREDENTIALS[mechanism.encode()]:
        reader.next_frame()
        if name == "password":
            reader.secret(name)
        elif name == "client_key":
            user = z85.encode(reader.data)
            reader.value(name, reader.left, user)
        else:
            user = f'"{reader.text(name)}"'  # user name or principal
    where = f" in domain {domain}" if domain else ""
    return f"request {request_id}: {mechanism}{user and f' {user}'} from {address or 'nowhere'}{where}"


def _reply(reader: Reader) -> str:
    reader.give("kind", "reply")
    request_id = _next(reader, "request_id")
    status = _next(reader, "status")
    if status.encode() not in STATUSES:
        reader.finding("ZAP-02", reader.offset - len(status), len(status), detail=f"status {status}")
    text = _next(reader, "status_text")
    user = _next(reader, "user_id")
    reader.next_frame()
    with reader.array("metadata"):
        while reader.left:
            with reader.object("property"):
                reader.text("name", reader.u8("name_length", hidden=True))
                reader.text("value", reader.u32("value_length", hidden=True))
    return f"reply {request_id}: {status}{text and f' {text}'}" + (f', user "{user}"' if user else "")


def _next(reader: Reader, name: str) -> str:
    reader.next_frame()
    return reader.text(name)
