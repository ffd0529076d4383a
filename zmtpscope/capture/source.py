"""Where captured octets come from: files and pipes, read in blocks and never sought in."""

from __future__ import annotations

import gzip
import sys
from typing import BinaryIO, cast


class Source:
    """A stream of octets that is read once, from the front."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.ahead = b""

    def read(self, size: int) -> bytes:
        """At most `size` octets and at least one, empty at the end."""
        if self.ahead:
            octets, self.ahead = self.ahead, b""
            return octets
        return self.stream.read(size)

    def read_at_least(self, least: int, size: int) -> bytes:
        """At least `least` octets where the source has them."""
        octets = self.read(size)
        while len(octets) < least:
            more = self.read(size)
            if not more:
                break
            octets += more
        return octets

    def close(self) -> None:
        self.stream.close()


def open_source(path: str) -> Source:
    """Thin: a file or "-"."""
    if path == "-":
        return Source(sys.stdin.buffer)
    stream = cast(BinaryIO, open(path, "rb", buffering=0))
    head = stream.read(2)
    stream.seek(0)
    if head == b"\x1f\x8b":
        return Source(cast(BinaryIO, gzip.GzipFile(fileobj=stream)))
    return Source(stream)
