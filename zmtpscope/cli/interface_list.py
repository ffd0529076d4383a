"""Output of `-D`: a line or a JSON object for each interface."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zmtpscope.export.safe_text import safe_text
from zmtpscope.live.capture.interfaces import Interface


def interface_lines(known: Sequence[Interface]) -> Iterator[str]:
    """Yield number, name, state, addresses and kind of each interface, in columns. `-i` also accepts the number."""
    rows = [
        (f"{number}.", safe_text(each.name), _state(each), ", ".join(each.addresses), safe_text(each.description))
        for number, each in enumerate(known, 1)
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def interface_objects(known: Sequence[Interface]) -> Iterator[dict[str, object]]:
    """Yield the interfaces as objects for JSON."""
    for number, each in enumerate(known, 1):
        yield {
            "number": number,
            "name": each.name,
            "state": _state(each),
            "is_loopback": each.is_loopback,
            "addresses": each.addresses,
            "description": each.description,
        }


def _state(interface: Interface) -> str:
    return "up" if interface.is_running else "no carrier" if interface.is_up else "down"
