"""Subscriptions, heartbeats and groups, equal in all mechanisms (wire.md 10.2 to 10.4)."""

from __future__ import annotations

from zmtpscope.records import from_text
from zmtpscope.zmtp.events import Fields
from zmtpscope.zmtp.layout import Layout
from zmtpscope.zmtp.reader import Cut, Reader
from zmtpscope.zmtp.regime import Phase, Regime
from zmtpscope.zmtp.socket_types import SUBSCRIBERS

LARGEST_CONTEXT = 16
"""Octets of context that a PONG repeats; libzmq truncates a longer one (wire.md 10.3)."""
LARGEST_GROUP = 255
WRAPPING_TTL = 656
"""Smallest TTL that overflows in libzmq (D10), in tenths of a second."""


def read_topic(reader: Reader, regime: Regime, fields: Fields) -> None:
    if regime.version == "3.0":
        reader.finding("ZMTP30-SUB-01", *reader.name_span)
    if regime.socket_type is not None and regime.socket_type not in SUBSCRIBERS:
        reader.finding("ZMTP-SUB-03", *reader.name_span)
    fields["topic"] = reader.text("zmtp.subscription.topic", reader.left)


def read_ping(reader: Reader, regime: Regime, fields: Fields) -> None:
    """Read a PING: TTL in tenths of a second, and context."""
    start = reader.offset
    try:
        ttl = reader.u16("zmtp.ping.ttl")
    except Cut:
        reader.finding("ZMTP31-PING-01", reader.body, reader.offset - reader.body)
        return
    fields["ttl_ms"] = ttl * 100
    if ttl >= WRAPPING_TTL:
        reader.finding("ZMTP31-PING-07", start, 2)
    read_context(reader, regime, fields)


def read_context(reader: Reader, regime: Regime, fields: Fields) -> None:
    start = reader.offset
    context = fields["context"] = reader.rest("zmtp.ping.context")
    if len(context) > LARGEST_CONTEXT:
        reader.finding("ZMTP31-PING-02", start, len(context))


def read_group_name(reader: Reader, regime: Regime, fields: Fields) -> None:
    if regime.socket_type not in (None, "DISH"):
        reader.finding("ZMTP31-GROUP-04", *reader.name_span)
    fields["group"] = read_group(reader, reader.left)


def read_group(reader: Reader, length: int) -> str:
    start = reader.offset
    group = reader.text("zmtp.group", length)
    if length > LARGEST_GROUP:
        reader.finding("ZMTP31-GROUP-01", start, length)
    if "\0" in group:
        reader.finding("ZMTP31-GROUP-02", start, length)
    return group


def _build_topic(fields: Fields) -> bytes:
    return from_text(fields.get("topic") or "")


def _build_ping(fields: Fields) -> bytes:
    ttl: int = fields.get("ttl_ms") or 0
    return (ttl // 100).to_bytes(2, "big") + _build_context(fields)


def _build_context(fields: Fields) -> bytes:
    context: bytes = fields.get("context") or b""
    return context


def _build_group(fields: Fields) -> bytes:
    return from_text(fields.get("group") or "")


LAYOUTS = (
    Layout("SUBSCRIBE", read_topic, _build_topic, Phase.TRAFFIC),
    Layout("CANCEL", read_topic, _build_topic, Phase.TRAFFIC),
    Layout("PING", read_ping, _build_ping, Phase.TRAFFIC),
    Layout("PONG", read_context, _build_context, Phase.TRAFFIC),
    Layout("JOIN", read_group_name, _build_group, Phase.TRAFFIC),
    Layout("LEAVE", read_group_name, _build_group, Phase.TRAFFIC),
)
