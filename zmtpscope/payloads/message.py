"""One message as dissectors see it: its frames, who sends it, what the user said, and what a dissector says to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple


class Claim(IntEnum):
    """Whether a message belongs to a dissector. YES is for what nothing else looks like, MAYBE for what fits."""

    NO = 0
    MAYBE = 1
    YES = 2


class About(NamedTuple):
    """The side that sends, and what is known of it and its peer; None is unknown."""

    conn: int
    side: int
    version: str | None
    mechanism: str | None
    socket_type: str | None
    peer_socket_type: str | None
    identity: bytes | None
    src_port: int
    dst_port: int


class Message(NamedTuple):
    """One message: the octets of all of its frames, and which of them is the first behind envelope, topic or group.

    `topic` are the octets of the first frame of what a publisher sends in several frames (of RADIO: the group).
    `after_loss`: between the message before it and this one there may be others that the capture does not have.
    """

    frames: Sequence[bytes]
    content: int
    topic: bytes | None
    after_loss: bool = False

    @property
    def bodies(self) -> Sequence[bytes]:
        """The frames from the first content frame on."""
        return self.frames[self.content :]


class Settings(NamedTuple):
    """What the user gave a dissector: `argument` of `-d SELECTOR,zmtp:NAME/ARGUMENT`, and the octets of the files of
    `--payload-file NAME=FILE`, by file name."""

    argument: str | None = None
    files: Mapping[str, bytes] = {}
