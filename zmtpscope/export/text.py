"""One line for each record, for people: packet, time, who to whom, what.

Socket types and identities stand beside the addresses from the record on that tells them. Nothing in a line is exact
beyond its first characters: `-V`, `-x` and JSON lines are.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from zmtpscope.capture.segments import FILE_SHIFT, PACKET_MASK
from zmtpscope.dissect import Batch, FrameRun, MessageRun, Options, Record
from zmtpscope.dissect.batch import Run, Stream
from zmtpscope.dissect.details import details
from zmtpscope.dissect.rows import PUBLISHERS, envelope_length, kind_of
from zmtpscope.export.clock import Clock
from zmtpscope.export.describe import DESCRIBE, closing_hint, endpoint
from zmtpscope.export.details import hex_lines, tree_lines
from zmtpscope.export.preview import parts_preview, quoted
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.values import record_values
from zmtpscope.findings import FINDINGS
from zmtpscope.records import COMMON, STREAM, to_text

Paint = Callable[[str, str], str]
"""(style, text) to text: a style is a key of `STYLES`."""

STYLES = {
    "dim": "dim",
    "side 0": "cyan",
    "side 1": "magenta",
    "greeting": "bold",
    "command": "bold",
    "connection": "dim",
    "gap": "bold yellow",
    "error": "bold red",
    "warn": "yellow",
    "note": "blue",
    "chat": "dim",
}

NARROWEST, WIDEST = 21, 48
"""Columns of an endpoint: they grow with what stands in them; what is wider than this moves its own line only."""

PREVIEW = 80
"""Characters of message bodies in a line where no terminal tells how many fit."""

LEAST_PREVIEW = 24
MOST_SIZES = 5
"""So many frames have their sizes in the line."""

LOSS = "ZMTP-CONN-05"
"""Stands beside every gap."""

HABITS = frozenset({"CURVE-10", "CURVE-11", "ZMTP31-PING-05"})
"""Notes on what libzmq always does."""

GROUPS = ("RADIO", *PUBLISHERS)
"""Socket types whose first frame is a topic or group."""


def plain(style: str, text: str) -> str:
    """No colour."""
    return text


@dataclass
class Look:
    """How the lines look. `width` is that of the terminal, if there is one."""

    clock: Clock
    paint: Paint = plain
    width: int | None = None
    chat: bool = False
    """Whether findings are shown that are normal events or habits."""
    tree: bool = False
    hex: bool = False


@dataclass
class End:
    """One side of a connection, as far as it is known."""

    address: str
    socket_type: str | None = None
    identity: str | None = None
    last_said: str | None = None
    """GREETING, or the name of its last command."""

    def __str__(self) -> str:
        words = [self.address]
        if self.socket_type:
            words.append(safe_text(self.socket_type[:20]))
        if self.identity:
            words.append(quoted(self.identity, 20))
        return " ".join(words)


class TextLines:
    """Makes the lines of a run. Remembers who is who on every connection that has not ended."""

    def __init__(self, look: Look, options: Options) -> None:
        self.look = look
        self.options = options
        self.ends: dict[int, tuple[End, End]] = {}
        self.end_width = NARROWEST
        self.packet_width = 6
        self.hints: set[str] = set()
        """Hints that were told; a run tells each once."""
        self.gap: tuple[int, int, int] | None = None
        """The place of the last gap."""

    def lines(self, batch: Batch) -> Iterator[str]:
        """The lines of the records of a batch, in order, each with its newline."""
        for item, index in batch.in_order():
            line = self._record(item, batch) if isinstance(item, Record) else self._row(item, index, batch)
            if line is None:
                continue
            yield line + "\n"
            if self.look.tree or self.look.hex:
                yield from self._details(item, index, batch)

    def _record(self, record: Record, batch: Batch) -> str | None:
        values = record_values(record, -1, batch.files, self.options)
        kind = values["record"]
        ends = self._learn(values)
        if kind == "finding" and self._left_out(values):
            return None
        if kind == "gap":
            self.gap = _place(values)
        if kind == "connection":
            packet, time = "", values["end_ns"]
        else:
            packet, time = self._packet(values["file"], values["packet"], batch.files), values["ts_ns"]
        style = values["severity"] if kind == "finding" else kind
        what = self.look.paint(style, DESCRIBE[kind](values))
        hint = self._hint(values)
        if hint is not None and hint not in self.hints:
            self.hints.add(hint)
            what += f" -> {hint}"
        if kind == "connection":
            del self.ends[values["conn"]]
        return self._prefix(packet, time, ends, values["side"])[0] + what

    def _left_out(self, values: dict[str, Any]) -> bool:
        """Whether a finding is of no news: normal, a habit, or what the line of a gap has just said."""
        if values["id"] == LOSS:
            return _place(values) == self.gap
        return not self.look.chat and (values["severity"] == "chat" or values["id"] in HABITS)

    def _hint(self, values: dict[str, Any]) -> str | None:
        """What to do about it; told once in a run."""
        kind = values["record"]
        if kind == "connection":
            one, other = self.ends[values["conn"]]
            return closing_hint(values, (one.last_said, other.last_said))
        if kind == "gap":
            return FINDINGS[LOSS].hint
        hint: str | None = values["hint"] if kind == "finding" else None
        return hint

    def _row(self, run: MessageRun | FrameRun, index: int, batch: Batch) -> str:
        stream = run.stream
        reference = int(run.packets[index])
        packet = self._packet(batch.files[reference >> FILE_SHIFT], reference & PACKET_MASK, batch.files)
        prefix, used = self._prefix(packet, int(run.times[index]), self._ends_of(stream), stream.side)
        doubt = "" if run.confidence == "proven" else f" ({run.confidence})"
        if isinstance(run, FrameRun):
            flags = int(run.flags[index]) & 0xFF
            size = int(run.sizes[index])
            what = f"frame{doubt} {size} octets{' MORE' if flags & 1 else ''} flags {flags:02x}"
            return f"{prefix}  {what}  {self._bodies(run, index, index, used + len(what) + 4)}".rstrip()
        return prefix + self._message(run, index, doubt, used)

    def _message(self, run: MessageRun, index: int, doubt: str, used: int) -> str:
        first, last = int(run.first[index]), int(run.last[index])
        kind = kind_of(run, index)
        if not run.complete[index]:
            doubt += " incomplete"
        if kind in ("subscribe", "cancel"):
            topic = quoted(to_text((run.head(first, 256) or b"")[1:]))
            return self.look.paint("command", f"{kind.upper()} {topic}") + f" (message){doubt}"
        sizes = run.sizes[first : last + 1].tolist()
        if kind == "encrypted":
            return f"message{doubt} encrypted, {sum(sizes)} octets"
        if len(sizes) == 1:
            what = f"message{doubt} {sizes[0]} octets"
        elif len(sizes) <= MOST_SIZES:
            what = f"message{doubt} {len(sizes)} parts {'+'.join(map(str, sizes))} octets"
        else:
            what = f"message{doubt} {len(sizes)} parts {sum(sizes)} octets"
        envelope = envelope_length(run, first, last)
        if envelope is not None:
            for frame in range(first, first + envelope - 1):
                what += f" via {quoted(to_text(run.head(frame, 64) or b''), 20)}"
            first += envelope
        elif run.socket_type in GROUPS:
            what += f" {quoted(to_text(run.head(first, 256) or b''))}"
            first += 1
        return f"{what}  {self._bodies(run, first, last, used + len(what) + 2)}".rstrip()

    def _bodies(self, run: Run, first: int, last: int, used: int) -> str:
        """A preview of the frames `first..last` that fits behind `used` characters."""
        if self.options.bodies == "none" or first > last:
            return ""
        limit = PREVIEW if self.look.width is None else max(LEAST_PREVIEW, self.look.width - used)
        frames = [
            (run.head(frame, 4 * limit), int(run.sizes[frame])) for frame in range(first, min(last, first + limit) + 1)
        ]
        return parts_preview(frames, limit)

    def _details(self, item: Record | MessageRun | FrameRun, index: int, batch: Batch) -> Iterator[str]:
        found = details(item, index)
        secrets = self.options.show_secrets
        for detail in found:
            if self.look.tree:
                for line in tree_lines(detail, secrets):
                    yield line + "\n"
            if self.look.hex:
                for line in hex_lines(detail, secrets):
                    yield self.look.paint("dim", line) + "\n"
        if isinstance(item, Record) and not found and self.look.tree:
            for name, value in _own(record_values(item, index, batch.files, self.options)):
                yield f"    {name:<20} {value}\n"

    # -- the columns in front ----------------------------------------------------------------------------------------

    def _packet(self, file: str | None, packet: int, files: Sequence[str | None]) -> str:
        return f"{packet}" if len(files) == 1 else f"{safe_text(os.path.basename(file or '-'))}:{packet}"

    def _prefix(self, packet: str, time: int, ends: tuple[str, str], side: int | None) -> tuple[str, int]:
        """Packet, time and who to whom; with the number of characters that it takes."""
        source, target = ends
        self.packet_width = max(self.packet_width, len(packet))
        self.end_width = min(WIDEST, max(self.end_width, len(source), len(target)))
        front = f"{packet:>{self.packet_width}} {self.look.clock(time)}  "
        width = self.end_width
        paint = self.look.paint
        who = f"{paint('dim' if side is None else f'side {side}', source.ljust(width))} > {target.ljust(width)}"
        return f"{paint('dim', front)}{who}  ", len(front) + max(width, len(source)) + max(width, len(target)) + 5

    def _ends_of(self, stream: Stream) -> tuple[str, str]:
        both = self.ends.get(stream.conn)
        if both is None:
            source, target = (
                End(endpoint(stream.src_ip, stream.src_port)),
                End(endpoint(stream.dst_ip, stream.dst_port)),
            )
            both = self.ends[stream.conn] = (target, source) if stream.side == 1 else (source, target)
        return _facing(both, stream.side)

    def _learn(self, values: dict[str, Any]) -> tuple[str, str]:
        """Who to whom, with what this record tells of its sender."""
        stream = Stream(
            *(values[name] for name in ("conn", "conn_id", "side", "src_ip", "src_port", "dst_ip", "dst_port"))
        )
        self._ends_of(stream)
        both = self.ends[stream.conn]
        if values["record"] in ("greeting", "command") and stream.side is not None:
            end = both[stream.side]
            end.last_said = values["name"] if values["record"] == "command" else "GREETING"
            end.socket_type = values["socket_type"] or end.socket_type
            end.identity = values["identity"] or end.identity
        return _facing(both, stream.side)


def _facing(both: tuple[End, End], side: int | None) -> tuple[str, str]:
    source, target = both
    return (str(target), str(source)) if side == 1 else (str(source), str(target))


def _place(values: dict[str, Any]) -> tuple[int, int, int]:
    return values["conn"], values["side"], values["offset"]


IN_THE_LINE = ("id", "severity", "text", "hint", "count", "last_packet")


def _own(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What a record says beyond its line, for records that stand for no octets."""
    front = {field.name for field in (*COMMON, *STREAM)}.union(IN_THE_LINE)
    for name, value in values.items():
        if name not in front and value is not None and value != []:
            yield name, safe_text(str(value))
