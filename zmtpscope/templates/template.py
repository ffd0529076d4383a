"""Line templates: fixed texts, operands whose values are inserted between them, and the separators of `-E`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from zmtpscope.export.tables import no_formula
from zmtpscope.filter.checking import described, operand_of
from zmtpscope.filter.conditions import Operand
from zmtpscope.filter.tokens import FilterError
from zmtpscope.record_fields import COMMON
from zmtpscope.records import RECORDS

SPELLED = {"/t": "\t", "/s": " "}
"""Separators by their spelling in `-E`."""

NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")
FOR_SPREADSHEETS = '"'
"""With this quote (CSV), texts that a spreadsheet would run as a formula get an apostrophe."""
CHOICES: dict[str, dict[str, str | bool]] = {
    "header": {"y": True, "n": False},
    "quote": {"d": '"', "s": "'", "n": ""},
    "occurrence": {"f": "f", "l": "l", "a": "a"},
}
CHARACTERS = ("separator", "aggregator")


class Separators(NamedTuple):
    """Settings of `-E`. `separator` separates fields, `aggregator` the values of one field. `occurrence` selects the
    first ("f"), the last ("l") or all ("a") values. `quote` encloses fields that are not empty."""

    separator: str = "\t"
    aggregator: str = ","
    occurrence: str = "a"
    quote: str = ""
    header: bool = False

    def written(self, values: Iterable[str]) -> str | None:
        """Join the values of a field to one text, escaped and quoted; None if there are no values and no quotes.

        Inside quotes, a quote is doubled. Without quotes, a separator in the text gets a backslash before it. In double
        quotes (CSV), text that a spreadsheet would take for a formula gets an apostrophe.
        """
        shown = list(values)
        if not shown:
            return None
        place = {"f": 0, "l": -1}.get(self.occurrence)
        return self.quoted(self.aggregator.join(shown) if place is None else shown[place])

    @property
    def leave_numbers(self) -> bool:
        """Whether numbers are written without quotes and escapes."""
        return not self.quote and self.separator not in "-0123456789"

    def quoted(self, text: str) -> str:
        if self.quote == FOR_SPREADSHEETS and not NUMBER.fullmatch(text):
            text = no_formula(text)
        if self.quote:
            return f"{self.quote}{text.replace(self.quote, self.quote * 2)}{self.quote}"
        return text.replace(self.separator, f"\\{self.separator}") if self.separator else text


def parse_separators(options: Iterable[str]) -> Separators:
    """Parse the settings of `-E`; if one is repeated, the last counts. Raises `ValueError` with a message for users."""
    found: dict[str, str | bool] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals or name not in (*CHOICES, *CHARACTERS):
            names = ", ".join(f"{each}=" for each in (*CHARACTERS, *CHOICES))
            raise ValueError(f"{option!r} is not one of {names}")
        if name in CHARACTERS:
            character = SPELLED.get(value, value)
            if len(character) != 1:
                raise ValueError(f"{option!r}: use one character, /t for a tab or /s for a space")
            found[name] = character
        elif value not in CHOICES[name]:
            raise ValueError(f"{option!r}: use one of {', '.join(CHOICES[name])}")
        else:
            found[name] = CHOICES[name][value]
    return Separators(**found)  # type: ignore[arg-type]


ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
_EVERYWHERE = {field.name for field in COMMON}
"""Fields of every record."""


@dataclass(frozen=True, slots=True)
class Template:
    """A line format: `texts[0]`, the values of the field `operands[0]`, `texts[1]` and so on. The last text ends with a
    newline.

    `header` is printed before all lines. `separators` join several values of a field.
    """

    texts: tuple[str, ...]
    operands: tuple[Operand, ...]
    separators: Separators
    header: str | None = None

    @property
    def reads(self) -> frozenset[str]:
        return frozenset().union(*(operand.reads for operand in self.operands))

    @property
    def records(self) -> frozenset[str]:
        """The record types for which a line is printed.

        A type has a line if it has a field of the template that not all types have. If the template has no field of
        this kind, all types have lines.
        """
        own = [field for field in map(described, self.operands) if not _EVERYWHERE.issuperset(field.reads)]
        return frozenset().union(*(field.records for field in own)) if own else frozenset(RECORDS)


def of_fields(names: Iterable[str], separators: Separators) -> Template:
    """Return the template of `-T fields -e NAME -e NAME`. Raises `FilterError`."""
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
    """Parse a field name within the text of a template, from `start` to `stop`. Errors contain positions in the whole
    text."""
    try:
        return operand_of(text[start:stop])
    except FilterError as error:
        moved = start + error.start, min(start + error.stop, max(stop, start + 1))
        raise FilterError(error.sentence, text, *moved, hint=error.hint, expected=error.expected) from None
