from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Protocol

from zmtpscope.records import from_text
from zmtpscope.zmtp.mechanisms.curve import KEY_SIZE
from zmtpscope.zmtp.metadata import PROPERTY_NAME
from zmtpscope.zmtp.peer.patterns import PATTERNS
from zmtpscope.zmtp.socket_types import DRAFT, IDENTIFIED, LARGEST_IDENTITY

VERSIONS = ("1.0", "2.0", "3.0", "3.1")
LONGEST_CREDENTIAL = 255
"""Octets of a user name and of a password (24/PLAIN)."""
LONGEST_TTL = 6553.5
"""Maximum TTL of a PING in seconds."""


class Crypto(Protocol):
    """Cryptography for CURVE, implemented by `zmtpscope.curve_crypto`.

    Keys have 32 octets, nonces 24. `open_box` returns None if decryption fails, `shared_key` if libsodium refuses the
    public key.
    """

    def public_key(self, secret: bytes) -> bytes: ...
    def shared_key(self, public: bytes, secret: bytes) -> bytes | None: ...
    def seal_box(self, content: bytes, nonce: bytes, key: bytes) -> bytes: ...
    def open_box(self, box: bytes, nonce: bytes, key: bytes) -> bytes | None: ...
    def random_octets(self, count: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Null:
    mechanism: ClassVar[str] = "NULL"
    role: ClassVar[str | None] = None


@dataclass(frozen=True, slots=True)
class PlainClient:
    """User name and password of at most 255 octets each, sent unencrypted."""

    mechanism: ClassVar[str] = "PLAIN"
    role: ClassVar[str | None] = "client"
    username: str
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        for what, value in (("user name", self.username), ("password", self.password)):
            if len(from_text(value)) > LONGEST_CREDENTIAL:
                raise ValueError(f"the {what} is longer than {LONGEST_CREDENTIAL} octets")


@dataclass(frozen=True, slots=True)
class PlainServer:
    """PLAIN settings of a server. `allows(username, password)` decides; it should compare in constant time."""

    mechanism: ClassVar[str] = "PLAIN"
    role: ClassVar[str | None] = "server"
    allows: Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class CurveClient:
    """CURVE settings of a client: the server's public long-term key and the client's secret long-term key, 32 octets
    each."""

    mechanism: ClassVar[str] = "CURVE"
    role: ClassVar[str | None] = "client"
    server_key: bytes
    secret: bytes = field(repr=False)
    crypto: Crypto = field(repr=False)

    def __post_init__(self) -> None:
        _check_keys(self.server_key, self.secret)
        if self.crypto.shared_key(self.server_key, self.secret) is None:
            raise ValueError("the server key is of low order, which is not secure")


@dataclass(frozen=True, slots=True)
class CurveServer:
    """CURVE settings of a server.

    `secret` is its secret long-term key. `allows` accepts or refuses a client by its public long-term key; None accepts
    all.
    """

    mechanism: ClassVar[str] = "CURVE"
    role: ClassVar[str | None] = "server"
    secret: bytes = field(repr=False)
    crypto: Crypto = field(repr=False)
    allows: Callable[[bytes], bool] | None = None

    def __post_init__(self) -> None:
        _check_keys(self.secret)


def _check_keys(*keys: bytes) -> None:
    if any(len(key) != KEY_SIZE for key in keys):
        raise ValueError(f"a CURVE key has {KEY_SIZE} octets")


Security = Null | PlainClient | PlainServer | CurveClient | CurveServer


class Heartbeat(NamedTuple):
    """How to send heartbeats: a PING every `interval` seconds, and a close after `timeout` seconds of silence.

    `ttl`: seconds that the other side is asked to wait for us; 0: no limit.
    """

    interval: float
    timeout: float
    ttl: float = 0.0


class Limits(NamedTuple):
    """Limits for the other side.

    `handshake`: seconds. `message`: octets, where each part counts `PART_COST` more than its size.
    """

    handshake: float = 30.0
    message: int = 64 << 20


PART_COST = 64
"""Memory of a message part in octets, besides its contents."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one socket. Raises `ValueError` if they are invalid.

    `properties` are added to the metadata. `version` is the newest version to speak, `oldest` the oldest to accept; its
    default is 1.0, or 3.0 if security, properties or a draft socket type require 3.x.
    """

    socket_type: str
    security: Security = field(default_factory=Null)
    identity: str = ""
    properties: tuple[tuple[str, str], ...] = ()
    version: str = "3.1"
    oldest: str | None = None
    heartbeat: Heartbeat | None = None
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.socket_type not in PATTERNS:
            raise ValueError(f"{self.socket_type!r} is not a socket type; use one of {', '.join(PATTERNS)}")
        octets = from_text(self.identity)
        if len(octets) > LARGEST_IDENTITY or octets.startswith(b"\0"):
            raise ValueError(
                f"an identity must have at most {LARGEST_IDENTITY} octets and must not begin with a zero octet"
            )
        if self.version not in VERSIONS or (self.oldest or self.version) not in VERSIONS:
            raise ValueError(f"the versions of ZMTP are {', '.join(VERSIONS)}")
        if self.version < "3.0" and (needs := self._needs_3()):
            raise ValueError(f"{needs} needs ZMTP 3.0, not {self.version}")
        if self.oldest is not None and self.oldest < "3.0" and (needs := self._needs_3()):
            raise ValueError(f"{needs} needs ZMTP 3.0, so older versions cannot be accepted")
        if self.oldest is None:
            object.__setattr__(self, "oldest", "3.0" if self._needs_3() else "1.0")
        for name, _ in self.properties:
            if PROPERTY_NAME.fullmatch(name) is None or name.lower() in ("socket-type", "identity"):
                raise ValueError(f"{name!r} is not a valid name for an application property")
        if self.heartbeat is not None:
            self._check_heartbeat(self.heartbeat)

    def _check_heartbeat(self, heartbeat: Heartbeat) -> None:
        if heartbeat.interval <= 0 or heartbeat.timeout <= 0:
            raise ValueError("the interval and the timeout of heartbeats must be above 0 s")
        if not 0 <= heartbeat.ttl <= LONGEST_TTL:
            raise ValueError(f"the TTL of a PING is at most {LONGEST_TTL} s")

    def _needs_3(self) -> str | None:
        if self.security.mechanism != "NULL":
            return f"the mechanism {self.security.mechanism}"
        if self.properties:
            return "a property"
        return f"the socket type {self.socket_type}" if self.socket_type in DRAFT else None

    @property
    def metadata(self) -> dict[str, str | list[dict[str, str]]]:
        """The properties of READY or INITIATE, in the order of libzmq (wire.md 7.2)."""
        named = [("Socket-Type", self.socket_type)]
        if self.socket_type in IDENTIFIED or self.identity:
            named.append(("Identity", self.identity))
        return {"metadata": [{"name": name, "value": value} for name, value in (*named, *self.properties)]}
