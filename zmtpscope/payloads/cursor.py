from __future__ import annotations

from collections.abc import Sequence


class Malformed(Exception):
    """The payload does not have the expected format. The text is the reason; the reader's position is the place."""


class EndOfFrame(Malformed):
    """A read reached the end of its frame."""


class FrameCursor:
    """A read position in the frames of one message.

    `position` and `left` count octets of the current frame. `offsets` are stream offsets of frame bodies.
    """

    def __init__(self, frames: Sequence[bytes], offsets: Sequence[int], first: int) -> None:
        self.frames = frames
        self.offsets = offsets
        self.go_to(first)

    def go_to(self, frame: int) -> None:
        """Move to the start of a frame; a missing frame is empty."""
        is_there = 0 <= frame < len(self.frames)
        self.frame = frame if is_there else len(self.frames)
        self.data = self.frames[frame] if is_there else b""
        self.stop = len(self.data)
        self.position = 0

    def next_frame(self) -> bool:
        """Move to the next frame; return whether there is one."""
        if self.frame + 1 >= len(self.frames):
            return False
        self.go_to(self.frame + 1)
        return True

    @property
    def left(self) -> int:
        return self.stop - self.position

    @property
    def offset(self) -> int:
        if self.frame == len(self.frames):
            return self.offsets[-1] + len(self.frames[-1])
        return self.offsets[self.frame] + self.position

    def outer_span(self) -> tuple[int, int]:
        """Return stream offset and length of the current frame."""
        return (self.offsets[self.frame] if self.frame < len(self.offsets) else self.offsets[-1]), self.stop
