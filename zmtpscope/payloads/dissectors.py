"""The table of built-in dissectors, with the messages that each may claim.

These declarations are here so that a dissector's module is loaded only if a capture needs it.
"""

from __future__ import annotations

from collections.abc import Set
from importlib import import_module
from typing import Any, NamedTuple

from zmtpscope.payloads.api import Payload
from zmtpscope.zmtp.socket_types import PUBLISHERS


class Dissector(NamedTuple):
    """A dissector with the declarations of its class (see `Payload`). `source` is the class, or `module:class`."""

    name: str
    source: type[Payload] | str
    begins: bytes | tuple[bytes, ...] | None = None
    least_frames: int = 1
    looks_in_front: bool = False
    socket_types: frozenset[str | None] | None = None
    automatic: bool = True
    dissects_at_once: bool = False
    """Whether the class overrides `at_once`."""
    claims_at_once: bool = False
    """Whether the class overrides `claims_at_once`."""
    judges: bool = False
    wants_all: bool = False
    framewise: bool = False
    """Whether each frame is complete (`Framewise`), so that any frame may claim a message."""

    def load(self) -> type[Payload]:
        """Import and return the dissector's class. Exceptions of the module propagate."""
        if not isinstance(self.source, str):
            return self.source
        module, _, name = self.source.partition(":")
        kind: type[Payload] = getattr(import_module(module), name)
        return kind

    def may_begin(self, head: int) -> bool:
        """Whether a message that the dissector claims may start with this octet, or be empty (`NO_OCTET`)."""
        begins = self.begins
        return begins is None or head in (set(begins) if isinstance(begins, bytes) else {each[0] for each in begins})

    def may_be_from(self, socket_type: str | None) -> bool:
        """Whether the dissector may claim messages of a socket type; None: unknown type."""
        return self.socket_types is None or socket_type in self.socket_types

    @property
    def prefixes(self) -> tuple[bytes, ...]:
        """The prefixes that the dissector declares as a tuple, or ()."""
        return self.begins if isinstance(self.begins, tuple) else ()


def declared(kind: type[Payload]) -> Dissector:
    """Return the declarations of a dissector class. Raises `TypeError` if they are invalid."""
    from zmtpscope.payloads.framewise import Framewise  # built-in dissectors are known without it

    if not isinstance(getattr(kind, "prefix", None), str):
        raise TypeError("its prefix is not text")
    begins: Any = kind.begins
    if not (isinstance(begins, bytes | None) or (isinstance(begins, tuple) and all(map(_is_prefix, begins)))):
        raise TypeError("its begins_with is neither octets nor None")
    if not isinstance(kind.least_frames, int):
        raise TypeError("its least_frames is not a number")
    types: Any = kind.socket_types
    if not (types is None or (isinstance(types, Set) and all(isinstance(each, str | None) for each in types))):
        raise TypeError("its socket_types are not a set of names")
    at_once = kind.at_once is not Payload.at_once
    claims = kind.claims_at_once is not Payload.claims_at_once
    return Dissector(
        kind.name,
        kind,
        begins,
        kind.least_frames,
        bool(kind.looks_in_front),
        None if types is None else frozenset(types),
        bool(kind.automatic),
        at_once,
        claims,
        bool(kind.judges),
        bool(kind.wants_all),
        issubclass(kind, Framewise),
    )


def _is_prefix(octets: object) -> bool:
    return isinstance(octets, bytes) and octets != b""


TEXT = "text"
"""Name of the dissector that is tried last, because messages of most other formats are text too."""
JSON = Dissector(
    "json",
    "zmtpscope.payloads.json:JsonPayload",
    b"{[ \t\r\n\xef",
    dissects_at_once=True,
    claims_at_once=True,
    framewise=True,
)
"""Dissectors that recognise messages many at once: most claimed messages are JSON or text."""
ZAP, ZRE = "zap", "zre"
"""Names of the dissectors whose messages findings compare across both sides or several connections."""

_COMPRESSED = "zmtpscope.payloads.compressed"
SKIPPABLE = tuple(bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60))
"""Magic numbers of skippable frames (zstd, LZ4)."""

OURS = (
    Dissector(
        "cbor", "zmtpscope.payloads.cbor:Cbor", bytes([*range(0x80, 0xC0), 0xD9]), claims_at_once=True, framewise=True
    ),
    Dissector("gzip", f"{_COMPRESSED}:Gzip", (b"\x1f\x8b\x08",), judges=True, framewise=True),
    JSON,
    Dissector("jupyter", "zmtpscope.payloads.jupyter:Jupyter", least_frames=5, judges=True),
    Dissector("lz4", f"{_COMPRESSED}:Lz4", (b"\x04\x22\x4d\x18", *SKIPPABLE), judges=True, framewise=True),
    Dissector(
        "messagepack",
        "zmtpscope.payloads.messagepack:MessagePack",
        bytes([*range(0x80, 0xA0), *range(0xDC, 0xE0)]),
        dissects_at_once=True,
        claims_at_once=True,
        framewise=True,
    ),
    Dissector("pickle", "zmtpscope.payloads.pickle:Pickle", b"\x80(c]})", judges=True, framewise=True),
    Dissector("protobuf", "zmtpscope.payloads.protobuf:Protobuf", automatic=False),
    Dissector("sequence", "zmtpscope.payloads.sequence:Numbered", least_frames=2, socket_types=PUBLISHERS, judges=True),
    Dissector(TEXT, "zmtpscope.payloads.text:Text"),
    Dissector(
        ZAP,
        "zmtpscope.payloads.zap:Zap",
        least_frames=6,
        looks_in_front=True,
        socket_types=frozenset({"REQ", "REP", "DEALER", "ROUTER", None}),
        judges=True,
    ),
    Dissector(
        "zlib", f"{_COMPRESSED}:Zlib", (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda"), judges=True, framewise=True
    ),
    Dissector(ZRE, "zmtpscope.payloads.zre.messages:Zre", b"\xaa", judges=True),
    Dissector("zstd", f"{_COMPRESSED}:Zstd", (b"\x28\xb5\x2f\xfd", *SKIPPABLE), judges=True, framewise=True),
)
