from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zmtpscope.option_texts import DecodeAs, ReadOptions
from zmtpscope.zmtp.socket_types import ONE_WAY

if TYPE_CHECKING:
    from zmtpscope.curve_keys import Keys
    from zmtpscope.payloads.registry import Registry

DEFAULT_BODY_LIMIT = 16 << 20
MIN_KEPT = 64 << 10
"""Octets of a message kept for dissection, regardless of the limit for bodies."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the analyser.

    - `bodies`: "full" keeps messages of at most `body_limit` octets, "head" the first `head` octets of each frame,
      "none" nothing
    - `records`: make records and message rows; otherwise messages are only counted in the summary
    - `only_calls`: leave out the payloads of messages that cannot be calls
    - `frames`: also make frame records
    - `details`: keep the octets of greetings and commands, for field trees
    - `index`: return where stream octets are in files, to make field trees later
    """

    bodies: str = "full"
    body_limit: int = DEFAULT_BODY_LIMIT
    head: int = 0
    records: bool = True
    only_calls: bool = False
    frames: bool = False
    details: bool = False
    index: bool = False
    decode_as: tuple[DecodeAs, ...] = ()
    show_secrets: bool = False
    keys: Keys | None = None
    payloads: Registry | None = None
    """Payload dissectors; None to disable."""

    @classmethod
    def of(
        cls, given: ReadOptions, payload_files: Mapping[str, Mapping[str, bytes]] | None = None, **more: Any
    ) -> Options:
        """Return the options for a user's options `given`, and further ones.

        `payload_files` are file contents by dissector and file name.
        """
        from zmtpscope.payloads.registry import Registry  # searches for installed dissectors

        own = given._asdict()
        body, payload = own.pop("body"), own.pop("payload")
        payloads = None if payload == "off" else Registry(None if payload == "auto" else payload, payload_files)
        return cls(**body.options(), **own, payloads=payloads, **more)

    @property
    def kept_limit(self) -> int:
        """Octets of a message that are kept until the message is complete.

        It is not 0 if bodies are not requested, because dissectors and the search for passwords need them.
        """
        return self.body_limit if self.payloads is None else max(self.body_limit, MIN_KEPT)

    def reads_payloads(self, socket_type: str | None) -> bool:
        """Whether the payloads of senders with this socket type are requested, and not only findings about them."""
        return self.records and not (self.only_calls and socket_type in ONE_WAY)

    @property
    def keeps_bodies(self) -> bool:
        """Whether any part of the analyser needs bodies."""
        return self.payloads is not None or (self.records and self.bodies != "none")
