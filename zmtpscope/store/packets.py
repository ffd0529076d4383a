"""Restore complete packets and field trees of payloads for display, with secrets marked.

Octets that belong to no record near the shown one are treated as secret: they may be part of an incomplete HELLO. The
dissector that decoded a payload parses it again for its tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from zmtpscope.dissect import Batch, MessageTable, Options
from zmtpscope.dissect.records.details import Detail, details
from zmtpscope.dissect.records.payload_rows import SideFacts, about_side
from zmtpscope.dissect.records.row_contents import RowMessages, contents
from zmtpscope.dissect.records.secrets import hide, places_of_secrets
from zmtpscope.export.values import secret_spans
from zmtpscope.payloads.side import Named, SidePayloads
from zmtpscope.records import MASK
from zmtpscope.store.segment_index import WholePacket


class ShownPacket(NamedTuple):
    """A packet, and the ranges of its octets that are secret, such as passwords."""

    packet: WholePacket
    secrets: list[range]


def with_secrets(packet: WholePacket, units: Batch, *, shows_leftovers: bool) -> ShownPacket:
    """Mark the secrets in a packet; `units` are the records to which its octets belong.

    `shows_leftovers`: octets of leftovers are not secret.
    """
    shift = packet.start - packet.begin
    inside = range(packet.start, packet.stop)
    read, secret = [], []
    for span, secrets in _units(units, shows_leftovers=shows_leftovers):
        read.append(_moved(span, shift, inside))
        secret += [_moved(each, shift, inside) for each in secrets]
    secret += _outside(inside, read)
    return ShownPacket(packet, _apart(secret))


def _units(units: Batch, *, shows_leftovers: bool) -> Iterator[tuple[range, list[range]]]:
    """Yield the stream range of every record, and the ranges of secrets in it.

    `shows_leftovers`: octets of leftovers are not secret.
    """
    for run in units.by_sender():
        begins, stops = run.offsets[run.first].tolist(), (run.bodies[run.last] + run.sizes[run.last]).tolist()
        for row, (begin, stop) in enumerate(zip(begins, stops, strict=True)):
            made = run.made(row)
            yield range(begin, stop), [] if made is None else places_of_secrets(run, row, made)
    for record in units.records:
        values = record.values
        shown = list(details(record, -1))
        if record.type == "leftover" and not shows_leftovers:
            yield from ((range(unit.offset, unit.offset + len(unit.octets)), []) for unit in shown)
            continue
        span = range(values["offset"], values["offset"] + values["length"])
        yield span, [secret for unit in shown for secret in secret_spans(unit.tree)]


def _moved(span: range, shift: int, inside: range) -> range:
    start, stop = (min(max(at + shift, inside.start), inside.stop) for at in (span.start, span.stop))
    return range(start, stop)


def _outside(whole: range, parts: list[range]) -> Iterator[range]:
    at = whole.start
    for part in sorted(parts, key=lambda part: part.start):
        if part.start > at:
            yield range(at, part.start)
        at = max(at, part.stop)
    if at < whole.stop:
        yield range(at, whole.stop)


def _apart(spans: list[range]) -> list[range]:
    """Return the ranges sorted, with touching and overlapping ones merged."""
    found: list[range] = []
    for span in sorted(filter(len, spans), key=lambda span: span.start):
        if found and span.start <= found[-1].stop:
            found[-1] = range(found[-1].start, max(found[-1].stop, span.stop))
        else:
            found.append(span)
    return found


def make_trees(run: MessageTable, options: Options) -> None:
    """Add the field tree of its payload to the only message of `run`.

    The protocol and summary stay as first dissected, because they may depend on earlier messages.
    """
    made = run.made(0)
    if made is None or options.payloads is None or not made.protocol:
        return
    run.payloads, run.json = [made], None
    side = SidePayloads(
        options.payloads, [_named(made.protocol, options)], trees=True, show_secrets=options.show_secrets
    )
    content, _, _, known = contents(run, options.kept_limit)
    if not known[0]:
        return
    messages = RowMessages(run, np.array([0]), content)
    message, offsets = messages.message(0, after_loss=False)
    again = side.dissect(message, about_side(SideFacts(None, [], True), run), offsets)
    if again is not None:
        made.nodes, made.sources = again.nodes, again.sources
        if made.secrets and not options.show_secrets:
            hide(made)


def without_secrets(detail: Detail) -> Detail:
    """Return the details of a record with passwords masked, in the octets and in the field tree."""
    spans = [*detail.secrets, *secret_spans(detail.tree)]
    if not spans:
        return detail
    octets = bytearray(detail.octets)
    for span in spans:
        start, stop = (min(max(0, at - detail.offset), len(octets)) for at in (span.start, span.stop))
        octets[start:stop] = b"*" * (stop - start)
    for leaf in detail.tree.leaves():
        if leaf.length and any(leaf.start in span for span in spans):
            leaf.value = MASK
    return detail._replace(octets=bytes(octets), secrets=spans)


def _named(protocol: str, options: Options) -> Named:
    rules = [rule.payload for rule in options.decode_as if rule.payload is not None]
    argument = next((argument for name, argument in rules if name == protocol), None)
    return Named(protocol, argument)
