"""The API for payload dissectors (docs/payload-dissectors.md).

A dissector is a subclass of `Payload`, named by an entry point of the group `zmtpscope.payloads`. Its `claim` decides
whether a message has its format; its `dissect` reads the message. Each named read of the `Reader` adds a field to the
record and, if field trees are requested, a node with its octets.
"""

from __future__ import annotations

from typing import ClassVar

from zmtpscope.payloads.dissected import About, Claim, Message, Settings
from zmtpscope.payloads.reader import Malformed, Reader
from zmtpscope.payloads.values import Json

__all__ = ["About", "Claim", "Json", "Malformed", "Message", "Payload", "Reader", "Settings"]


class Payload:
    """Base class of dissectors. Each side of a connection has its own object, so attributes can hold state between
    messages, which arrive in stream order.

    `claim` is called only for messages that match these declarations:

    - `begins`: possible first octets of the first content frame (bytes), or its possible prefixes (tuple); None: any
    - `least_frames`: minimum number of content frames; with `looks_in_front`, frames before the content count too:
      in a message without a delimiter, an empty frame may have been taken for one
    - `socket_types`: possible socket types of the sender, with None if the type may be unknown; None: any

    `prefix` starts the names in field trees. A dissector that `judges` can report findings, so it also runs when only
    findings are wanted. A dissector that is not `automatic` is used only if the user selects it, because its format
    fits too many messages.
    """

    name: ClassVar[str]
    prefix: ClassVar[str]
    begins: ClassVar[bytes | tuple[bytes, ...] | None] = None
    least_frames: ClassVar[int] = 1
    looks_in_front: ClassVar[bool] = False
    socket_types: ClassVar[frozenset[str | None] | None] = None
    judges: ClassVar[bool] = False
    automatic: ClassVar[bool] = True

    wants_all = False
    """Set to True once it is certain that the side uses this protocol. `claim` is then called for every message."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def claim(self, message: Message, about: About) -> Claim:
        """Return whether this dissector reads the message: `Claim.NO`, `MAYBE` or `YES`.

        The call must be cheap, since most calls are for messages of other formats.
        """
        raise NotImplementedError

    def at_once(self, octets: bytes) -> tuple[str, Json] | None:
        """Return (summary, fields) if `octets` are the only content frame, or None to use `claim` and `dissect`.

        Optional, for speed: it must claim the same messages and return the same results, without findings.
        """
        return None

    def claims_at_once(self, octets: bytes) -> bool:
        """Return whether `claim` would return MAYBE if `octets` are the only content frame.

        A dissector with this method claims by these octets alone, regardless of earlier messages, and never returns YES
        if other dissectors may claim them. This saves calls whose result does not matter.
        """
        raise NotImplementedError

    def dissect(self, message: Message, reader: Reader) -> str:
        """Read a message from its first content frame on; return its summary, one line.

        A read past the end of a frame, or `Malformed`, ends the dissection; fields read before are kept.
        """
        raise NotImplementedError
