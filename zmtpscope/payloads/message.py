from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple


class Claim(IntEnum):
    """YES: no other format looks like it; MAYBE: it fits the format."""

    NO = 0
    MAYBE = 1
    YES = 2


class About(NamedTuple):
    """Facts about the sending side and its peer; None: unknown."""

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
    """One message: all frames, and the index of the first one after envelope, topic or group.

    `topic` is the first frame of a publisher's multipart message (of RADIO: the group). `after_loss`: the capture may
    lack messages before this one.
    """

    frames: Sequence[bytes]
    content: int
    topic: bytes | None
    after_loss: bool = False

    @property
    def bodies(self) -> Sequence[bytes]:
        """Return the bodies from the first content frame on."""
        return self.frames[self.content :]


class Settings(NamedTuple):
    """`argument` of `-d SELECTOR,zmtp:NAME/ARGUMENT`, and the files of `--payload-file NAME=FILE`, by file name."""

    argument: str | None = None
    files: Mapping[str, bytes] = {}
