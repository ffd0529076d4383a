"""Formats of which each frame is a whole: who claims a message by one content frame, and reads frame by frame."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, TypeVar

from zmtpscope.payloads.api import About, Claim, Json, Message, Payload, Reader, Settings
from zmtpscope.payloads.text import is_text
from zmtpscope.payloads.values import BETWEEN_FRAMES
from zmtpscope.records import to_text

_LARGEST_REMEMBERED = 1 << 16
"""Octets of a frame of which is kept from `claim` to `dissect` what was made of it; larger ones are read again."""
_LARGEST_SHOWN = 1024
"""Octets of a frame that stands in the fields as it is; of others, only the size: the record has its octets anyway."""


Known = TypeVar("Known")


class Framewise(Payload, Generic[Known]):
    """The first content frame is of the format, or a later one, if nobody claims those before it. Other frames may be
    of it too, or whatever else: whoever claims one of these reads it.

    `Known` is what recognising a frame has made of it, so that it need not be made once more.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._claimed: tuple[bytes | None, Known | None] | None = None
        """The frame that was claimed last, and what was made of it; both None of a large one. None where the user named
        the dissector."""

    @abstractmethod
    def recognise(self, octets: bytes) -> tuple[Claim, Known | None]:
        """Whether a frame is of the format, and what was made of it if so."""

    @abstractmethod
    def read_frame(self, reader: Reader, known: Known | None, values: list[Json]) -> str:
        """Read the current frame and put it into `values`; its summary. It may be none of the format (`known` is None
        then) only where it is the only one and the user said that it is."""

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
                if in_front:  # nobody claims it, else that one would have claimed the message
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
        """The first content frame that begins as one of the format, where no frame is one; None: there is none."""
        begins = self.begins or b""
        octets = begins if isinstance(begins, tuple) else tuple(bytes([each]) for each in begins)
        if any(self.recognise(each)[1] is not None for each in message.bodies):
            return None
        frames = enumerate(message.bodies, message.content)
        return next((place for place, frame in frames if frame.startswith(octets)), None)

    def _known(self, octets: bytes) -> Known | None:
        """What `recognise` makes of a frame, or has made when the message was claimed."""
        claimed = self._claimed
        if claimed is not None and claimed[0] is octets and claimed[1] is not None:
            return claimed[1]
        return self.recognise(octets)[1]


def _other_frame(reader: Reader, values: list[Json]) -> str:
    """Read the current frame by whoever claims it, else as text or octets; put it into `values`; its summary."""
    opened = reader.another()
    if opened.protocol is not None:
        values.append(opened.fields)
        return f"{opened.protocol} {opened.summary}"
    return _unclaimed_frame(reader, values)


def _unclaimed_frame(reader: Reader, values: list[Json]) -> str:
    """Read the current frame as text or octets; put it into `values`; its summary."""
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
