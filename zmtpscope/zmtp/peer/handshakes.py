"""Our side of the handshake with each mechanism (wire.md 8, curve.md): credentials, keys, access decisions."""

from __future__ import annotations

import hmac
from collections.abc import Iterator

from zmtpscope.zmtp.commands import build_command
from zmtpscope.zmtp.details import field_tree
from zmtpscope.zmtp.events import Command, Fields
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.mechanisms import MECHANISMS
from zmtpscope.zmtp.mechanisms.curve import (
    AUTHENTICATOR_SIZE,
    BOX_OF_MESSAGE,
    BOXES,
    COOKIE_PREFIX,
    MESSAGE_PREFIX,
    NONCE_OF_MESSAGE,
    VOUCH_PREFIX,
)
from zmtpscope.zmtp.mechanisms.null import STATUS
from zmtpscope.zmtp.metadata import build_metadata
from zmtpscope.zmtp.opened import OpenedReader
from zmtpscope.zmtp.peer.errors import Mismatch, PeerError, Refused, UnfitSocketType, Violation, check
from zmtpscope.zmtp.peer.settings import CurveClient, CurveServer, PlainClient, PlainServer, Settings
from zmtpscope.zmtp.regime import Framing
from zmtpscope.zmtp.socket_types import PEERS, may_meet

OTHER_ROLE: dict[str | None, str | None] = {"client": "server", "server": "client", None: None}
DENIED = "400"
"""ERROR reason of libzmq for a client that is not admitted (27/ZAP)."""

INVALID_TYPE = "Invalid socket type"
"""ERROR reason for an unfit socket type; libzmq closes without an ERROR."""

SIGNATURE = bytes(64)
"""Contents of the HELLO box."""


class Part:
    """Our side of a NULL handshake, and the base class for other mechanisms.

    `last_word` is an ERROR to send after `answer` has raised an exception.
    """

    last_word = b""
    content: OpenedReader | None = None
    """Reads decrypted MESSAGEs, if the mechanism encrypts."""
    waits = False
    """Whether to send nothing before `introduce`."""

    def __init__(self, settings: Settings) -> None:
        role = settings.security.role
        mechanism = MECHANISMS[settings.security.mechanism]
        self.mechanism = mechanism
        self.role = role
        self.metadata: Fields = settings.metadata
        self.facts: Fields = {}
        """Fields of the command with the other side's metadata."""
        self._socket_type = settings.socket_type
        self._mine = mechanism.steps[role]
        self._theirs = mechanism.steps[OTHER_ROLE[role]]
        self._sent = self._received = 0

    @property
    def done(self) -> bool:
        return self._sent == len(self._mine) and self.has_received_all

    @property
    def has_received_all(self) -> bool:
        return self._received == len(self._theirs)

    @property
    def awaited(self) -> str:
        """The command that the other side must send next."""
        return self._theirs[min(self._received, len(self._theirs) - 1)]

    @property
    def last_sent(self) -> str | None:
        return self._mine[self._sent - 1] if self._sent else None

    def begin(self) -> Iterator[bytes]:
        """Yield the octets of our first command; none for a server, which waits for the client."""
        if self.role != "server":
            yield self._step()

    def introduce(self, settings: Settings) -> Iterator[bytes]:
        """Yield our READY or INITIATE, with the socket type of `settings`. Raises `UnfitSocketType`."""
        self.waits = False
        self.metadata, self._socket_type = settings.metadata, settings.socket_type
        self._learn(self.facts)
        if self.role != "server" or self._received:
            yield self._step()

    def answer(self, event: Command, octets: bytes) -> Iterator[bytes]:
        """Process a handshake command of the other side; yield the octets to send in reply.

        `octets` is the frame of the command. Raises `PeerError`.
        """
        name = event.fields.get("name")
        if name == "ERROR":
            raise self.refused(str(event.fields.get("reason") or ""))
        if name in self._mine and name not in self._theirs:
            raise Mismatch(f"both sides act as the {self.role} of the {self.mechanism.name} handshake")
        if name != self.awaited or self.has_received_all:
            raise Violation(f"{name or 'a command without a name'} arrived instead of {self.awaited}")
        self._check(event, octets)
        self._received += 1
        if self._sent < len(self._mine) and not self.waits:
            yield self._step()

    def _deny(self, why: str) -> Refused:
        self._send_error(DENIED)
        return Refused(why)

    def _send_error(self, reason: str) -> None:
        """Set the ERROR to send before closing, if we are the server; `reason` is its text."""
        if self.role == "server":
            body = build_command(self.mechanism.name, "ERROR", {"reason": reason})
            self.last_word = build_frame(Framing.V2, body, command=True)

    def _step(self) -> bytes:
        name = self._mine[self._sent]
        self._sent += 1
        body = build_command(self.mechanism.name, name, self._fields(name))
        return build_frame(Framing.V2, body, command=True)

    def _fields(self, name: str) -> Fields:
        return self.metadata

    def _check(self, event: Command, octets: bytes) -> None:
        self._learn(event.fields)

    def _learn(self, facts: Fields) -> None:
        """Store the metadata of the other side, and check that its socket type fits ours."""
        self.facts = facts
        theirs = facts.get("socket_type")
        if theirs is not None and not self.waits and not may_meet(self._socket_type, theirs):
            self._send_error(INVALID_TYPE)
            raise UnfitSocketType(unfit(self._socket_type, theirs))

    def refused(self, reason: str) -> PeerError:
        meaning = STATUS.get(reason)
        said = f"ERROR {reason!r}" + (f": {meaning}" if meaning else "")
        kind = UnfitSocketType if "socket type" in reason.lower() else Refused
        return kind(f"the other side answered {self.last_sent or 'our greeting'} with {said}")

    # -- traffic ------------------------------------------------------------------------------------------------------

    def seal(self, flags: int, data: bytes) -> bytes:
        """Encrypt `data` into the body of a MESSAGE with these inner flags (curve.md 4)."""
        raise NotImplementedError

    def open(self, body: bytes) -> bytes | None:
        """Decrypt the body of a MESSAGE; return its flags octet and data, or None if decryption fails."""
        raise NotImplementedError


class PlainPart(Part):
    def __init__(self, security: PlainClient | PlainServer, settings: Settings) -> None:
        super().__init__(settings)
        self.security = security

    def _fields(self, name: str) -> Fields:
        if name == "HELLO" and isinstance(self.security, PlainClient):
            return {"username": self.security.username, "password": self.security.password}
        return self.metadata

    def _check(self, event: Command, octets: bytes) -> None:
        fields = event.fields
        if fields["name"] == "HELLO" and isinstance(self.security, PlainServer):
            username, password = fields.get("username"), fields.get("password")
            if username is None or password is None or not self.security.allows(username, password):
                raise self._deny(f"the login of {username!r} was refused")
        elif "metadata" in fields:
            self._learn(fields)


class CurvePart(Part):
    """Our side of a CURVE handshake.

    `key_line` is the line of a key log that decrypts this connection (curve.md 6).
    """

    key_line: tuple[str, ...] = ()
    _key: bytes
    """k, the key of all boxes after the handshake (curve.md 1)."""

    def __init__(self, security: CurveClient | CurveServer, settings: Settings, version: str) -> None:
        super().__init__(settings)
        self.crypto = security.crypto
        self.content = OpenedReader(Framing.V2, version)
        self._nonce = 0

    def _next_nonce(self) -> int:
        self._nonce += 1
        return self._nonce

    def _shared(self, public: bytes, secret: bytes) -> bytes:
        key = self.crypto.shared_key(public, secret)
        if key is None:
            raise self._deny("the other side sent a public key of low order, which is not secure")
        return key

    def _sealed(self, name: str, content: bytes, key: bytes, nonce: int | bytes) -> bytes:
        octets = nonce.to_bytes(8, "big") if isinstance(nonce, int) else nonce
        return self.crypto.seal_box(content, BOXES[name].prefix + octets, key)

    def _opened(self, event: Command, octets: bytes, key: bytes) -> tuple[Fields, dict[str, bytes]]:
        """Decrypt a handshake command; return its fields, and the octets of each field by name.

        `octets` is the frame of the command, `key` the shared key. Raises `Refused` if decryption fails.
        """
        name = str(event.fields["name"])
        box = BOXES[name]
        header = len(octets) - int(event.fields["size"])
        nonce = octets[header:][box.nonce]
        at = header + box.start
        content = self.crypto.open_box(octets[at:], box.prefix + nonce, key)
        if content is None:
            raise self._deny(f"the box of {name} does not decrypt: {WHY_CLOSED[name]}")
        assert self.content is not None
        octets = octets[: at + AUTHENTICATOR_SIZE] + content
        opened = self.content.read_handshake(event, octets)
        check(opened.findings)
        tree = field_tree(opened.regime, octets, event.start)
        return opened.fields, {leaf.name: leaf.value for leaf in tree.leaves() if isinstance(leaf.value, bytes)}

    def seal(self, flags: int, data: bytes) -> bytes:
        nonce = self._next_nonce()
        prefix = MESSAGE_PREFIX[str(self.role)]
        box = self.crypto.seal_box(bytes((flags,)) + data, prefix + nonce.to_bytes(8, "big"), self._key)
        return build_command("CURVE", "MESSAGE", {"nonce": nonce, "box": box})

    def open(self, body: bytes) -> bytes | None:
        prefix = MESSAGE_PREFIX[str(OTHER_ROLE[self.role])]
        return self.crypto.open_box(body[BOX_OF_MESSAGE:], prefix + body[NONCE_OF_MESSAGE], self._key)


def unfit(ours: str, theirs: str) -> str:
    *others, last = sorted(PEERS.get(theirs, ())) or [""]
    fitting = f"{', '.join(others)} or {last}" if others else last
    return f"the other side is {theirs}, which {ours} cannot connect to" + (f"; {fitting} may" if fitting else "")


WHY_CLOSED = {
    "HELLO": "it is encrypted for another server key",
    "WELCOME": "it is encrypted with a server key other than the given one",
    "INITIATE": "the client does not have the keys that it announced",
    "READY": "the server does not have the keys that it announced",
}


class CurveClientPart(CurvePart):
    def __init__(self, security: CurveClient, settings: Settings, version: str) -> None:
        super().__init__(security, settings, version)
        self.security = security
        self._transient = self.crypto.random_octets(32)
        self._public = self.crypto.public_key(self._transient)
        self._server = self._shared(security.server_key, self._transient)
        self._cookie = self._server_transient = b""
        self.key_line = ("CLIENT_TRANSIENT", self._public.hex(), self._transient.hex(), security.server_key.hex())

    def _fields(self, name: str) -> Fields:
        nonce = self._next_nonce()
        if name == "HELLO":
            box = self._sealed(name, SIGNATURE, self._server, nonce)
            return {"client_key": self._public, "nonce": nonce, "box": box}
        crypto, security = self.crypto, self.security
        vouch_nonce = crypto.random_octets(16)
        vouch_key = self._shared(self._server_transient, security.secret)
        vouch = crypto.seal_box(self._public + security.server_key, VOUCH_PREFIX + vouch_nonce, vouch_key)
        content = crypto.public_key(security.secret) + vouch_nonce + vouch + build_metadata(self.metadata)
        return {"cookie": self._cookie, "nonce": nonce, "box": self._sealed(name, content, self._key, nonce)}

    def _check(self, event: Command, octets: bytes) -> None:
        if event.fields["name"] == "WELCOME":
            fields, leaves = self._opened(event, octets, self._server)
            self._server_transient = fields["server_key"]
            self._cookie = leaves["curve.cookie.nonce"] + leaves["curve.cookie.box"]
            self._key = self._shared(self._server_transient, self._transient)
        else:
            self._learn(self._opened(event, octets, self._key)[0])


class CurveServerPart(CurvePart):
    def __init__(self, security: CurveServer, settings: Settings, version: str) -> None:
        super().__init__(security, settings, version)
        self.security = security
        self._client_transient = b""
        self._transient = self.crypto.random_octets(32)
        self._cookie = b""

    def _fields(self, name: str) -> Fields:
        if name == "READY":
            nonce = self._next_nonce()
            return {"nonce": nonce, "box": self._sealed(name, build_metadata(self.metadata), self._key, nonce)}
        crypto = self.crypto
        long_nonce, cookie_nonce = crypto.random_octets(16), crypto.random_octets(16)
        cookie_key = crypto.random_octets(32)
        secrets = self._client_transient + self._transient
        self._cookie = cookie_nonce + crypto.seal_box(secrets, COOKIE_PREFIX + cookie_nonce, cookie_key)
        content = crypto.public_key(self._transient) + self._cookie
        return {"long_nonce": long_nonce, "box": self._sealed(name, content, self._client, long_nonce)}

    def _check(self, event: Command, octets: bytes) -> None:
        if event.fields["name"] == "HELLO":
            self._client_transient = event.fields["client_key"]
            self._client = self._shared(self._client_transient, self.security.secret)
            self._opened(event, octets, self._client)
            self._key = self._shared(self._client_transient, self._transient)
            self.key_line = ("SERVER_TRANSIENT", self._client_transient.hex(), self._transient.hex())
            return
        fields, leaves = self._opened(event, octets, self._key)
        client = leaves["curve.client_longterm"]
        if not hmac.compare_digest(leaves["curve.cookie.nonce"] + leaves["curve.cookie.box"], self._cookie):
            raise self._deny("the INITIATE does not return the cookie of the WELCOME")
        if not self._is_vouched_for(client, leaves["curve.vouch.nonce"], leaves["curve.vouch.box"]):
            raise self._deny("the vouch of the INITIATE does not name this client and server")
        if self.security.allows is not None and not self.security.allows(client):
            raise self._deny(f"the client key {fields['client_longterm_key']} is not accepted")
        self._learn(fields)

    def _is_vouched_for(self, client: bytes, nonce: bytes, vouch: bytes) -> bool:
        key = self._shared(client, self._transient)
        named = self.crypto.open_box(vouch, VOUCH_PREFIX + nonce, key)
        expected = self._client_transient + self.crypto.public_key(self.security.secret)
        return named is not None and hmac.compare_digest(named, expected)


def part_for(settings: Settings, version: str) -> Part:
    security = settings.security
    if isinstance(security, PlainClient | PlainServer):
        return PlainPart(security, settings)
    if isinstance(security, CurveClient):
        return CurveClientPart(security, settings, version)
    if isinstance(security, CurveServer):
        return CurveServerPart(security, settings, version)
    return Part(settings)
