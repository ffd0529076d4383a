from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from zmtpscope.dissect import Options
from zmtpscope.dissect.records.message_columns import KINDS, MessageColumns, is_enveloped
from zmtpscope.dissect.records.row_columns import RowColumns
from zmtpscope.dissect.records.tables import Sender
from zmtpscope.export.preview import OCTETS, parts_preview, preview, quoted
from zmtpscope.export.safe_text import safe_text
from zmtpscope.payloads.dissected import Dissected
from zmtpscope.payloads.dissectors import TEXT
from zmtpscope.records import to_text
from zmtpscope.words import counted, cut
from zmtpscope.zmtp.events import SPECIAL
from zmtpscope.zmtp.framing import MORE
from zmtpscope.zmtp.mechanisms.curve import SMALLEST_MESSAGE

PREVIEW = 80
"""Characters of bodies in a line without a terminal width."""

MIN_PREVIEW = 12
MAX_SIZES = 5
"""Frames whose sizes are in a line."""

MAX_ADDRESSES = 5
"""Addresses of an envelope in a line. Each is one hop, and few networks have more."""

LONGEST_TOPIC, LONGEST_ADDRESS = 40, 20

TOPIC = 256

NOT_SHOWN = ("", TEXT)
"""Dissectors whose result is not shown: text, and failed ones (""). The octets are shown instead."""


class _Lists(NamedTuple):
    """Columns of a batch as lists, which are faster for single rows.

    The first four have a value for each frame, the others for each row.
    """

    bodies: list[int]
    sizes: list[int]
    flags: list[int]
    senders: list[int]
    first: list[int]
    last: list[int]
    complete: list[bool]
    content: list[int]


class RowWords:
    """Describes messages or frames in words. `width` is the terminal width, or None."""

    def __init__(self, columns: RowColumns[Any], options: Options, width: int | None) -> None:
        self.columns = columns
        self.options = options
        self.width = width
        self.messages = columns if isinstance(columns, MessageColumns) else None
        """The columns if rows are messages."""
        self.compiled: object = None
        """State of the compiled `lines_of`."""

    @cached_property
    def _lists(self) -> _Lists:
        columns, messages = self.columns, self.messages
        complete = np.ones(len(columns), np.bool_) if messages is None else messages.complete
        content = columns.first if messages is None else messages.content
        frames = columns.bodies, columns.sizes, columns.flags, columns.frame_senders
        rows = columns.first, columns.last, complete, content
        return _Lists(*(column.tolist() for column in (*frames, *rows)))

    @cached_property
    def sender_of(self) -> list[int]:
        senders: list[int] = self.columns.sender_of.tolist()
        return senders

    def sender(self, row: int) -> Sender:
        return self.columns.senders[self.sender_of[row]]

    def packet_and_time(self, row: int) -> tuple[int, int]:
        return int(self.columns.packets[row]), int(self.columns.times[row])

    def octets(self, index: int) -> int:
        lists = self._lists
        return sum(lists.sizes[lists.first[index] : lists.last[index] + 1])

    def describe(self, index: int, used: int) -> str:
        """Describe the message or frame with this index; `used` is the number of characters already in its line."""
        lists = self._lists
        if self.messages is None:
            frame = lists.first[index]
            flags = lists.flags[frame] & 0xFF
            more = " MORE" if flags & MORE else ""
            what = f"  frame{doubt(self.sender(index))} {counted(lists.sizes[frame], 'octet')}{more} flags {flags:02x}"
            return what + self._bodies(frame, frame, used + len(what))
        what = self.named(index)
        return what if lists.flags[lists.first[index]] & SPECIAL else what + self._carried(index, used + len(what))

    def named(self, index: int) -> str:
        """Describe the message with this index without its contents: kind and size, and its topic or addresses."""
        lists = self._lists
        first, last = lists.first[index], lists.last[index]
        sender = self.sender(index)
        worth = doubt(sender) + ("" if lists.complete[index] else " incomplete")
        if lists.flags[first] & SPECIAL:
            return self._special(index, worth)
        if first == last:
            what = f"{noun(sender)}{worth} {counted(lists.sizes[first], 'octet')}"
        else:
            sizes = lists.sizes[first : last + 1]
            many = len(sizes) > MAX_SIZES
            shown = f"{len(sizes)} parts {sum(sizes)}" if many else "+".join(map(str, sizes))
            what = f"{noun(sender)}{worth} {shown} octets"
        content = lists.content[index]
        if first < content and is_enveloped(sender):
            addresses = content - 1 - first
            for frame in range(first, first + min(addresses, MAX_ADDRESSES)):
                what += f" via {self._name(frame, LONGEST_ADDRESS)}"
            if addresses > MAX_ADDRESSES:
                what += f" and {addresses - MAX_ADDRESSES} more"
        elif first < content:
            what += f" {self._name(first, LONGEST_TOPIC)}"
        return what

    def content(self, index: int) -> str:
        """Describe the contents of the message with this index, without sizes, topic and addresses."""
        if self._lists.flags[self._lists.first[index]] & SPECIAL:
            return self._special(index, "")
        return self._carried(index, 0).lstrip(" ")

    def _carried(self, index: int, used: int) -> str:
        """Return the summary of a message's payload, or the start of its frames.

        `used` is the number of characters already in its line.
        """
        made = None if self.messages is None else self.messages.made.of(index)
        if made is not None and made.protocol not in NOT_SHOWN:
            return inside(made, self._room(used))
        return self._bodies(self._lists.content[index], self._lists.last[index], used)

    def _room(self, used: int) -> int:
        return room(self.width, used)

    def _special(self, index: int, worth: str) -> str:
        sizes, first, sender = self._lists.sizes, self._lists.first[index], self.sender(index)
        kind = KINDS[self._lists.flags[first] & SPECIAL]
        if kind == "encrypted":
            inside = sizes[first] - SMALLEST_MESSAGE if sender.regime.mechanism == "CURVE" else -1
            size = f"{counted(inside, 'octet')} inside" if inside >= 0 else counted(sizes[first], "octet")
            return f"message{worth} encrypted, {size}"
        topic = to_text((self._head(first, TOPIC) or b"")[1:])
        everything = " (everything)" if sizes[first] == 1 else ""
        return f"{kind.upper()} {quoted(topic)}{everything} ({noun(sender)}){worth}"

    def _limit(self, used: int) -> int:
        return limit_of_bodies(self.options, self._room(used))

    def _bodies(self, first: int, last: int, used: int) -> str:
        limit = self._limit(used)
        if not limit or first > last:
            return ""
        if first == last:
            return f"  {self._beginning(first, limit)}"
        frames = range(first, min(last, first + limit) + 1)
        sizes, octets = self._lists.sizes, OCTETS * limit
        return f"  {parts_preview([(self._head(frame, octets), sizes[frame]) for frame in frames], limit)}"

    def _beginning(self, frame: int, limit: int) -> str:
        return preview(self._head(frame, OCTETS * limit), self._lists.sizes[frame], limit)

    def _name(self, frame: int, limit: int) -> str:
        octets = self._head(frame, TOPIC)
        return "not kept" if octets is None else name_of(octets, limit)

    def _head(self, frame: int, limit: int) -> bytes | None:
        lists = self._lists
        sender = self.columns.senders[lists.senders[frame]]
        return sender.head(lists.bodies[frame], lists.sizes[frame], limit)


def noun(sender: Sender) -> str:
    return "decrypted message" if sender.regime.opened else "message"


def doubt(sender: Sender) -> str:
    return "" if sender.confidence == "proven" else f" ({sender.confidence})"


def room(width: int | None, used: int) -> int:
    """Return how many characters are left in a line of `width` characters after `used` ones."""
    return PREVIEW if width is None else max(MIN_PREVIEW, width - used - 2)


def limit_of_bodies(options: Options, room: int) -> int:
    return room if options.bodies == "full" else options.head if options.bodies == "head" else 0


def inside(made: Dissected, room: int) -> str:
    """Return the summary of a payload, truncated to `room` characters."""
    summary = made.summary[: room + 1]  # the rest would be cut off
    return f"  {cut(f'{made.protocol} {safe_text(summary)}', room)}"


@lru_cache(maxsize=1024)
def name_of(octets: bytes, limit: int) -> str:
    """Quote a topic, group or address, shortened to about `limit` characters. Cached, since few names repeat often."""
    return quoted(to_text(octets), limit)
