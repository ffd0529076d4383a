"""Octets of messages that hold a password: where they stand, and stars in their places."""

from __future__ import annotations

from bisect import bisect_left

from zmtpscope.dissect.records.batch import MessageRun
from zmtpscope.payloads.dissected import Dissected


def starred(data: bytes, base: int, secrets: list[range]) -> bytes:
    """The octets from `base` of the stream on, with stars in place of secrets, which come in order."""
    low, high = (bisect_left(secrets, place, key=_start_of) for place in (base, base + len(data)))
    within = secrets[low:high]
    if not within:
        return data
    octets = bytearray(data)
    for each in within:
        start, stop = each.start - base, min(each.stop - base, len(octets))
        octets[start:stop] = b"*" * (stop - start)
    return bytes(octets)


def _start_of(secret: range) -> int:
    return secret.start


def places_of_secrets(run: MessageRun, row: int, made: Dissected) -> list[range]:
    """The octets of the frames of a message that hold a password, by their places in the stream."""
    first, last = int(run.first[row]), int(run.last[row])
    frames = sorted({first + index for index in made.secrets if 0 <= index <= last - first})
    return [range(int(run.bodies[frame]), int(run.bodies[frame] + run.sizes[frame])) for frame in frames]


def hide(made: Dissected) -> None:
    """Let nothing show the octets of frames that hold a password."""
    made.nodes = {index: nodes for index, nodes in made.nodes.items() if index not in made.secrets}
    made.sources = []
