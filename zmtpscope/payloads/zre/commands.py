"""The ZRE commands, and how their fields after the header are read (zre.md 4, 5 and 8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from zmtpscope.payloads.api import Malformed, Reader

SIGNATURE = b"\xaa\xa1"
VERSIONS = (2, 3)

SMALLEST_STRING, SMALLEST_ENTRY = 4, 5
"""Minimum octets of an entry of a list, and of a dictionary."""


class PastTheFrame(Malformed):
    """A length or count extends past the end of the frame. `start` is the stream offset of the length."""

    def __init__(self, start: int, length: int) -> None:
        super().__init__("a field or count runs past the frame")
        self.start, self.length = start, length


def string(reader: Reader, name: str, *, size: int = 1, hidden: bool = False) -> str:
    """Read a string that follows its length. The length has `size` octets.

    `hidden`: only the field tree has the string.
    """
    start = reader.offset
    if reader.left < size:
        raise PastTheFrame(start, reader.left)
    length = reader.number(f"{name}.len", size, hidden=True)
    if length > reader.left:
        raise PastTheFrame(start, size)
    return reader.text(name, length, hidden=hidden)


def number(reader: Reader, name: str, size: int, *, hidden: bool = False) -> int:
    if reader.left < size:
        raise PastTheFrame(reader.offset, reader.left)
    return reader.number(name, size, hidden=hidden)


def count(reader: Reader, name: str, size: int, smallest: int) -> int:
    """Read a number of entries, a field of `size` octets.

    Raises `PastTheFrame` if that many entries of at least `smallest` octets do not fit into the frame.
    """
    start = reader.offset
    found = number(reader, name, size, hidden=True)
    if found * smallest > reader.left:
        raise PastTheFrame(start, size)
    return found


def hello(reader: Reader) -> None:
    string(reader, "endpoint")
    groups = count(reader, "groups.count", 4, SMALLEST_STRING)
    with reader.array("groups"):
        for _ in range(groups):
            string(reader, "group", size=4)
    number(reader, "status", 1)
    string(reader, "name")
    headers = count(reader, "headers.count", 4, SMALLEST_ENTRY)
    with reader.object("headers"):
        for _ in range(headers):
            name = string(reader, "header.name", hidden=True)
            reader.give(name, string(reader, "header.value", size=4, hidden=True))


def hello_1(reader: Reader) -> None:
    """Read a HELLO of version 1: address, port, groups, status, and headers as `name=value`."""
    reader.prefix = "zre1"
    address = string(reader, "ipaddress")
    port = number(reader, "mailbox", 2)
    groups = count(reader, "groups.count", 1, 1)
    reader.prefix = "zre"
    with reader.array("groups"):
        for _ in range(groups):
            string(reader, "group")
    number(reader, "status", 1)
    reader.prefix = "zre1"
    headers = count(reader, "headers.count", 1, 1)
    with reader.object("headers"):
        for _ in range(headers):
            name, _, value = string(reader, "header", hidden=True).partition("=")
            reader.give(name, value)
    reader.prefix = "zre"
    reader.give("endpoint", f"tcp://{address}:{port}")


def group_only(reader: Reader) -> None:
    string(reader, "group")


def group_and_status(reader: Reader) -> None:
    """Read a JOIN or LEAVE: the group, and the sender's status, which counts its group changes."""
    string(reader, "group")
    number(reader, "status", 1)


def group_and(id_name: str) -> Callable[[Reader], None]:
    """Return the reader of an ELECT or LEADER: a group and a node id, which becomes the field `id_name`."""

    def read(reader: Reader) -> None:
        string(reader, "group")
        string(reader, id_name)

    return read


def nothing(reader: Reader) -> None:
    """Do nothing: the command has no fields after the header."""


class Command(NamedTuple):
    """A ZRE command. `read` reads the fields after the header.

    `content`: frames with content follow. `extension`: it is in no RFC.
    """

    name: str
    read: Callable[[Reader], None]
    content: bool = False
    extension: bool = False


COMMANDS = {
    1: Command("HELLO", hello),
    2: Command("WHISPER", nothing, content=True),
    3: Command("SHOUT", group_only, content=True),
    4: Command("JOIN", group_and_status),
    5: Command("LEAVE", group_and_status),
    6: Command("PING", nothing),
    7: Command("PING-OK", nothing),
    8: Command("ELECT", group_and("challenger_id"), extension=True),
    9: Command("LEADER", group_and("leader_id"), extension=True),
    10: Command("GOODBYE", nothing, extension=True),
}
