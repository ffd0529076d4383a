"""Print a conversation with full bodies and numbered frames. Messages of side 0, which opened the connection, start
with `>`, messages of side 1 with `<`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from zmtpscope.conversations.choosing import MAX_CONNECTIONS
from zmtpscope.dissect.identity import Stream
from zmtpscope.export.clock import Clock
from zmtpscope.export.describe import DESCRIBE
from zmtpscope.export.preview import quoted
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.side_names import SideNames, side_names
from zmtpscope.words import counted, host_port

MARKERS = (">", "<")
"""Characters before lines of side 0 and side 1."""
NO_SIDE = "="
ROW = 16

Values = dict[str, Any]


class ConversationText:
    """Writes a conversation as text. `form` is one of `option_texts.BODY_FORMS`.

    `paint` returns a text in the colours of a style.
    """

    def __init__(self, clock: Clock, form: str, paint: Callable[[str, str], str]) -> None:
        self.clock = clock
        self.form = form
        self.paint = paint
        self._sides: dict[int, tuple[SideNames, SideNames]] = {}
        self._introduced: set[int] = set()

    def learn(self, values: Values) -> None:
        """Store the names of peers from any record, also from records that do not belong to the conversation."""
        self._sides_of(values)[values["side"]].learn(values["socket_type"], values["identity"])

    def lines(self, values: Values) -> Iterator[str]:
        if values["conn"] is None:
            yield from self._described(
                NO_SIDE, "nobody", f"udp  {_address(values, 'src')} > {_address(values, 'dst')}", values
            )
            return
        one, other = sides = self._sides_of(values)
        if values["record"] == "message":
            for side, own in ((values["side"], "socket_type"), (1 - values["side"], "peer_socket_type")):
                if sides[side].socket_type is None and values[own] is not None:
                    sides[side].learn(values[own], None)
        if values["conn"] not in self._introduced:
            self._introduced.add(values["conn"])
            yield self.paint("connection", f"{NO_SIDE} c{values['conn']}  {one.full} > {other.full}") + "\n"
        if values["record"] == "connection":
            self._sides.pop(values["conn"], None)
            self._introduced.discard(values["conn"])
            yield self.paint("connection", f"{NO_SIDE} c{values['conn']}  {DESCRIBE['connection'](values)}") + "\n"
            return
        side = values["side"]
        sender, receiver = (one, other) if side == 0 else (other, one)
        who = f"c{values['conn']}  {sender.short} > {receiver.short}"
        yield from self._described(MARKERS[side], f"side {side}", who, values)

    def _described(self, marker: str, style: str, who: str, values: Values) -> Iterator[str]:
        kind = values["record"]
        words = _message(values) if kind == "message" else DESCRIBE[kind](values)
        packet = "" if values["packet"] is None else values["packet"]
        front = f"{marker} {packet:>5} {self.clock(values['ts_ns'])}  {who}  "
        if kind in ("gap", "stall", "leftover"):
            yield self.paint("dim", front) + self.paint(kind, words) + "\n"
            return
        paint = self.paint if style in ("side 0", "side 1") else _plain
        yield paint(style, front + words) + "\n"
        for line in self._bodies(values):
            yield paint(style, f"{marker}{line}") + "\n"

    def _bodies(self, values: Values) -> Iterator[str]:
        payload = values.get("payload")
        if self.form == "payload" and payload is not None and payload["protocol"] != "text":
            yield f"    {payload['protocol']}  {safe_text(payload['summary'] or '')}"
            return
        if values["record"] == "datagram":
            bodies = [values["body"]]
            sizes = [None if bodies[0] is None else len(bodies[0])]
        elif values["record"] != "message" or values["kind"] == "encrypted":
            return
        else:
            bodies, sizes = values["bodies"] or [None] * values["parts"], values["sizes"]
        for number, (body, size) in enumerate(zip(bodies, sizes, strict=False), 1):
            kept = "not kept" if body is None else "empty" if not size else ""
            if body is not None and size is not None and len(body) < size:
                kept = f"{len(body)} of {counted(size, 'octet')} kept"
            lines = [] if not body else _hex(body) if self.form == "hex" else self._text(body)
            yield from _numbered(number, lines, kept)

    def _text(self, body: bytes) -> Iterable[str]:
        """Write a body as text, or as hex if it is not printable and the format is not "text"."""
        try:
            text = body.decode()
        except UnicodeDecodeError:
            text = body.decode(errors="backslashreplace")
            if self.form != "text":
                return _hex(body)
        lines = [line.removesuffix("\r").expandtabs() for line in text.removesuffix("\n").split("\n")]
        if self.form != "text" and not all(map(str.isprintable, lines)):
            return _hex(body)
        return map(safe_text, lines)

    def _sides_of(self, values: Values) -> tuple[SideNames, SideNames]:
        sides = self._sides.get(values["conn"])
        if sides is None:
            stream = Stream(*(values[name] for name in Stream._fields))
            sides = side_names(stream)
            if len(self._sides) == MAX_CONNECTIONS:
                forgotten = next(iter(self._sides))
                del self._sides[forgotten]
                self._introduced.discard(forgotten)
            self._sides[values["conn"]] = sides
        return sides


def _address(values: Values, which: str) -> str:
    return host_port(values[f"{which}_ip"], values[f"{which}_port"])


def _message(values: Values) -> str:
    """Describe a message in a heading: `message of 2 frames, 7 octets (likely)`."""
    names = {"data": "message", "encrypted": "encrypted message", "subscribe": "SUBSCRIBE", "cancel": "CANCEL"}
    name = names.get(values["kind"], values["kind"])
    if values["kind"] in ("subscribe", "cancel"):
        return f"{name} {quoted(values['topic'] or '', 100)}"
    decrypted = "decrypted " if values["decrypted"] else ""
    frames = f" of {counted(values['parts'], 'frame')}" if (values["parts"] or 1) > 1 else ""
    doubts = [values["confidence"]] * (values["confidence"] != "proven") + ["incomplete"] * (not values["complete"])
    doubt = f" ({', '.join(doubts)})" if doubts else ""
    size = "" if values["sizes"] is None else f", {counted(sum(values['sizes']), 'octet')}"
    return f"{decrypted}{name}{frames}{size}{doubt}"


def _numbered(number: int, lines: Iterable[str], about: str) -> Iterator[str]:
    """Yield the lines of a frame, with its number before the first line and `about` in parentheses after it."""
    front = f"{number:>4}  "
    for line in lines:
        yield (front + line).rstrip()
        front = "      "
    if about:
        yield f"{front}({about})"


def _hex(octets: bytes) -> Iterator[str]:
    for start in range(0, len(octets), ROW):
        row = octets[start : start + ROW]
        letters = "".join(chr(octet) if 0x20 <= octet < 0x7F else "." for octet in row)
        yield f"{start:08x} {row.hex(' '):<{3 * ROW - 1}} {letters}"  # 80 columns after marker and number


def _plain(style: str, text: str) -> str:
    return text
