"""Line templates: fixed texts, and operands whose values are inserted between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from zmtpscope.filter.checking import described, operand_of
from zmtpscope.filter.conditions import Operand
from zmtpscope.filter.errors import FilterError
from zmtpscope.records import COMMON, RECORDS
from zmtpscope.templates.separators import Separators

ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
_EVERYWHERE = {field.name for field in COMMON}
"""Fields of every record."""


@dataclass(frozen=True, slots=True)
class Template:
    """A line format: `texts[0]`, the values of `operands[0]`, `texts[1]` and so on. The last text ends with a newline.

    `header` is printed before all lines. `separators` join several values of an operand.
    """

    texts: tuple[str, ...]
    operands: tuple[Operand, ...]
    separators: Separators
    header: str | None = None

    @property
    def reads(self) -> frozenset[str]:
        """Record fields that the operands read."""
        return frozenset().union(*(operand.reads for operand in self.operands))

    @property
    def records(self) -> frozenset[str]:
        """Record types that get a line: the ones with a field of the template that not all types have; without such
        a field, all."""
        own = [field for field in map(described, self.operands) if not _EVERYWHERE.issuperset(field.reads)]
        return frozenset().union(*(field.records for field in own)) if own else frozenset(RECORDS)


def of_fields(names: Iterable[str], separators: Separators) -> Template:
    """Make the template of `-e NAME -e NAME`. Raises `FilterError`."""
    operands = tuple(map(operand_of, names := list(names)))
    texts = ("", *[separators.separator] * (len(operands) - 1), "\n")
    header = separators.separator.join(names) + "\n" if separators.header else None
    return Template(texts, operands, separators, header)


def parse_template(text: str) -> Template:
    """Parse a format such as `{time} {topic} {size}`, with the escapes `{{`, `}}`, `\n`, `\t`, `\r` and `\\`.

    Raises `FilterError`.
    """
    texts, operands, at = [""], [], 0
    while at < len(text):
        character = text[at]
        if text.startswith(("{{", "}}"), at):
            texts[-1] += character
            at += 2
        elif character == "{":
            end = text.find("}", at)
            if end < 0:
                raise FilterError("{ has no }", text, at, at + 1, hint="write {{ for a brace")
            operands.append(_operand_within(text, at + 1, end))
            texts.append("")
            at = end + 1
        elif character == "}":
            raise FilterError("} closes nothing", text, at, at + 1, hint="write }} for a brace")
        elif character == "\\":
            letter = text[at + 1 : at + 2]
            if letter not in ESCAPES:
                what = f"\\{letter} is not an escape"
                raise FilterError(what, text, at, at + 1 + len(letter), hint=r"write \n, \t, \r, or \\ for a backslash")
            texts[-1] += ESCAPES[letter]
            at += 2
        else:
            texts[-1] += character
            at += 1
    if not operands:
        raise FilterError("no field in the format", text, 0, len(text), hint="use for example {time} {topic} {size}")
    texts[-1] += "\n"
    return Template(tuple(texts), tuple(operands), Separators(separator=""))


def _operand_within(text: str, start: int, stop: int) -> Operand:
    """Parse an operand of a template. Errors point into the whole text."""
    try:
        return operand_of(text[start:stop])
    except FilterError as error:
        moved = start + error.start, min(start + error.stop, max(stop, start + 1))
        raise FilterError(error.sentence, text, *moved, hint=error.hint, expected=error.expected) from None
