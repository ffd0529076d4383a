from __future__ import annotations

from abc import abstractmethod
from typing import Generic, TypeVar

from zmtpscope.payloads.api import About, Claim, Json, Message, Payload, Reader, Settings
from zmtpscope.payloads.text import is_text
from zmtpscope.payloads.values import BETWEEN_FRAMES
from zmtpscope.records import to_text

_LARGEST_REMEMBERED = 1 << 16
"""Octets of a frame whose parsed form is kept from `claim` to `dissect`. Larger ones are parsed twice."""
_LARGEST_SHOWN = 1024
"""Octets of an unclaimed frame shown in the fields. Of a larger one they contain only the size."""


Known = TypeVar("Known")


class Framewise(Payload, Generic[Known]):
    """Base of dissectors that claim a message by one complete frame.

    It is the first content frame, or a later one if no dissector claims earlier ones. Other frames are read by the
    dissectors that claim them. `Known` is the parsed form of a frame, so that it is not parsed twice.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._claimed: tuple[bytes | None, Known | None] | None = None
        """The last claimed frame and its parsed form, both None for a large frame. None without a `claim`: the user
        selected the dissector."""

    @abstractmethod
    def recognise(self, octets: bytes) -> tuple[Claim, Known | None]:
        """Return whether the dissector claims a frame, and the parsed form of the frame if it has the format."""

    @abstractmethod
    def read_frame(self, reader: Reader, known: Known | None, values: list[Json]) -> str:
        """Read the current frame: append its value to `values`, return its summary.

        `known` is the parsed form. It is None only for a frame without the format: the single frame of a message, or a
        message that the user assigned.
        """

    def claim(self, message: Message, about: About) -> Claim:
        first = message.bodies[0]
        claim, known = self.recognise(first)
        self._claimed = (first, known) if len(first) <= _LARGEST_REMEMBERED else (None, None)
        return claim

    def dissect(self, message: Message, reader: Reader) -> str:
        count = len(message.bodies)
        values: list[Json] = []
        summaries: list[str] = []
        claimed = self._claimed
        named = self._first_that_begins(message) if claimed is None and count > 1 else None
        in_front = claimed is not None and any(frame is claimed[0] for frame in message.bodies)
        try:
            while True:
                if claimed is not None and reader.data is claimed[0]:
                    in_front = False
                if in_front:  # no dissector claims it: otherwise that one would have the message
                    summaries.append(_unclaimed_frame(reader, values))
                else:
                    known = self._known(reader.data)
                    other = known is None and count > 1 and reader.frame != named
                    summaries.append(_other_frame(reader, values) if other else self.read_frame(reader, known, values))
                if not reader.next_frame():
                    return BETWEEN_FRAMES.join(summaries)
        finally:
            self._claimed = None
            reader.fields = values if count > 1 else values[0] if values else None

    def _first_that_begins(self, message: Message) -> int | None:
        """Return the index of the first content frame that starts like the format.

        None if no frame does, or if any frame has the format.
        """
        begins = self.begins or b""
        octets = begins if isinstance(begins, tuple) else tuple(bytes([each]) for each in begins)
        if any(self.recognise(each)[1] is not None for each in message.bodies):
            return None
        frames = enumerate(message.bodies, message.content)
        return next((place for place, frame in frames if frame.startswith(octets)), None)

    def _known(self, octets: bytes) -> Known | None:
        claimed = self._claimed
        if claimed is not None and claimed[0] is octets and claimed[1] is not None:
            return claimed[1]
        return self.recognise(octets)[1]


def _other_frame(reader: Reader, values: list[Json]) -> str:
    """Read the current frame with the dissector that claims it, otherwise as text or octets.

    Appends its value to `values`; returns its summary.
    """
    opened = reader.another()
    if opened.protocol is not None:
        values.append(opened.fields)
        return f"{opened.protocol} {opened.summary}"
    return _unclaimed_frame(reader, values)


def _unclaimed_frame(reader: Reader, values: list[Json]) -> str:
    octets = reader.data
    readable = is_text(octets)
    if readable:
        reader.text("text", hidden=True)
    else:
        reader.octets("octets", hidden=True)
    if len(octets) > _LARGEST_SHOWN:
        values.append({"octets": len(octets)})
    else:
        values.append(to_text(octets) if readable else octets)
    return octets[:_LARGEST_SHOWN].decode("utf-8", "ignore") if readable else f"{len(octets)} octets"
