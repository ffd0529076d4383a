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
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.details import details
from zmtpscope.export.clock import Clock
from zmtpscope.export.describe import DESCRIBE, endpoint
from zmtpscope.export.details import hex_lines, tree_lines
from zmtpscope.export.fold import INDENT, fold, is_below
from zmtpscope.export.preview import quoted
from zmtpscope.export.rows import RunWords
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.values import record_values
from zmtpscope.findings import FINDINGS
from zmtpscope.records import COMMON, STREAM, from_text

Paint = Callable[[str, str], str]
"""(style, text) to text: a style is a key of `STYLES`."""

STYLES = {
    "dim": "dim",
    "side 0": "cyan",
    "side 1": "magenta",
    "greeting": "bold",
    "command": "bold",
    "connection": "bold",
    "datagram": "bold",
    "zre_pair": "bold",
    "gap": "bold yellow",
    "leftover": "yellow",
    "error": "bold red",
    "warn": "yellow",
    "note": "bright_blue",
    "chat": "dim",
}

LONGEST_TYPE, LONGEST_IDENTITY = 12, 16
ZRE_IDENTITY = 17
"""Octets of the identity of a ZRE node: 01 and its UUID."""
NARROWEST, WIDEST = 21, 48
"""Columns of an endpoint: they grow with what stands in them; what is wider than this moves its own line only."""

MOST_WHOS = 1000
"""Pairs of endpoints that are kept laid out."""

MOST_FRAMES = 1000
"""Frames of a message, with what is packed in them, that are shown field by field or in hex."""
MORE_FRAMES = f"... and more than {MOST_FRAMES:,} frames: --frames gives each a line, --json has their bodies"

MOST_BEACONS = 4096
"""Beacons that are remembered, so that a line tells only what is new."""

LOSS = "ZMTP-CONN-05"
"""Stands beside every gap."""

HABITS = frozenset({"CURVE-10", "CURVE-11", "ZMTP31-PING-05"})
"""Notes on what libzmq always does."""


def is_habitual(severity: str, id_: str) -> bool:
    """Whether a finding is a normal event, or a habit of libzmq: shown to those who ask."""
    return severity == "chat" or id_ in HABITS


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


class End:
    """One side of a connection, as far as it is known; `label` is how it is shown."""

    def __init__(self, address: str) -> None:
        self.address = self.label = address
        self.socket_type: str | None = None
        self.identity: str | None = None

    def learn(self, socket_type: str | None, identity: str | None) -> None:
        """Take in what a greeting or command tells of its sender."""
        self.socket_type = socket_type or self.socket_type
        self.identity = identity or self.identity
        words = [self.address]
        if self.socket_type:
            words.append(safe_text(self.socket_type)[:LONGEST_TYPE])
        if self.identity:
            words.append(named(self.identity))
        self.label = " ".join(words)


def named(identity: str) -> str:
    """An identity in a few characters; that of a ZRE node as people know it (zre.md 3 and 8)."""
    octets = from_text(identity)
    if len(octets) == ZRE_IDENTITY and octets[0] == 1:
        return f"ZRE {octets[1:4].hex().upper()}"
    return quoted(identity, LONGEST_IDENTITY)


class TextLines:
    """Makes the lines of a run. Remembers who is who on every connection that has not ended."""

    def __init__(self, look: Look, options: Options) -> None:
        self.look = look
        self.options = options
        self.ends: dict[int, tuple[End, End]] = {}
        self.end_width = NARROWEST
        self.whos: dict[tuple[str, str, int | None], tuple[str, int]] = {}
        """Who to whom, laid out, with the characters it takes."""
        self.packet_width = 6
        self.hints: set[str] = set()
        """Hints that were told; a run tells each once."""
        self.beacons: set[tuple[str, str]] = set()
        """What beacons have said, and from where."""
        self.gap: tuple[int, int, int] | None = None
        """The place of the last gap."""

    def lines(self, batch: Batch) -> Iterator[str]:
        """The lines of the records of a batch, in order, each with its newline."""
        runs: list[MessageRun | FrameRun] = [*batch.runs, *batch.frame_runs]
        words = {id(run): RunWords(run, self.options, self.look.width) for run in runs}
        for item, low, high in batch.stretches():
            if isinstance(item, Record):
                made = iter([self._record(item, batch)])
            else:
                made = self._rows(words[id(item)], low, high, batch.files)
            for index, line in enumerate(made, low):
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
        if kind == "datagram" and self._is_repeated(values):
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
        prefix, used = self._prefix(packet, time, ends, values["side"])
        return prefix + what if self.look.width is None else fold(prefix, used, what, self.look.width)

    def _left_out(self, values: dict[str, Any]) -> bool:
        """Whether a finding is of no news: normal, a habit, or what the line of a gap has just said."""
        if values["id"] == LOSS:
            return _place(values) == self.gap
        return not self.look.chat and is_habitual(values["severity"], values["id"])

    def _is_repeated(self, values: dict[str, Any]) -> bool:
        """Whether a beacon says what it has said before: nodes send one a second."""
        if self.look.chat or values["kind"] != "beacon":
            return False
        said = values["src_ip"], values["payload"]["summary"]
        if said in self.beacons:
            return True
        if len(self.beacons) == MOST_BEACONS:
            self.beacons.clear()
        self.beacons.add(said)
        return False

    def _hint(self, values: dict[str, Any]) -> str | None:
        """What to do about it; told once in a run."""
        kind = values["record"]
        if kind == "gap":
            return FINDINGS[LOSS].hint
        hint: str | None = values["hint"] if kind == "finding" else None
        return hint

    def _rows(self, words: RunWords, low: int, high: int, files: Sequence[str | None]) -> Iterator[str | None]:
        """The lines of the rows `low..high` (high excluded) of a run, between which nothing else is told."""
        stream, width = words.run.stream, self.look.width
        ends = self._ends_of(stream)
        reference, time, prefix, used = -1, -1, "", 0
        for index in range(low, high):
            if words.packets[index] != reference or words.times[index] != time or self.look.clock.moves:
                reference, time = words.packets[index], words.times[index]
                packet = self._packet(files[reference >> FILE_SHIFT], reference & PACKET_MASK, files)
                prefix, used = self._prefix(packet, time, ends, stream.side)
            if width is None:
                yield prefix + words.describe(index, used)
            else:
                taken = INDENT if is_below(used, width) else used
                yield fold(prefix, used, words.describe(index, taken), width)

    def _details(self, item: Record | MessageRun | FrameRun, index: int, batch: Batch) -> Iterator[str]:
        secrets = self.options.show_secrets
        shown = 0
        for shown, detail in enumerate(details(item, index), 1):
            if shown > MOST_FRAMES:
                yield f"    {MORE_FRAMES}\n"
                return
            if self.look.tree:
                for line in tree_lines(detail, secrets):
                    yield line + "\n"
            if self.look.hex:
                for line in hex_lines(detail, secrets):
                    yield self.look.paint("dim", line) + "\n"
        if isinstance(item, Record) and not shown and self.look.tree:
            for name, value in _own(record_values(item, index, batch.files, self.options)):
                yield f"    {name:<20} {value}\n"

    # -- the columns in front ----------------------------------------------------------------------------------------

    def _packet(self, file: str | None, packet: int | None, files: Sequence[str | None]) -> str:
        if packet is None:
            return ""
        return f"{packet}" if len(files) == 1 else f"{safe_text(os.path.basename(file or '-'))}:{packet}"

    def _prefix(self, packet: str, time: int, ends: tuple[str, str], side: int | None) -> tuple[str, int]:
        """Packet, time and who to whom; with the number of characters that it takes."""
        source, target = ends
        if len(packet) > self.packet_width:
            self.packet_width = len(packet)
        front = f"{packet:>{self.packet_width}} {self.look.clock(time)}  "
        width = min(WIDEST, max(self.end_width, len(source), len(target)))
        if width > self.end_width or len(self.whos) > MOST_WHOS:
            self.end_width = width
            self.whos.clear()
        who = self.whos.get((source, target, side))
        if who is None:
            if not target:
                return self.look.paint("dim", front + source.ljust(2 * width + 5)), len(front) + 2 * width + 5
            sender = self.look.paint("dim" if side is None else f"side {side}", source.ljust(width))
            who = f"{sender} > {target.ljust(width)}  ", max(width, len(source)) + max(width, len(target)) + 5
            self.whos[source, target, side] = who
        return self.look.paint("dim", front) + who[0], len(front) + who[1]

    def _ends_of(self, stream: Stream) -> tuple[str, str]:
        both = None if stream.conn is None else self.ends.get(stream.conn)
        if both is None:
            one, other = End(endpoint(stream.src_ip, stream.src_port)), End(endpoint(stream.dst_ip, stream.dst_port))
            if stream.conn is None:
                return one.label, other.label
            both = self.ends[stream.conn] = (other, one) if stream.side == 1 else (one, other)
        one, other = both
        return (other.label, one.label) if stream.side == 1 else (one.label, other.label)

    def _learn(self, values: dict[str, Any]) -> tuple[str, str]:
        """Who to whom, with what this record tells of its sender."""
        if values["src_ip"] is None:
            return "the capture", ""
        names = ("conn", "conn_id", "side", "src_ip", "src_port", "dst_ip", "dst_port")
        stream = Stream(*[values[name] for name in names])
        ends = self._ends_of(stream)
        if stream.conn is None or stream.side is None or values["record"] not in ("greeting", "command"):
            return ends
        self.ends[stream.conn][stream.side].learn(values["socket_type"], values["identity"])
        return self._ends_of(stream)


def _place(values: dict[str, Any]) -> tuple[int, int, int]:
    return values["conn"], values["side"], values["offset"]


IN_THE_LINE = ("id", "severity", "text", "hint", "count", "last_packet")


def _own(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What a record says beyond its line, for records that stand for no octets."""
    front = {field.name for field in (*COMMON, *STREAM)}.union(IN_THE_LINE)
    for name, value in values.items():
        if name not in front and value is not None and value != []:
            yield name, safe_text(str(value))
