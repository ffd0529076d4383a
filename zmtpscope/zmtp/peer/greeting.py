"""Send our greeting piece by piece, so that older peers understand it (wire.md 9.1), and determine the version."""

from __future__ import annotations

from zmtpscope.records import from_text
from zmtpscope.zmtp.greeting import SIGNATURE_SIZE, build_greeting_1, build_greeting_2, build_greeting_3
from zmtpscope.zmtp.negotiation import PREFIX_LIMIT, Decision, Form, negotiate
from zmtpscope.zmtp.peer.errors import Mismatch, NotZmtp
from zmtpscope.zmtp.peer.settings import Settings
from zmtpscope.zmtp.prefix import NEW, OLD, Class, classify, first_frame_stop

_OLD = Decision("1.0", (Form.FRAMES_1, Form.FRAMES_1), "agreed", "ZMTP 1.0")
_OLD_FACING_NEW = _OLD._replace(forms=(Form.FRAMES_1, Form.PSEUDO_SIGNATURE))
_NEW_FACING_OLD = _OLD._replace(forms=(Form.PSEUDO_SIGNATURE, Form.FRAMES_1))
"""Both decisions follow from the greetings, because we know our own version; an observer needs more octets for them."""

_SHOWN = 32
"""Number of octets shown of data that is not ZMTP."""

_OTHERS = {b"GET ": "HTTP", b"HTTP/": "HTTP", b"\x16\x03": "TLS", b"\x15\x03": "TLS", b"SSH-": "SSH"}


class GreetingSender:
    """Sends each part of our greeting as soon as the other side's octets permit it.

    Octets 10 and 11 would exclude 1.0 and 2.0, so they are not sent until the other side has shown its version.
    `decision` is the result of `negotiate`, as for captured traffic.
    """

    decision: Decision | None = None
    wanted = 0

    def __init__(self, settings: Settings, waits: bool = False) -> None:
        self._settings = settings
        self._waits = waits
        self._padding = len(from_text(settings.identity)) + 1
        self._sent = b""
        self._whole = b""

    def begin(self) -> bytes:
        """Return the octets to send before anything is received."""
        settings = self._settings
        oldest = settings.oldest or settings.version
        if settings.version == "1.0":
            self._whole = build_greeting_1(settings.identity)
        elif settings.version == "2.0":
            self._whole = self._greeting_2(1, self._padding if oldest == "1.0" else 0)
        else:
            mechanism, server = settings.security.mechanism, settings.security.role == "server"
            padding = self._padding if oldest == "1.0" else 0
            self._whole = build_greeting_3(mechanism, version=settings.version, as_server=server, padding=padding)
        if settings.version == oldest or oldest >= "3.0":
            return self._send(len(self._whole))
        return self._send(SIGNATURE_SIZE if oldest == "1.0" else SIGNATURE_SIZE + 1)

    def introduce(self, settings: Settings) -> None:
        """Set the socket type, which was withheld until now."""
        self._settings = settings
        self._waits = False

    def answer(self, received: bytes) -> bytes:
        """Return the octets to send next, given all octets `received` so far.

        Sets `decision` once the version is known. Raises `PeerError`.
        """
        prefix = received[:PREFIX_LIMIT]
        kind = classify(prefix)
        if kind is Class.ALIEN:
            raise NotZmtp(f"the other side does not speak ZMTP: its first octets are {shown(received)}")
        if kind is Class.CUT:
            self.wanted = min(first_frame_stop(prefix), PREFIX_LIMIT + 1)
        octets = self._answer(kind, prefix)
        decision = self.decision = self._decide(kind, prefix)
        if decision is None and len(received) > PREFIX_LIMIT:
            raise NotZmtp(f"the other side did not end its greeting within {PREFIX_LIMIT} octets")
        if decision is not None and decision.version is None:
            if kind is Class.REVISION_3:  # it did not wait for our version
                raise _too_new("3.0", self._settings.version)
            raise Mismatch(f"the two sides have no common version of ZMTP: {decision.text}")
        if decision is not None and decision.version is not None:
            self._accept(decision.version)
        return octets

    def _decide(self, kind: Class, received: bytes) -> Decision | None:
        is_old = self._settings.version == "1.0"
        if kind in OLD:
            return _OLD if is_old else _NEW_FACING_OLD
        return _OLD_FACING_NEW if is_old and kind in NEW else negotiate(self._sent, received)

    def _answer(self, kind: Class, received: bytes) -> bytes:
        newest = self._settings.version
        if newest == "1.0" and kind >= Class.SIGNATURE and not any(received[1:9]):
            raise _too_new("2.0", newest)
        if kind in OLD:
            self._accept("1.0")
            if newest == "1.0":
                return b""
            return self._downgrade(build_greeting_1(self._settings.identity, pseudo_signature=True))
        if kind < Class.SIGNATURE:
            return b""
        if newest < "3.0":
            return self._send(len(self._whole))
        if kind is Class.SIGNATURE:
            return self._send(SIGNATURE_SIZE + 1)
        if kind is Class.REVISION_3:
            return self._send(len(self._whole))
        if kind is Class.REVISION_0:
            raise Mismatch("the other side announces revision 0, which is no version of ZMTP")
        self._accept("2.0")
        if self._waits:
            return b""
        return self._downgrade(self._greeting_2(3, self._padding))

    def _accept(self, version: str) -> None:
        oldest = self._settings.oldest or self._settings.version
        if version < oldest:
            raise Mismatch(f"the other side speaks ZMTP {version}, and this side requires {oldest} or newer")

    def _greeting_2(self, revision: int, padding: int) -> bytes:
        return build_greeting_2(self._settings.socket_type, self._settings.identity, padding=padding, revision=revision)

    def _downgrade(self, greeting: bytes) -> bytes:
        """Return the rest of our greeting in an older version; it follows the octets already sent."""
        self._whole = greeting
        return self._send(len(greeting))

    def _send(self, stop: int) -> bytes:
        octets = self._whole[len(self._sent) : stop]
        self._sent += octets
        return octets


def _too_new(theirs: str, ours: str) -> Mismatch:
    return Mismatch(f"the other side requires ZMTP {theirs} or newer, and this side supports at most {ours}")


def shown(octets: bytes) -> str:
    """Format the first line of a text protocol, or the first octets, and name the protocol if it is known."""
    line = octets[:_SHOWN].partition(b"\r\n")[0]
    readable = line.isascii() and line.decode("ascii").isprintable()
    shown = repr(line.decode("ascii")) if readable else octets[:16].hex(" ")
    known = next((name for start, name in _OTHERS.items() if octets.startswith(start)), None)
    return f"{shown}, which is {known}" if known else shown
