"""Field trees of payloads, made on demand: the dissector that decoded a payload parses it again."""

from __future__ import annotations

import numpy as np

from zmtpscope.dissect import MessageTable, Options
from zmtpscope.dissect.records.details import Detail
from zmtpscope.dissect.records.payload_rows import SideFacts, about_side
from zmtpscope.dissect.records.row_contents import RowMessages, contents
from zmtpscope.dissect.records.secrets import hide
from zmtpscope.export.values import secret_spans
from zmtpscope.payloads.side import Named, SidePayloads
from zmtpscope.records import MASK


def make_trees(run: MessageTable, options: Options) -> None:
    """Make the field trees of the payload of the only message. Everything else stays as first dissected, because it may
    depend on earlier messages."""
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
    """Mask passwords in a copy of the octets, and in the tree."""
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
