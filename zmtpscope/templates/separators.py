"""Separators and quotes of fields: `-E`, as in tshark."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from zmtpscope.export.line_tables import no_formula

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
        """Join the escaped values of a field, in quotes; None if there are no values and no quotes.

        Inside quotes, a quote is doubled. Without quotes, a separator in the text is preceded by a backslash. In double
        quotes (CSV), text that would be a formula is preceded by an apostrophe.
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
    """Parse the separator settings; the last of repeated ones counts. Raises `ValueError` with a message for users."""
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
