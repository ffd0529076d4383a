"""Lines that are too long for the terminal, wrapped between words. What goes to a file or a pipe is never wrapped."""

from __future__ import annotations

import re

LEAST = 60
"""Columns that words which do not fit need to stay beside the others."""

INDENT = 8
"""Where it stands on a line of its own."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def wrap(prefix: str, used: int, words: str, width: int) -> str:
    """`prefix`, which takes `used` columns, and `words` behind it, in lines of at most `width` where spaces allow it.

    What does not fit goes on below the first word, or, where that leaves little room, on lines of its own.
    """
    if used + _length(words) <= width:
        return prefix + words
    lines, indent = [prefix], used
    if width - used < LEAST:
        lines, indent = [prefix.rstrip(), " " * INDENT], INDENT
    column = indent
    for word in words.split(" "):
        length = _length(word)
        if column > indent:
            if column + 1 + length <= width:
                lines[-1] += " "
                column += 1
            else:
                lines.append(" " * indent)
                column = indent
        lines[-1] += word
        column += length
    return "\n".join(lines)


def _length(text: str) -> int:
    return len(_COLOUR.sub("", text)) if "\x1b" in text else len(text)
