from __future__ import annotations

from collections.abc import Callable

from zmtpscope.records import DERIVED

Paint = Callable[[str, str], str]
"""Takes a style (a key of `STYLES`) and a text."""

STYLES = {
    "dim": "dim",
    "side 0": "cyan",
    "side 1": "magenta",
    "greeting": "bold",
    "command": "bold",
    "connection": "bold",
    "datagram": "bold",
    "zre_pair": "bold",
    **dict.fromkeys(DERIVED, "bold"),
    "gap": "bold yellow",
    "stall": "bold yellow",
    "retransmission": "bold yellow",
    "leftover": "yellow",
    "error": "bold red",
    "warn": "yellow",
    "note": "bright_blue",
    "chat": "dim",
}


def plain(style: str, text: str) -> str:
    return text
