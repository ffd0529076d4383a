"""CURVE connections for tests: two peers with known secrets, every box valid, and the key log lines that open them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Self

from nacl.bindings import crypto_box, crypto_box_beforenm, crypto_scalarmult_base, crypto_secretbox

from tests.traffic import Conversation
from zmtpscope.curve_keys import Keys
from zmtpscope.zmtp.commands import build_command
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.greeting import build_greeting_3
from zmtpscope.zmtp.mechanisms.curve import BOXES, COOKIE_PREFIX, MESSAGE_PREFIX, VOUCH_PREFIX
from zmtpscope.zmtp.metadata import build_metadata
from zmtpscope.zmtp.regime import Framing
from zmtpscope.zmtp.socket_types import IDENTIFIED

MORE, COMMAND = 1, 2
"""Flags inside the box of a MESSAGE."""

Steps = list[tuple[int, bytes]]
"""The octets of a connection: (side, octets), in order."""

CLIENT, SERVER = 0, 1
"""The sides, by default: the client of the security handshake opens the connection."""


def secret(name: str, seed: int = 0) -> bytes:
    """Return 32 octets of a secret key; the same for the same name and seed."""
    return hashlib.sha256(f"{name} {seed}".encode()).digest()


class CurvePeers:
    """Both ends of one CURVE connection. Secrets have the names of curve.md 1: s, c, s', c' and K.

    Connections with other `seed`s have other transient keys and the same long-term keys. Each call that makes a command
    takes the next nonce of its sender. `old`: nonces as libzmq 4.0 counts them, little-endian from 0 (curve.md 3).
    """

    def __init__(self, seed: int = 0, old: bool = False, **secrets: bytes) -> None:
        self.s = secrets.get("s", secret("s"))
        self.c = secrets.get("c", secret("c"))
        self.s_transient = secrets.get("s_transient", secret("s'", seed))
        self.c_transient = secrets.get("c_transient", secret("c'", seed))
        self.cookie_key = secrets.get("cookie_key", secret("K", seed))
        self.long_nonces = secrets.get("long_nonces", hashlib.sha384(f"nonces {seed}".encode()).digest())
        self.S, self.C = crypto_scalarmult_base(self.s), crypto_scalarmult_base(self.c)
        self.S_transient = crypto_scalarmult_base(self.s_transient)
        self.C_transient = crypto_scalarmult_base(self.c_transient)
        self.k = crypto_box_beforenm(self.S_transient, self.c_transient)
        self.old = old
        self.nonces = {CLIENT: -old, SERVER: -old}

    @classmethod
    def of_the_vector(cls) -> Self:
        """The peers of curve.md 8."""
        names = ("s", "c", "s_transient", "c_transient", "cookie_key")
        secrets = {name: bytes(range(first, first + 32)) for name, first in zip(names, range(1, 161, 32), strict=True)}
        return cls(long_nonces=bytes(range(0xA0, 0xD0)), **secrets)

    def nonce(self, side: int) -> int:
        self.nonces[side] += 1
        return int.from_bytes(self.nonces[side].to_bytes(8, "little" if self.old else "big"))

    # -- command bodies ----------------------------------------------------------------------------------------------

    def hello(self, server: bytes | None = None) -> bytes:
        """Return HELLO for the server key `server`, by default S."""
        nonce = self.nonce(CLIENT)
        box = crypto_box(bytes(64), _nonce("HELLO", nonce), server or self.S, self.c_transient)
        return build_command("CURVE", "HELLO", {"client_key": self.C_transient, "nonce": nonce, "box": box})

    @property
    def cookie(self) -> bytes:
        nonce = self.long_nonces[16:32]
        return nonce + crypto_secretbox(self.C_transient + self.s_transient, COOKIE_PREFIX + nonce, self.cookie_key)

    def welcome(self) -> bytes:
        nonce = self.long_nonces[:16]
        box = crypto_box(self.S_transient + self.cookie, BOXES["WELCOME"].prefix + nonce, self.C_transient, self.s)
        return build_command("CURVE", "WELCOME", {"long_nonce": nonce, "box": box})

    def initiate(self, vouch: bytes | None = None, cookie: bytes | None = None, **metadata: Any) -> bytes:
        """Return INITIATE; `vouch` are the contents of the vouch box, by default C' and S."""
        nonce, vouch_nonce = self.nonce(CLIENT), self.long_nonces[32:48]
        vouch_box = crypto_box(vouch or self.C_transient + self.S, VOUCH_PREFIX + vouch_nonce, self.S_transient, self.c)
        content = self.C + vouch_nonce + vouch_box + build_metadata(metadata)
        box = self.seal(content, _nonce("INITIATE", nonce))
        return build_command("CURVE", "INITIATE", {"cookie": cookie or self.cookie, "nonce": nonce, "box": box})

    def ready(self, **metadata: Any) -> bytes:
        nonce = self.nonce(SERVER)
        box = self.seal(build_metadata(metadata), _nonce("READY", nonce))
        return build_command("CURVE", "READY", {"nonce": nonce, "box": box})

    def message(self, side: int, data: bytes, flags: int = 0) -> bytes:
        """Return MESSAGE with `flags` and `data` inside."""
        nonce = self.nonce(side)
        prefix = MESSAGE_PREFIX["server" if side == SERVER else "client"]
        box = self.seal(bytes([flags]) + data, prefix + nonce.to_bytes(8))
        return build_command("CURVE", "MESSAGE", {"nonce": nonce, "box": box})

    def seal(self, content: bytes, nonce: bytes) -> bytes:
        """Make a box with k."""
        return crypto_secretbox(content, nonce, self.k)

    # -- stream octets -----------------------------------------------------------------------------------------------

    def messages(self, side: int, *bodies: bytes, in_commands: bool = False) -> bytes:
        """Return one multipart message with each frame in a MESSAGE: in a message frame as libzmq sends it, or
        `in_commands` as in the RFC."""
        flags = [MORE] * (len(bodies) - 1) + [0]
        sealed = [self.message(side, body, flag) for body, flag in zip(bodies, flags, strict=True)]
        return b"".join(build_frame(Framing.V2, body, command=in_commands) for body in sealed)

    def command(self, side: int, name: str, **fields: Any) -> bytes:
        """Return a command of traffic inside a MESSAGE, as libzmq sends it."""
        return build_frame(Framing.V2, self.message(side, build_command("CURVE", name, fields), COMMAND))

    def handshake(self, client_type: str = "DEALER", server_type: str = "ROUTER", version: str = "3.1") -> Steps:
        """Return (side, octets) of greetings and handshake, in order."""
        identity = {"identity": ""} if client_type in IDENTIFIED else {}
        steps = [
            (CLIENT, build_greeting_3("CURVE", version=version)),
            (SERVER, build_greeting_3("CURVE", version=version)),
            (CLIENT, frame(self.hello())),
            (SERVER, frame(self.welcome())),
            (CLIENT, frame(self.initiate(socket_type=client_type, **identity))),
            (SERVER, frame(self.ready(socket_type=server_type))),
        ]
        return steps

    def lines(self, *labels: str) -> str:
        """Return key log lines with these labels (curve.md 6), each without the prefix `CURVE_`."""
        lines_by_label = {
            "SHARED": (self.C_transient, self.k),
            "CLIENT_TRANSIENT": (self.C_transient, self.c_transient),
            "CLIENT_TRANSIENT with S": (self.C_transient, self.c_transient, self.S),
            "SERVER_TRANSIENT": (self.C_transient, self.s_transient),
            "SERVER_PUBLIC_TRANSIENT": (self.C_transient, self.S_transient),
            "COOKIE_KEY": (self.C_transient, self.cookie_key),
            "SERVER_LONGTERM": (self.S, self.s),
            "SERVER_PUBLIC": (self.S,),
        }
        lines = []
        for label in labels:
            fields = [key.hex() for key in lines_by_label[label]] + (["-"] if label == "SERVER_PUBLIC" else [])
            lines.append(f"CURVE_{label.removesuffix(' with S')} {' '.join(fields)}\n")
        return "".join(lines)


def _nonce(name: str, number: int) -> bytes:
    return BOXES[name].prefix + number.to_bytes(8)


def frame(body: bytes) -> bytes:
    return build_frame(Framing.V2, body, command=True)


def conversation(steps: Steps) -> Conversation:
    talk = Conversation()
    for side, octets in steps:
        talk.send(side, octets)
    return talk


def keys(folder: Path, text: str) -> Keys:
    file = folder / "test.keys"
    file.write_text(text)
    file.chmod(0o600)
    return Keys([file])
