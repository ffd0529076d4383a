"""Frame bodies: plain data, or one of the few forms that the sender's phase, mechanism or socket type gives them."""

from __future__ import annotations

from typing import Literal

from zmtpscope.records import from_text
from zmtpscope.zmtp.events import Fields
from zmtpscope.zmtp.framing import COMMAND, MORE
from zmtpscope.zmtp.mechanisms import MECHANISMS, curve, mechanism_named, plain
from zmtpscope.zmtp.reader import Reader
from zmtpscope.zmtp.regime import Phase, Regime
from zmtpscope.zmtp.socket_types import SUBSCRIBERS
from zmtpscope.zmtp.traffic import LARGEST_GROUP, read_group

MESSAGE_NAME = b"\x07MESSAGE"

LARGEST_AWAITED_TOPIC = 1 << 16
"""A subscription message of more octets than this is not waited for: its topic is not remembered."""

RULED = SUBSCRIBERS | {"RADIO"}
"""Sender types with a rule for single frames: their frames are read with care."""

MESSAGE_HEAD = 16
"""Octets of a MESSAGE body that hold its name and nonce or token length; no handshake command has a longer name."""


Kind = Literal["data", "command", "encrypted", "subscription", "group"]
"""How a frame body is read.

encrypted: MESSAGE of a mechanism that seals messages, in a message or command frame (D2), but for one that is a step of
the handshake because it wraps READY (wire.md 8.4); subscription: `01` or `00` and the topic, from SUB or XSUB
(wire.md 10.2); group: the first frame of a RADIO message (wire.md 10.4).
"""


def head_size(regime: Regime) -> int:
    """How many octets of a message frame's body `kind_of` wants to see, where it has them."""
    if regime.shakes_hands or seals(regime):
        return MESSAGE_HEAD
    return 1 if regime.socket_type in SUBSCRIBERS else 0


def seals(regime: Regime) -> bool:
    """Whether messages travel inside MESSAGE."""
    mechanism = mechanism_named(regime.mechanism)
    return mechanism is not None and mechanism.seals


def kind_of(regime: Regime, flags: int, size: int, head: bytes, inside: bool) -> Kind:
    """How to read a body of `size` octets that begins with `head`; `inside`: an earlier frame had MORE."""
    mechanism = mechanism_named(regime.mechanism)
    if mechanism is not None and mechanism.seals and head.startswith(MESSAGE_NAME):
        step = flags & COMMAND and regime.shakes_hands and mechanism.wraps_ready
        return "command" if step else "encrypted"
    if flags & COMMAND and regime.has_commands:
        return "command"
    if regime.shakes_hands:
        return "command" if _is_handshake_command(regime, head) else "data"
    if seals(regime):
        return "data"
    return kind_of_message(regime, flags, size, head, inside)


def kind_of_message(regime: Regime, flags: int, size: int, head: bytes, inside: bool) -> Kind:
    """The same for what is known to be a message frame of traffic in clear, or behind its seal."""
    if inside:
        return "data"
    if regime.socket_type in SUBSCRIBERS and not flags & MORE and head[:1] in (b"\0", b"\1"):
        return "subscription"
    if regime.socket_type == "RADIO" and flags & MORE and size <= LARGEST_GROUP:
        return "group"
    return "data"


def _is_handshake_command(regime: Regime, head: bytes) -> bool:
    """Whether a message frame carries what belongs into a command frame (D30), or a password."""
    mechanism = mechanism_named(regime.mechanism)
    if mechanism is None or not head:
        return False
    if plain.FRAMED_HELLO.match(head):
        return True
    layout = mechanism.commands.get(head[1 : 1 + head[0]].decode("latin-1"))
    return layout is not None and layout.phase is Phase.HANDSHAKE


def read_sealed(reader: Reader, regime: Regime, fields: Fields) -> None:
    """A MESSAGE: its name, and what the layout of the mechanism makes of the rest. The rest need not be there."""
    fields["name"] = reader.text("zmtp.command.name", reader.u8("zmtp.command.name_length"))
    MECHANISMS[str(regime.mechanism)].commands["MESSAGE"].read(reader, regime, fields)


def read_opened(reader: Reader, regime: Regime, inside: bool) -> tuple[int, Kind]:
    """A MESSAGE whose box is open, up to the body of the frame inside: the flags of that, and how to read it."""
    read_sealed(reader, regime, {})
    flags = curve.read_flags(reader)
    if flags & curve.COMMAND:
        return flags, "command"
    head = reader.data[reader.position : min(reader.position + 1, reader.stop)]
    return flags, kind_of_message(regime, flags, reader.left, head, inside)


def read_subscription(reader: Reader, regime: Regime, fields: Fields) -> None:
    """A subscription message: `01` subscribe or `00` cancel, topic."""
    if regime.version == "3.1":
        reader.finding("ZMTP31-SUB-01", reader.offset, 1)
    fields["kind"] = "subscribe" if reader.u8("zmtp.subscription.op") else "cancel"
    reader.show(fields["kind"])
    fields["topic"] = reader.text("zmtp.subscription.topic", reader.left)


def build_subscription(fields: Fields) -> bytes:
    """From `kind` ("subscribe" or "cancel") and `topic`, a `text`."""
    return bytes([fields["kind"] == "subscribe"]) + from_text(fields["topic"])


def read_group_frame(reader: Reader, regime: Regime, fields: Fields) -> None:
    """The group frame of a RADIO message."""
    fields["group"] = read_group(reader, reader.left)


def judge_ruled(reader: Reader, regime: Regime, flags: int, size: int, inside: bool) -> None:
    """Rules for single frames of SUB, XSUB and RADIO (wire.md 10.2, 10.4); `inside`: an earlier frame had MORE."""
    if regime.socket_type == "RADIO":
        if inside == bool(flags & MORE):
            reader.finding("ZMTP31-GROUP-03", reader.unit, 1)
        elif not inside and size > 255:
            reader.finding("ZMTP31-GROUP-01", reader.body, size)
    elif not inside and flags & MORE and size and reader.data[reader.body - reader.base] < 2:
        reader.finding("ZMTP-SUB-06", reader.unit, 1)
