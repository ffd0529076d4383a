"""Where a reader stands in the frames of one message."""

from __future__ import annotations

from collections.abc import Sequence


class Malformed(Exception):
    """What was read is not what the dissector takes it for; the text says why, the place is where the reader stands."""


class EndOfFrame(Malformed):
    """A read met the end of its frame."""


class FrameCursor:
    """A place in the frames of one message. `position` and `left` count octets of the current frame; one that is not
    there is empty. `offsets` are the places of the frames' bodies in their stream."""

    def __init__(self, frames: Sequence[bytes], offsets: Sequence[int], first: int) -> None:
        self.frames = frames
        self.offsets = offsets
        self.go_to(first)

    def go_to(self, frame: int) -> None:
        """Stand at the first octet of the frame with that index in the message; one that is not there is empty."""
        is_there = 0 <= frame < len(self.frames)
        self.frame = frame if is_there else len(self.frames)
        self.data = self.frames[frame] if is_there else b""
        self.stop = len(self.data)
        self.position = 0

    def next_frame(self) -> bool:
        """Go on with the next frame; whether there is one."""
        if self.frame + 1 >= len(self.frames):
            return False
        self.go_to(self.frame + 1)
        return True

    @property
    def left(self) -> int:
        """Octets of the current frame that were not read yet."""
        return self.stop - self.position

    @property
    def offset(self) -> int:
        """The next octet's place in the stream."""
        if self.frame == len(self.frames):
            return self.offsets[-1] + len(self.frames[-1])
        return self.offsets[self.frame] + self.position

    def outer_span(self) -> tuple[int, int]:
        """The place of the current frame in its stream, for findings about what has no octets there."""
        return (self.offsets[self.frame] if self.frame < len(self.offsets) else self.offsets[-1]), self.stop
