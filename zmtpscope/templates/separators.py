"""What stands between fields and around their values: `-E`, as tshark has it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from zmtpscope.export.line_tables import no_formula

SPELLED = {"/t": "\t", "/s": " "}
"""Separators that shells make hard to type."""

NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")
FOR_SPREADSHEETS = '"'
"""The quote of CSV: with it no cell is a formula."""
CHOICES: dict[str, dict[str, str | bool]] = {
    "header": {"y": True, "n": False},
    "quote": {"d": '"', "s": "'", "n": ""},
    "occurrence": {"f": "f", "l": "l", "a": "a"},
}
CHARACTERS = ("separator", "aggregator")


class Separators(NamedTuple):
    """`separator` stands between fields, `aggregator` between the values of one. `occurrence` is "f" for the first of
    these, "l" for the last, "a" for all. `quote` stands around what a field shows, if there is anything."""

    separator: str = "\t"
    aggregator: str = ","
    occurrence: str = "a"
    quote: str = ""
    header: bool = False

    def written(self, values: Iterable[str]) -> str | None:
        """What a field of these values, made safe before, shows; None: nothing, not even quotes.

        A quote within quotes is doubled; without quotes a separator has a backslash in front of it. In double quotes,
        which is CSV for spreadsheets, text that would be a formula has an apostrophe in front of it.
        """
        shown = list(values)
        if not shown:
            return None
        place = {"f": 0, "l": -1}.get(self.occurrence)
        return self.quoted(self.aggregator.join(shown) if place is None else shown[place])

    @property
    def leave_numbers(self) -> bool:
        """Whether a number is what it is, with nothing around or in it."""
        return not self.quote and self.separator not in "-0123456789"

    def quoted(self, text: str) -> str:
        """The same of a text that is joined already."""
        if self.quote == FOR_SPREADSHEETS and not NUMBER.fullmatch(text):
            text = no_formula(text)
        if self.quote:
            return f"{self.quote}{text.replace(self.quote, self.quote * 2)}{self.quote}"
        return text.replace(self.separator, f"\\{self.separator}") if self.separator else text


def parse_separators(options: Iterable[str]) -> Separators:
    """`-E`, any number of times, the last of a kind counts. Raises `ValueError` with a sentence for people."""
    found: dict[str, str | bool] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals or name not in (*CHOICES, *CHARACTERS):
            names = ", ".join(f"{each}=" for each in (*CHARACTERS, *CHOICES))
            raise ValueError(f"{option!r} is none of {names}")
        if name in CHARACTERS:
            character = SPELLED.get(value, value)
            if len(character) != 1:
                raise ValueError(f"{option!r}: give one character, /t for a tab or /s for a space")
            found[name] = character
        elif value not in CHOICES[name]:
            raise ValueError(f"{option!r}: give one of {', '.join(CHOICES[name])}")
        else:
            found[name] = CHOICES[name][value]
    return Separators(**found)  # type: ignore[arg-type]
