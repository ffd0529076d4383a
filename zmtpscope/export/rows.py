"""Message and frame rows in words: what, how large, and the first characters of it."""

from __future__ import annotations

from functools import lru_cache

from zmtpscope.dissect import FrameRun, MessageRun, Options
from zmtpscope.dissect.records.message_columns import KINDS, content_frames, is_enveloped
from zmtpscope.export.preview import parts_preview, preview, quoted
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.words import counted
from zmtpscope.payloads.dissected import Dissected
from zmtpscope.payloads.dissectors import TEXT
from zmtpscope.records import to_text
from zmtpscope.zmtp.events import SPECIAL
from zmtpscope.zmtp.framing import MORE
from zmtpscope.zmtp.mechanisms.curve import SMALLEST_MESSAGE

PREVIEW = 80
"""Characters of message bodies in a line where no terminal tells how many fit."""

LEAST_PREVIEW = 12
MOST_SIZES = 5
"""So many frames have their sizes in the line."""

MOST_ADDRESSES = 5
"""So many addresses of an envelope are in the line; each takes a hop, and few networks have more."""

TOPIC = 256
"""Octets of a topic that are looked at."""


class RunWords:
    """The rows of one run. `width` is that of the terminal, if there is one."""

    def __init__(self, run: MessageRun | FrameRun, options: Options, width: int | None) -> None:
        self.run = run
        self.options = options
        self.width = width
        self.message = "decrypted message" if run.regime.opened else "message"
        self.doubt = "" if run.confidence == "proven" else f" ({run.confidence})"
        self.starts: list[int] = (run.bodies - run.base).tolist()
        self.sizes: list[int] = run.sizes.tolist()
        self.flags: list[int] = run.flags.tolist()
        self.packets: list[int] = run.packets.tolist()
        self.times: list[int] = run.times.tolist()
        if isinstance(run, MessageRun):
            self.first: list[int] = run.first.tolist()
            self.last: list[int] = run.last.tolist()
            self.complete: list[bool] = run.complete.tolist()
            self.content_frames: list[int] = content_frames(run).tolist()
            self.enveloped = is_enveloped(run)

    def describe(self, index: int, used: int) -> str:
        """Row `index` in words; `used` characters stand in front of it."""
        run = self.run
        if isinstance(run, FrameRun):
            flags = self.flags[index] & 0xFF
            more = " MORE" if flags & MORE else ""
            what = f"  frame{self.doubt} {counted(self.sizes[index], 'octet')}{more} flags {flags:02x}"
            return what + self._bodies(index, index, used + len(what))
        what = self.named(index)
        return what if self.flags[self.first[index]] & SPECIAL else what + self._carried(index, used + len(what))

    def named(self, index: int) -> str:
        """Message `index` without what it carries: what and how large, and its topic or addresses."""
        first, last = self.first[index], self.last[index]
        doubt = self.doubt if self.complete[index] else f"{self.doubt} incomplete"
        if self.flags[first] & SPECIAL:
            return self._special(self.run, index, doubt)
        if first == last:
            what = f"{self.message}{doubt} {counted(self.sizes[first], 'octet')}"
        else:
            sizes = self.sizes[first : last + 1]
            many = len(sizes) > MOST_SIZES
            shown = f"{len(sizes)} parts {sum(sizes)}" if many else "+".join(map(str, sizes))
            what = f"{self.message}{doubt} {shown} octets"
        content = self.content_frames[index]
        if first < content and self.enveloped:
            addresses = content - 1 - first
            for frame in range(first, first + min(addresses, MOST_ADDRESSES)):
                what += f" via {self._name(frame, 20)}"
            if addresses > MOST_ADDRESSES:
                what += f" and {addresses - MOST_ADDRESSES} more"
        elif first < content:
            what += f" {self._name(first)}"
        return what

    def content(self, index: int) -> str:
        """What message `index` carries, without sizes, topic and addresses."""
        if self.flags[self.first[index]] & SPECIAL:
            return self._special(self.run, index, "")
        return self._carried(index, 0).lstrip(" ")

    def _carried(self, index: int, used: int) -> str:
        """What rides inside a message, or the beginning of its frames, as much as fits behind `used` characters."""
        payloads = self.run.payloads if isinstance(self.run, MessageRun) else None
        made = None if payloads is None else payloads[index]
        if made is not None and made.protocol not in ("", TEXT):
            return self._payload(made, used)
        return self._bodies(self.content_frames[index], self.last[index], used)

    def _payload(self, made: Dissected, used: int) -> str:
        """What rides inside, as much as fits behind `used` characters."""
        return f"  {_cut(f'{made.protocol} {safe_text(made.summary)}', self._room(used))}"

    def _room(self, used: int) -> int:
        return PREVIEW if self.width is None else max(LEAST_PREVIEW, self.width - used - 2)

    def _special(self, run: MessageRun | FrameRun, index: int, doubt: str) -> str:
        first = self.first[index]
        kind = KINDS[self.flags[first] & SPECIAL]
        if kind == "encrypted":
            inside = self.sizes[first] - SMALLEST_MESSAGE if run.regime.mechanism == "CURVE" else -1
            size = f"{counted(inside, 'octet')} inside" if inside >= 0 else counted(self.sizes[first], "octet")
            return f"message{doubt} encrypted, {size}"
        topic = to_text((self._head(first, TOPIC) or b"")[1:])
        everything = " (everything)" if self.sizes[first] == 1 else ""
        return f"{kind.upper()} {quoted(topic)}{everything} ({self.message}){doubt}"

    def _bodies(self, first: int, last: int, used: int) -> str:
        """The beginning of the frames `first..last`, as much as fits behind `used` characters."""
        limit = self._room(used)
        if self.options.bodies != "full":
            limit = self.options.head if self.options.bodies == "head" else 0
        if not limit or first > last:
            return ""
        if first == last:
            octets = self._head(first, 4 * limit)
            return "  not kept" if octets is None else f"  {preview(octets, self.sizes[first], limit)}"
        frames = range(first, min(last, first + limit) + 1)
        return f"  {parts_preview([(self._head(frame, 4 * limit), self.sizes[frame]) for frame in frames], limit)}"

    def _name(self, frame: int, limit: int = 40) -> str:
        """A topic, group or address, as much as fits into so many characters."""
        octets = self._head(frame, TOPIC)
        return "not kept" if octets is None else _quoted(octets, limit)

    def _head(self, frame: int, limit: int) -> bytes | None:
        start, size, data = self.starts[frame], self.sizes[frame], self.run.data
        if start < 0 or (size and start >= len(data)):
            return None
        return data[start : start + min(size, limit)]


@lru_cache(maxsize=1024)
def _quoted(octets: bytes, limit: int) -> str:
    """A topic, group or address in quotes; the same few come again and again."""
    return quoted(to_text(octets), limit)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
