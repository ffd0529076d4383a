"""The keys of one CURVE connection: entries of the key files, and keys proven by boxes that they decrypt (curve.md 5,
6).

Key files identify a connection by C', the client's transient public key, unencrypted in its HELLO. Without a captured
HELLO, the shared keys of all connections are tried. curve.md 1 explains the names of keys: k is the key of MESSAGEs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from zmtpscope.curve_crypto import open_box, shared_key
from zmtpscope.curve_keys import ConnectionSecrets, Keys, Place
from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.records.notes import Note
from zmtpscope.zmtp.mechanisms.curve import (
    BOX_OF_MESSAGE,
    BOXES,
    COOKIE_AT,
    COOKIE_PREFIX,
    CURVE,
    KEY_SIZE,
    LONG_NONCE_SIZE,
    MESSAGE_PREFIX,
    NONCE_OF_MESSAGE,
    VOUCH_BOX,
    VOUCH_NONCE,
    VOUCH_PREFIX,
)
from zmtpscope.zmtp.reader import Finding

TRIES = 3
"""MESSAGEs of each side, and handshake commands of each name, to try keys on."""

MAX_KEYS = 1000
"""Shared keys of other connections, and server keys, to try on a box."""

TRIED_OCTETS = 8 << 20
"""Octets to authenticate in vain for one MESSAGE of an unknown connection, approximately. Large MESSAGEs get fewer
keys."""

ALWAYS_TRIED = 16
"""Number of keys that are tried even on a large MESSAGE."""


class _ServerPair(NamedTuple):
    """The key of the boxes in HELLO and WELCOME, made from S and c' or from s and C' (curve.md 1).

    `server` is the public key S. `is_given`: a key file names the connection.
    """

    key: bytes
    server: bytes
    """S, the server's long-term public key (curve.md 1)."""
    is_given: bool
    """Whether the key files give it for this connection."""

    def __repr__(self) -> str:
        return "_ServerPair(***)"


ROLES = ("client", "server")
LAST_STEPS = {layout.name: layout.sender for layout in CURVE.layouts if layout.last}


class Session:
    """The keys of one CURVE connection.

    `key` is k, the key of MESSAGEs, once it has decrypted a box. `server` is the server key of the HELLO, once proven.
    `hopeless`: no more MESSAGEs can be decrypted, for lack of a key. Once `settled`, the records of neither side can
    change.
    """

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self.key: bytes | None = None
        self.server: bytes | None = None
        self.hopeless = False
        self.unfit = False
        """Whether the key files name this connection, but none of their keys opens a box."""
        self._is_unfit_noted = False
        self.cookie: bytes | None = None
        self._roles: list[str | None] = [None, None]
        self._shaking: set[str] = set()
        """Roles whose handshake may continue."""
        self._client_transient: bytes | None = None
        self._secrets: ConnectionSecrets | None = None
        self._server_transient: bytes | None = None
        """S', from the WELCOME."""
        self._welcome: tuple[bytes, bytes] | None = None
        """Nonce and box of a WELCOME that has not opened yet."""
        self._returned_cookie: bytes | None = None
        """Cookie in the INITIATE."""
        self._pair: _ServerPair | None = None
        self._tried = [0, 0]
        self._tried_until: Sequence[Place] = ()
        """Key file positions up to which keys were tried without a known connection."""
        self._tried_before: Sequence[Place] = ()
        """The value of `_tried_until` before the key files grew."""
        self._met_box_of_k = False
        self._generation = keys.generation

    @property
    def named(self) -> bool:
        """Whether a key file has an entry for this connection: by its C', or with a key that decrypts a box."""
        return self._secrets is not None or self.key is not None

    @property
    def settled(self) -> bool:
        """Whether data of one side can no longer change the records of the other."""
        return self.key is not None or (self.hopeless and not self._shaking)

    def role(self, side: int) -> str | None:
        """Return "client" or "server" if the role of either side is known, otherwise None."""
        role, other = self._roles[side], self._roles[1 - side]
        return ROLES[other == "client"] if role is None and other is not None else role

    def assign(self, side: int, role: str) -> None:
        """Set the role of a side, as shown by a handshake command or box. A role never changes."""
        if self.role(side) is None:
            self._roles[side] = role

    def look_again(self) -> None:
        """Search again for keys if the key files have grown."""
        if self._generation != self.keys.generation:
            self._generation = self.keys.generation
            if self.key is None:
                self.hopeless = self.unfit = False
                self._tried = [0, 0]
                self._tried_before = self._tried_until
                self._find_secrets()

    def meet(self, client_transient: bytes) -> None:
        """Set C', the client's transient public key from its HELLO."""
        if self._client_transient is None and not self.settled:
            self._client_transient = client_transient
            self._shaking = set(ROLES)
            self._find_secrets()

    def _find_secrets(self) -> None:
        if self._client_transient is not None:
            self._secrets = self.keys.secrets_for(self._client_transient)
            self.hopeless = self._secrets is None

    # -- boxes -------------------------------------------------------------------------------------------------------

    def open_handshake(self, name: str, body: bytes) -> bytes | None:
        """Return the decrypted box of a handshake command, or None.

        `name` and `body` are those of the command.
        """
        box = BOXES[name]
        nonce, sealed = box.prefix + body[box.nonce], body[box.start :]
        self._shaking.discard(LAST_STEPS.get(name, ""))
        if name in ("HELLO", "WELCOME"):
            content = self._open_with_server(name, nonce, sealed)
            if name == "HELLO" and content is None and self.hopeless:
                self._shaking.clear()
            return content
        if name == "INITIATE":
            self._returned_cookie = body[COOKIE_AT]
        return self._open(nonce, sealed)

    def _open_with_server(self, name: str, nonce: bytes, sealed: bytes) -> bytes | None:
        for pair in self._server_pairs():
            content = open_box(sealed, nonce, pair.key)
            if content is not None:
                if not self.settled:
                    self._pair, self.server = pair, pair.server
                    if name == "WELCOME":
                        self._server_transient, self.cookie = content[:KEY_SIZE], content[KEY_SIZE:]
                        self._welcome = None
                elif name == "WELCOME":
                    self._welcome = nonce, sealed  # to retry when the key files grow
                return content
        if name == "WELCOME":
            self._welcome = nonce, sealed
        return None

    def _open(self, nonce: bytes, sealed: bytes) -> bytes | None:
        self._met_box_of_k = True
        for key in self._candidates(len(sealed)):
            content = open_box(sealed, nonce, key)
            if content is not None:
                self.key = key
                return content
        return None

    def prefix(self, side: int) -> bytes:
        return MESSAGE_PREFIX[self.role(side) or "client"]

    def try_message(self, side: int, body: bytes) -> bytes | None:
        """Decrypt the body of a MESSAGE that `side` sent, and find the key k if it is unknown; None if no key decrypts
        it."""
        if not self.may_open_messages_of(side):
            return None
        role = self.role(side)
        for each in ROLES if role is None else (role,):
            content = self._open(MESSAGE_PREFIX[each] + body[NONCE_OF_MESSAGE], body[BOX_OF_MESSAGE:])
            if content is not None:
                self.assign(side, each)
                return content
        self._tried[side] += 1
        # k opens both directions, so one proof is enough
        if max(self._tried) >= TRIES if self._client_transient is None else not self._shaking:
            self.give_up()
        return None

    def finish_handshake(self, side: int) -> None:
        """Note that the side has completed its handshake and sends MESSAGEs."""
        self._shaking.discard(self.role(side) or "")

    def may_open_messages_of(self, side: int) -> bool:
        return self.key is not None or (not self.hopeless and self._tried[side] < TRIES)

    def give_up(self) -> None:
        """Note that no more boxes can be decrypted, for lack of a key."""
        if not self.settled:
            self.hopeless = True
            opened = self._pair is not None and self._pair.is_given
            self.unfit = self._secrets is not None and self._met_box_of_k and not opened

    def notes(self, arrival: Arrival) -> list[Note]:
        """Return a finding, once, if the keys for this connection are wrong.

        `arrival` is the segment that shows this.
        """
        if not self.unfit or self._is_unfit_noted:
            return []
        self._is_unfit_noted = True
        client = {"client": 0, "server": 1}.get(self.role(0) or "")
        return [Note(client, Finding("CURVE-12"), arrival, arrival.ordinal)]

    def vouch_is_wrong(self, content: bytes) -> bool:
        """Whether the vouch in an INITIATE names another client or server than the handshake.

        `content` is the decrypted box. False if s', the server's transient secret key that decrypts the vouch, is
        unknown.
        """
        client, nonce, vouch = content[:KEY_SIZE], content[VOUCH_NONCE], content[VOUCH_BOX]
        transient = self._client_transient
        for secret in self._server_secrets():
            if transient is None or shared_key(transient, secret) != self.key:
                continue  # belongs to another connection
            key = shared_key(client, secret)
            named = None if key is None else open_box(vouch, VOUCH_PREFIX + nonce, key)
            if named is None or named[:KEY_SIZE] != transient:
                return True
            return self.server is not None and named[KEY_SIZE:] != self.server
        return False

    # -- candidate keys ------------------------------------------------------------------------------------------------

    def _server_pairs(self) -> Iterator[_ServerPair]:
        if self._pair is not None:
            yield self._pair
        elif self._client_transient is not None:
            servers = self.keys.server_keys[:MAX_KEYS]
            for server in servers:
                made = None if server.secret is None else shared_key(self._client_transient, server.secret)
                if made is not None:
                    yield _ServerPair(made, server.public, False)
            for transient in () if self._secrets is None else self._secrets.client_transients:
                for public in [each.public for each in servers] if transient.server is None else [transient.server]:
                    made = shared_key(public, transient.secret)
                    if made is not None:
                        yield _ServerPair(made, public, True)

    def _candidates(self, size: int) -> Iterator[bytes]:
        """Yield keys that might decrypt a box of `size` octets.

        They are the proven key k, or else keys of the key files, or keys derived from secrets.
        """
        if self.key is not None:
            yield self.key
        elif self.settled:
            return
        elif self._client_transient is None:
            yield from self._keys_of_others(size)
        elif self._secrets is not None:
            yield from self._secrets.shared
            for public, secret in self._transient_pairs():
                made = shared_key(public, secret)
                if made is not None:
                    yield made

    def _keys_of_others(self, size: int) -> Iterator[bytes]:
        """Yield the key k of all connections in the key files, newest first, except keys tried before.

        `size` is that of the box in octets; fewer keys are tried for a large box.
        """
        limit = max(ALWAYS_TRIED, min(MAX_KEYS, TRIED_OCTETS // size))
        lines = self.keys.shared_keys(limit, self._tried_before)
        yield from (key for _, key in lines)
        if len(lines) < limit or limit == MAX_KEYS:  # a large MESSAGE leaves older keys for smaller ones
            self._tried_until = self.keys.places()

    def _transient_pairs(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield pairs of a public and a secret transient key from which the key k is made: (C', s') and (S', c')."""
        if self._secrets is None or self._client_transient is None:
            return
        for secret in self._server_secrets():
            yield self._client_transient, secret
        if self._welcome is not None and self._secrets.client_transients:
            self._open_with_server("WELCOME", *self._welcome)
        publics = self._secrets.server_public_transients
        if self._server_transient is not None:
            publics = (self._server_transient, *publics)
        for transient in self._secrets.client_transients:
            for public in publics:
                yield public, transient.secret

    def _server_secrets(self) -> Iterator[bytes]:
        """Yield s', the server's transient secret key, from the key files, or from cookies with a known key."""
        if self._secrets is None:
            return
        yield from self._secrets.server_transients
        cookies = [cookie for cookie in (self.cookie, self._returned_cookie) if cookie is not None]
        for cookie in cookies:
            for cookie_key in self._secrets.cookie_keys:
                content = open_box(cookie[LONG_NONCE_SIZE:], COOKIE_PREFIX + cookie[:LONG_NONCE_SIZE], cookie_key)
                if content is not None and content[:KEY_SIZE] == self._client_transient:
                    yield content[KEY_SIZE:]
