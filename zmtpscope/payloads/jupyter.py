"""Jupyter kernels and their clients (jupyter_client messaging protocol, version 5).

Frames: `<IDS|MSG>`, signature, header, parent header, metadata, content, buffers. The heartbeat channel echoes
arbitrary octets and is not dissected.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from zmtpscope.payloads.api import About, Claim, Json, Malformed, Message, Payload, Reader, Settings
from zmtpscope.payloads.jupyter_words import channel_of, summary_of
from zmtpscope.records import MASK
from zmtpscope.zmtp.socket_types import PUBLISHERS

DELIMITER = b"<IDS|MSG>"
"""The frame between identities or topic, and signature."""
BEHIND = 5
"""Frames that must follow the delimiter: signature, header, parent header, metadata, content."""
SIGNED = 4
"""Number of signed frames: header, parent header, metadata, content."""


_SIGNATURE = re.compile(rb"(?:[0-9A-Fa-f]{2}){0,64}")


class Key(NamedTuple):
    """The signing key of a Jupyter kernel, and its hash as named in `hashlib`. The key is never shown."""

    octets: bytes
    digest: str


class Jupyter(Payload):
    """Claims any message with the delimiter `<IDS|MSG>` and all frames that must follow it."""

    name = "jupyter"
    prefix = "jupyter"
    least_frames = BEHIND
    judges = True

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.keys, self.useless = _keys_of(settings.files)
        self.reported_unsigned = False

    def claim(self, message: Message, about: About) -> Claim:
        frames = message.frames
        if DELIMITER not in frames:
            return Claim.NO
        behind = frames[frames.index(DELIMITER) + 1 :]
        if len(behind) < BEHIND or _SIGNATURE.fullmatch(behind[0]) is None or behind[1][:1] != b"{":
            return Claim.NO
        return Claim.YES

    def dissect(self, message: Message, reader: Reader) -> str:
        frames = message.frames
        if DELIMITER not in frames:
            raise Malformed(f"no frame is {DELIMITER.decode()}")
        delimiter = frames.index(DELIMITER)
        self._report_useless_files(reader)
        _read_front(reader, delimiter)
        reader.octets("delimiter", hidden=True)
        if len(frames) <= delimiter + BEHIND:
            raise Malformed(f"{len(frames) - delimiter - 1} frames after the delimiter, not {BEHIND}")
        reader.next_frame()
        self._judge_signature(reader, frames[delimiter + 2 :][:SIGNED])
        header = _read_object(reader, "header")
        kind = _text(header, "msg_type")
        if kind == "input_reply":
            reader.secrets.append(delimiter + BEHIND)
        parent, metadata, content = (_read_object(reader, name) for name in SECTIONS[1:])
        if kind is None:
            raise Malformed("the header has no msg_type")
        for name in HEADER_FIELDS:
            reader.give(name, _text(header, name))
        reader.give("channel", channel_of(kind, reader.about.socket_type))
        about = {name: _text(parent, name) for name in PARENT_FIELDS}
        reader.give("parent", about if any(about.values()) else None)
        if kind == "input_reply" and not reader.show_secrets:
            content = {name: MASK if name == "value" else value for name, value in content.items()}
        reader.give("metadata", metadata)
        reader.give("content", content)
        _read_buffers(reader)
        return summary_of(kind, content, about["msg_type"])

    def _judge_signature(self, reader: Reader, signed: Sequence[bytes]) -> None:
        """Set the field `signature` to "ok", "wrong" or "none", or to null if no key is known.

        `signed` are the frames that the signature covers.
        """
        octets, place, size = reader.data, reader.offset, reader.left
        reader.text("hmac", hidden=True)
        if not octets:
            reader.give("signature", "none")
            if not self.reported_unsigned:
                reader.finding("JUPYTER-02")
            self.reported_unsigned = True
        elif not self.keys:
            reader.give("signature", None)
        elif self._fits(octets, signed):
            reader.give("signature", "ok")
        else:
            reader.give("signature", "wrong")
            reader.finding("JUPYTER-01", place, size)

    def _fits(self, signature: bytes, signed: Sequence[bytes]) -> bool:
        """Whether any known key makes this signature for the frames `signed`.

        The key found is tried first for later messages.
        """
        from hmac import compare_digest

        for index, key in enumerate(self.keys):
            if compare_digest(_signature(key, signed), signature):
                self.keys.insert(0, self.keys.pop(index))
                return True
        return False

    def _report_useless_files(self, reader: Reader) -> None:
        """Report files without a key, once for each side."""
        for name in self.useless:
            reader.finding("PAYLOAD-04", detail=f"jupyter: {name} is not a connection file with a key")
        self.useless = []


SECTIONS = ("header", "parent_header", "metadata", "content")
HEADER_FIELDS = ("msg_type", "msg_id", "session", "username", "version", "date")
PARENT_FIELDS = ("msg_type", "msg_id")


def _keys_of(files: Mapping[str, bytes]) -> tuple[list[Key], list[str]]:
    keys: list[Key] = []
    useless: list[str] = []
    for name, octets in files.items():
        key = _key_of(octets)
        if key is None:
            useless.append(name)
        else:
            keys.append(key)
    return keys, useless


def _key_of(octets: bytes) -> Key | None:
    """Return the key in a connection file, JSON with `key` and `signature_scheme` (default hmac-sha256).

    None if it has no key.
    """
    try:
        made = _json(octets)
    except Malformed:
        return None
    text = _text(made, "key")
    scheme = _text(made, "signature_scheme") or "hmac-sha256"
    if not text or not scheme.startswith("hmac-"):
        return None
    key = Key(text.encode(), scheme.removeprefix("hmac-"))
    try:
        _signature(key, ())
    except (TypeError, ValueError):  # the hash is missing here, or not usable for an HMAC
        return None
    return key


def _signature(key: Key, signed: Sequence[bytes]) -> bytes:
    """Return the signature of the frames `signed` with this key, in hexadecimal."""
    import hmac  # loads OpenSSL

    made = hmac.new(key.octets, digestmod=key.digest)
    for octets in signed:
        made.update(octets)
    return made.hexdigest().encode()


def _read_front(reader: Reader, delimiter: int) -> None:
    """Read the frames before the delimiter, which has the index `delimiter`, and move to the delimiter.

    They are the topic of a publisher, otherwise identities.
    """
    reader.go_to(0)
    identities: list[str] = []
    publishes = reader.about.socket_type in PUBLISHERS
    while reader.frame < delimiter:
        if publishes and reader.frame == 0:
            reader.text("topic")
        else:
            identities.append(reader.text("identity", hidden=True))
        reader.next_frame()
    if identities:
        reader.give("identities", identities)


def _read_object(reader: Reader, name: str) -> dict[str, Json]:
    """Read the next frame as a JSON object. Kernels send null for an empty object, except for the header."""
    reader.next_frame()
    octets = reader.data
    reader.text(name, hidden=True)
    made = _json(octets)
    if made is None and name != "header":
        return {}
    if not isinstance(made, dict):
        raise Malformed(f"the {name} is not a JSON object")
    return made


def _read_buffers(reader: Reader) -> None:
    sizes: list[int] = []
    while reader.next_frame():
        sizes.append(len(reader.octets("buffer", hidden=True)))
    reader.give("buffers", sizes)


def _json(octets: bytes) -> Json:
    """Parse a frame as JSON. Raises `Malformed`."""
    import orjson

    try:
        return orjson.loads(octets)
    except orjson.JSONDecodeError:
        pass
    try:  # programs may write other text than UTF-8, and jupyter_client passes it on
        return orjson.loads(octets.decode("utf-8", "replace"))
    except orjson.JSONDecodeError as error:
        raise Malformed(f"no JSON: {error}") from None


def _text(made: Json, name: str) -> str | None:
    value = made.get(name) if isinstance(made, dict) else None
    return value if isinstance(value, str) else None
