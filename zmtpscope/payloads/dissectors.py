"""What is known of dissectors before their modules are loaded: enough to tell who is asked about a message, so most
captures load few of them. Ours as a table."""

from __future__ import annotations

from collections.abc import Set
from importlib import import_module
from typing import Any, NamedTuple

from zmtpscope.payloads.api import Payload
from zmtpscope.zmtp.socket_types import PUBLISHERS


class Dissector(NamedTuple):
    """A dissector, with what it declares of the messages that it may claim (`Payload`). Who it is is either a class, or
    the name of one, `module:class`."""

    name: str
    source: type[Payload] | str
    begins: bytes | tuple[bytes, ...] | None = None
    least_frames: int = 1
    looks_in_front: bool = False
    socket_types: frozenset[str | None] | None = None
    automatic: bool = True
    tells_at_once: bool = False
    """Whether it has an `at_once` of its own, ..."""
    claims_at_once: bool = False
    """... and a `claims_at_once`."""
    judges: bool = False
    wants_all: bool = False
    framewise: bool = False
    """Whether each frame is a whole of its format (`Framewise`): it may claim a message by any of them."""

    def load(self) -> type[Payload]:
        """The class; whatever its module raises is raised."""
        if not isinstance(self.source, str):
            return self.source
        module, _, name = self.source.partition(":")
        kind: type[Payload] = getattr(import_module(module), name)
        return kind

    def may_begin(self, head: int) -> bool:
        """Whether what it claims may begin with an octet, or, for `NO_OCTET`, be empty."""
        begins = self.begins
        return begins is None or head in (set(begins) if isinstance(begins, bytes) else {each[0] for each in begins})

    def may_be_from(self, socket_type: str | None) -> bool:
        """Whether it may claim messages of a sender of this type; None stands for an unknown one."""
        return self.socket_types is None or socket_type in self.socket_types

    @property
    def prefixes(self) -> tuple[bytes, ...]:
        """How messages begin that it claims; empty where the first octet says no more than the shape."""
        return self.begins if isinstance(self.begins, tuple) else ()


def declared(kind: type[Payload]) -> Dissector:
    """A dissector as its class declares it. Raises TypeError where that cannot be."""
    from zmtpscope.payloads.framewise import Framewise  # those of our table are known without it

    if not isinstance(getattr(kind, "prefix", None), str):
        raise TypeError("its prefix is no text")
    begins: Any = kind.begins
    if not (isinstance(begins, bytes | None) or (isinstance(begins, tuple) and all(map(_is_prefix, begins)))):
        raise TypeError("what it begins with is neither octets nor None")
    if not isinstance(kind.least_frames, int):
        raise TypeError("its least_frames is no number")
    types: Any = kind.socket_types
    if not (types is None or (isinstance(types, Set) and all(isinstance(each, str | None) for each in types))):
        raise TypeError("its socket_types are no set of names")
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
"""The dissector that is asked last: most of what the others claim is text as well."""
JSON = Dissector(
    "json",
    "zmtpscope.payloads.json:JsonPayload",
    b"{[ \t\r\n\xef",
    tells_at_once=True,
    claims_at_once=True,
    framewise=True,
)
"""The one whose messages are found many at once, as those of text are: most that anybody claims are its own."""
ZAP, ZRE = "zap", "zre"
"""Those of which more is known than they know: that takes both sides, or several connections."""

_COMPRESSED = "zmtpscope.payloads.compressed"
_SKIPPABLE = tuple(bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60))

OURS = (
    Dissector(
        "cbor", "zmtpscope.payloads.cbor:Cbor", bytes([*range(0x80, 0xC0), 0xD9]), claims_at_once=True, framewise=True
    ),
    Dissector("gzip", f"{_COMPRESSED}:Gzip", (b"\x1f\x8b\x08",), judges=True, framewise=True),
    JSON,
    Dissector("jupyter", "zmtpscope.payloads.jupyter:Jupyter", least_frames=5, judges=True),
    Dissector("lz4", f"{_COMPRESSED}:Lz4", (b"\x04\x22\x4d\x18", *_SKIPPABLE), judges=True, framewise=True),
    Dissector(
        "messagepack",
        "zmtpscope.payloads.messagepack:MessagePack",
        bytes([*range(0x80, 0xA0), *range(0xDC, 0xE0)]),
        tells_at_once=True,
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
    Dissector("zstd", f"{_COMPRESSED}:Zstd", (b"\x28\xb5\x2f\xfd", *_SKIPPABLE), judges=True, framewise=True),
)
"""Ours, as their classes declare themselves."""
