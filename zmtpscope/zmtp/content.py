"""Frame bodies: plain data, or one of the few forms that the sender's phase, mechanism or socket type gives them."""

from __future__ import annotations

from enum import Enum

from zmtpscope.zmtp.commands import COMMANDS
from zmtpscope.zmtp.events import Fields
from zmtpscope.zmtp.framing import COMMAND, MORE
from zmtpscope.zmtp.reader import Reader
from zmtpscope.zmtp.regime import Framing, Phase, Regime
from zmtpscope.zmtp.socket_types import SUBSCRIBERS
from zmtpscope.zmtp.traffic import LARGEST_GROUP, read_group

MESSAGE_NAME = b"\x07MESSAGE"
ENCRYPTING = ("CURVE", "GSSAPI")

LARGEST_AWAITED_TOPIC = 1 << 16
"""A subscription message of more octets than this is not waited for: its topic is not remembered."""

MESSAGE_HEAD = 16
"""Octets of a MESSAGE body that hold its name and nonce or token length; no handshake command has a longer name."""


class Kind(Enum):
    """How a frame body is read."""

    DATA = "data"
    COMMAND = "command"
    ENCRYPTED = "encrypted"
    """MESSAGE of CURVE or GSSAPI, in a message or command frame (D2)."""
    SUBSCRIPTION = "subscription"
    """`01` or `00` and the topic, from SUB or XSUB (wire.md 10.2)."""
    GROUP = "group"
    """The first frame of a RADIO message (wire.md 10.4)."""


def has_commands(regime: Regime) -> bool:
    """Whether bit 2 of the flags means COMMAND: in 3.x, not in 2.0."""
    return regime.framing is Framing.V2 and regime.version != "2.0"


def head_size(regime: Regime) -> int:
    """How many octets of a message frame's body `kind_of` wants to see, where it has them."""
    if regime.phase is Phase.HANDSHAKE or regime.mechanism in ENCRYPTING:
        return MESSAGE_HEAD
    return 1 if regime.socket_type in SUBSCRIBERS else 0


def kind_of(regime: Regime, flags: int, size: int, head: bytes, inside: bool) -> Kind:
    """How to read a body of `size` octets that begins with `head`; `inside`: an earlier frame had MORE."""
    if regime.mechanism in ENCRYPTING and head.startswith(MESSAGE_NAME):
        return Kind.ENCRYPTED
    if flags & COMMAND and has_commands(regime):
        return Kind.COMMAND
    if regime.phase is Phase.HANDSHAKE:
        return Kind.COMMAND if _is_handshake_command(regime, head) else Kind.DATA
    if inside or regime.mechanism in ENCRYPTING:
        return Kind.DATA
    if regime.socket_type in SUBSCRIBERS and not flags & MORE and head[:1] in (b"\0", b"\1"):
        return Kind.SUBSCRIPTION
    if regime.socket_type == "RADIO" and flags & MORE and size <= LARGEST_GROUP:
        return Kind.GROUP
    return Kind.DATA


def _is_handshake_command(regime: Regime, head: bytes) -> bool:
    """Whether a message frame carries what belongs into a command frame (D30)."""
    commands = COMMANDS.get(regime.mechanism)
    if not commands or not head:
        return False
    layout = commands.get(head[1 : 1 + head[0]].decode("latin-1"))
    return layout is not None and layout.phase is Phase.HANDSHAKE


def read_subscription(reader: Reader, regime: Regime, fields: Fields) -> None:
    """A subscription message: `01` subscribe or `00` cancel, topic."""
    if regime.version == "3.1":
        reader.finding("ZMTP31-SUB-01", reader.offset, 1)
    fields["kind"] = "subscribe" if reader.u8("zmtp.subscription.op") else "cancel"
    reader.show(fields["kind"])
    fields["topic"] = reader.text("zmtp.subscription.topic", reader.left)


def read_group_frame(reader: Reader, regime: Regime, fields: Fields) -> None:
    """The group frame of a RADIO message."""
    fields["group"] = read_group(reader, reader.left)
