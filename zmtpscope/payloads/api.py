"""All that a payload dissector touches (docs/payload-dissectors.md).

A dissector is a subclass of `Payload` that an entry point of the group `zmtpscope.payloads` names. It is asked whether
a message is its own, and if so it reads it: every named read of the `Reader` is a field of the record, and, where
somebody looks, a node of the field tree with its octets.
"""

from __future__ import annotations

from typing import ClassVar

from zmtpscope.payloads.cursor import Malformed
from zmtpscope.payloads.message import About, Claim, Message, Settings
from zmtpscope.payloads.reader import Reader
from zmtpscope.payloads.values import Json

__all__ = ["About", "Claim", "Json", "Malformed", "Message", "Payload", "Reader", "Settings"]


class Payload:
    """A dissector. There is one object for each side of a connection, so attributes may remember what was said before;
    messages come in the order of the stream.

    `begins`: the first octet of the first content frame is one of these, or, of a tuple, the frame begins with one of
    these (None: whatever), and there are at least `least_frames` content frames, else `claim` is not asked. Where it
    `looks_in_front`, the frames in front of these count as well: those of messages without a delimiter, of which an
    empty frame was taken for one. `socket_types` are the types of the sockets whose messages it may claim, with None
    among them for a type that is unknown (without it: any). `prefix` stands in front of the names in field trees.
    `judges`: it may have findings, so it is also run where only findings are wanted. What is not `automatic` is asked
    only where the user names it: too much that is something else would fit.
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
    """Set when it is sure that the side speaks its protocol: from then on it is asked about every message."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def claim(self, message: Message, about: About) -> Claim:
        """Whether `message` is one of its own. Cheap: it is asked of many that are not."""
        raise NotImplementedError

    def at_once(self, octets: bytes) -> tuple[str, Json] | None:
        """Summary and fields of a message whose only content frame is `octets`, where these alone show that it is one
        of its own, and all that `claim` and `dissect` would find out. None, as for most: these are asked.

        It is a quicker way and no other: they would claim the same message and say the same of it, without a finding.
        """
        return None

    def claims_at_once(self, octets: bytes) -> bool:
        """Whether `claim` would say that such a message may be one of its own.

        Who has this claims by these octets alone, whatever came before, and is never sure of what others may claim as
        well: so it need not be asked where it does not matter.
        """
        raise NotImplementedError

    def dissect(self, message: Message, reader: Reader) -> str:
        """Read a message; what it says in one line. `reader` stands at the first content frame.

        Reading beyond the end of a frame, and raising `Malformed`, end it: what was read until then is kept.
        """
        raise NotImplementedError
