from __future__ import annotations

from typing import NamedTuple

STDIN_NAME = "standard input"


class CaptureError(Exception):
    """A file cannot be read as a capture at all. `str()` is one line: file, problem and remedy."""

    def __init__(self, path: str | None, message: str, *, offset: int | None = None, hint: str | None = None) -> None:
        self.path = path
        self.offset = offset
        self.message = message
        self.hint = hint
        where = STDIN_NAME if path is None else path or "''"
        if offset is not None:
            where += f", octet {offset}"
        super().__init__(f"{where}: {message}" + (f"; {hint}" if hint else ""))


class CaptureProblem(NamedTuple):
    """A capture file is damaged or truncated; everything before the damage was read.

    `packet` is the number of the last good packet (0: none), `offset` the octet of the (decompressed) file at which the
    damaged record starts.
    """

    file: str | None
    packet: int
    offset: int
    text: str

    def __str__(self) -> str:
        name = STDIN_NAME if self.file is None else self.file
        where = f"after packet {self.packet}" if self.packet else "before the first packet"
        return f"{name}: {self.text} ({where}, octet {self.offset}); everything before it was read"


TOO_MANY_RECORDS = "it expands far more than captured traffic does; decompress it first to read all of it"


class Damage(Exception):
    """The capture file is damaged at this octet. `Captures` converts this exception into a `CaptureProblem`."""

    def __init__(self, packet: int, offset: int, text: str) -> None:
        super().__init__(text)
        self.packet = packet
        self.offset = offset
        self.text = text


class CutShort(Damage):
    """The file ends inside a record."""


class Undecodable(Exception):
    """A packet that is neither TCP nor UDP, or has invalid headers; `str()` is the reason in statistics."""
