from __future__ import annotations

from collections.abc import Callable

from zmtpscope.records import DERIVED

Paint = Callable[[str, str], str]
"""Takes a style (a key of `STYLES`) and a text."""

STYLES = {
    "dim": "dim",
    "side 0": "cyan",
    "side 1": "magenta",
    **dict.fromkeys(("greeting", "command", "connection", "datagram", "zre_pair", *DERIVED), "bold"),
    **dict.fromkeys(("gap", "stall", "retransmission"), "bold yellow"),
    "leftover": "yellow",
    "error": "bold red",
    "warn": "yellow",
    "note": "bright_blue",
    "chat": "dim",
}


def plain(style: str, text: str) -> str:
    return text
