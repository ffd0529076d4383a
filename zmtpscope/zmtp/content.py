"""Frame bodies: plain data, or a format given by the sender's phase, mechanism or socket type."""

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
"""Maximum size in octets of a subscription message that is read whole. Larger topics are not stored."""

RULED = SUBSCRIBERS | {"RADIO"}
"""Socket types with rules for single frames, which the scanner does not check."""

MESSAGE_HEAD = 16
"""Octets that contain the name of a MESSAGE and its nonce or token length. No handshake command has a longer name."""


Kind = Literal["data", "command", "encrypted", "subscription", "group"]
"""The format of a frame body.

- encrypted: MESSAGE of a mechanism that encrypts messages, in a message or command frame (D2), except a handshake step
  that wraps READY (wire.md 8.4)
- subscription: `01` or `00` and the topic, from SUB or XSUB (wire.md 10.2)
- group: the first frame of a RADIO message (wire.md 10.4)
"""


def head_size(regime: Regime) -> int:
    """Return how many octets of a message frame's body `kind_of` needs to determine its format."""
    if regime.shakes_hands or seals(regime):
        return MESSAGE_HEAD
    return 1 if regime.socket_type in SUBSCRIBERS else 0


def seals(regime: Regime) -> bool:
    mechanism = mechanism_named(regime.mechanism)
    return mechanism is not None and mechanism.seals


def kind_of(regime: Regime, flags: int, size: int, head: bytes, inside: bool) -> Kind:
    """Return the format of a frame body that starts with `head`.

    `flags` and `size` are those of the frame; `inside`: the previous frame had MORE, so this frame continues a message.
    """
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
    """Return the format of a message frame that starts with `head`, unencrypted or decrypted.

    `flags` and `size` are those of the frame; `inside`: the previous frame had MORE.
    """
    if inside:
        return "data"
    if regime.socket_type in SUBSCRIBERS and not flags & MORE and head[:1] in (b"\0", b"\1"):
        return "subscription"
    if regime.socket_type == "RADIO" and flags & MORE and size <= LARGEST_GROUP:
        return "group"
    return "data"


def _is_handshake_command(regime: Regime, head: bytes) -> bool:
    """Whether a message frame that starts with `head` contains a handshake command (D30) or a password."""
    mechanism = mechanism_named(regime.mechanism)
    if mechanism is None or not head:
        return False
    if plain.FRAMED_HELLO.match(head):
        return True
    layout = mechanism.commands.get(head[1 : 1 + head[0]].decode("latin-1"))
    return layout is not None and layout.phase is Phase.HANDSHAKE


def read_sealed(reader: Reader, regime: Regime, fields: Fields) -> None:
    """Parse an encrypted MESSAGE by the layout of its mechanism. The octets after its name may be missing."""
    fields["name"] = reader.text("zmtp.command.name", reader.u8("zmtp.command.name_length"))
    MECHANISMS[str(regime.mechanism)].commands["MESSAGE"].read(reader, regime, fields)


def read_opened(reader: Reader, regime: Regime, inside: bool) -> tuple[int, Kind]:
    """Parse a decrypted MESSAGE up to its message part; return (the part's flags, the format of its body).

    `inside`: the previous part had MORE.
    """
    read_sealed(reader, regime, {})
    flags = curve.read_flags(reader)
    if flags & curve.COMMAND:
        return flags, "command"
    head = reader.data[reader.position : min(reader.position + 1, reader.stop)]
    return flags, kind_of_message(regime, flags, reader.left, head, inside)


def read_subscription(reader: Reader, regime: Regime, fields: Fields) -> None:
    """Parse a subscription message: `01` subscribe or `00` cancel, topic."""
    if regime.version == "3.1":
        reader.finding("ZMTP31-SUB-01", reader.offset, 1)
    fields["kind"] = "subscribe" if reader.u8("zmtp.subscription.op") else "cancel"
    reader.show(fields["kind"])
    fields["topic"] = reader.text("zmtp.subscription.topic", reader.left)


def build_subscription(fields: Fields) -> bytes:
    """Build a subscription message from `kind` ("subscribe" or "cancel") and `topic`."""
    return bytes([fields["kind"] == "subscribe"]) + from_text(fields["topic"])


def read_group_frame(reader: Reader, regime: Regime, fields: Fields) -> None:
    fields["group"] = read_group(reader, reader.left)


def judge_ruled(reader: Reader, regime: Regime, flags: int, size: int, inside: bool) -> None:
    """Check a message frame sent by a SUB, XSUB or RADIO (wire.md 10.2, 10.4).

    `inside`: the previous frame had MORE, so this frame continues a message.
    """
    if regime.socket_type == "RADIO":
        if inside == bool(flags & MORE):
            reader.finding("ZMTP31-GROUP-03", reader.unit, 1)
        elif not inside and size > 255:
            reader.finding("ZMTP31-GROUP-01", reader.body, size)
    elif not inside and flags & MORE and size and reader.data[reader.body - reader.base] < 2:
        reader.finding("ZMTP-SUB-06", reader.unit, 1)
