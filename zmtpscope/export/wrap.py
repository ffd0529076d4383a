"""Wrap lines that are too long for the terminal. Output to a file or a pipe is never wrapped."""

from __future__ import annotations

import re

LEAST = 60
"""Columns to the right of the prefix, for words that do not fit in one line."""

INDENT = 8
"""Indentation of words that start on a line of their own."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def wrap(prefix: str, used: int, words: str, width: int) -> str:
    """Return `prefix` and `words` in lines of at most `width` columns; `prefix` takes `used` columns.

    Further lines start below the first word or, if that leaves less than `LEAST` columns, after `INDENT`.
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
