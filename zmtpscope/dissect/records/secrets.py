"""Replace passwords in messages by asterisks."""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter

from zmtpscope.dissect.records.tables import MessageTable
from zmtpscope.payloads.dissected import Dissected


def starred(data: bytes, base: int, secrets: list[range]) -> bytes:
    """Replace the octets at the offsets `secrets`, in ascending order, by asterisks.

    `data` starts at offset `base`.
    """
    low, high = (bisect_left(secrets, place, key=attrgetter("start")) for place in (base, base + len(data)))
    within = secrets[low:high]
    if not within:
        return data
    octets = bytearray(data)
    for each in within:
        start, stop = each.start - base, min(each.stop - base, len(octets))
        octets[start:stop] = b"*" * (stop - start)
    return bytes(octets)


def places_of_secrets(run: MessageTable, row: int, made: Dissected) -> list[range]:
    first, last = int(run.first[row]), int(run.last[row])
    frames = sorted({first + index for index in made.secrets if 0 <= index <= last - first})
    return [range(int(run.bodies[frame]), int(run.bodies[frame] + run.sizes[frame])) for frame in frames]


def hide(made: Dissected) -> None:
    """Remove the field trees and unpacked octets of frames that contain a password."""
    made.nodes = {index: nodes for index, nodes in made.nodes.items() if index not in made.secrets}
    made.sources = []
