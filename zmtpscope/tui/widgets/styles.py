"""How what is shown looks: a table of names, made into colours by the theme, or into bold and dim without colour."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rich.errors import StyleSyntaxError
from rich.style import Style
from textual.color import Color, ColorParseError
from textual.widget import Widget


class Look(NamedTuple):
    """One kind of text: its colour is a variable of the theme, mixed with the background by `strength`."""

    colour: str = "foreground"
    strength: float = 1.0
    attributes: str = ""
    plain: str = ""
    """Attributes where there is no colour."""


NORMAL, MUTED, FAINT = Look(), Look(strength=0.62, plain="dim"), Look(strength=0.35, plain="dim")
LOOKS: Mapping[str, Look] = {
    # types of records
    "message": NORMAL,
    "frame": MUTED,
    "greeting": Look("text-primary", 0.85),
    "command": Look("text-primary", 0.85),
    "connection": Look("text-success", 0.85, plain="bold"),
    "finding": Look("text-warning", plain="bold"),
    "gap": Look("text-error", plain="bold"),
    "datagram": NORMAL,
    "packet": MUTED,
    # severities of findings
    "error": Look("text-error", attributes="bold", plain="bold"),
    "warn": Look("text-warning", plain="bold"),
    "note": Look("text-primary"),
    "chat": MUTED,
    # parts of a line
    "muted": MUTED,
    "faint": FAINT,
    "name": Look("text-primary", plain=""),
    "strong": Look(attributes="bold", plain="bold"),
    "heading": Look(strength=0.75, attributes="bold", plain="bold"),
    "field": Look("text-primary", 0.9),
    "value": NORMAL,
    "zero": FAINT,
    "link": Look("text-primary", attributes="underline", plain="underline"),
    "secret": Look("text-warning", 0.8, plain="dim"),
    "mark": Look("accent", attributes="bold", plain="bold"),
    "cell": Look(attributes="underline", plain="underline"),
    "good": Look("text-success", plain="bold"),
}
CURSOR, CURSOR_ELSEWHERE, LIT, HEADING_ROW = 0.42, 0.16, 0.34, 0.07
"""How much colour is in the background: of the selected line, with the keyboard here and elsewhere; of octets that a
field has; of headings."""

PLAIN_GROUNDS = {
    "cursor": Style(reverse=True),
    "elsewhere": Style(bold=True),
    "octet": Style(reverse=True, bold=True),
    "lit": Style(reverse=True),
}


class Palette:
    """The styles of a widget, under one theme. Names that nobody knows are read as colours (`bold red`, `#a0c0ff`), as
    in colour rules; those that are none look like plain text."""

    def __init__(self, base: Style, variables: Mapping[str, str], has_colour: bool) -> None:
        self.base = base if has_colour else base.without_color
        self._variables = variables
        self._has_colour = has_colour
        self._foreground = self._colour("foreground")
        self._background = Color.from_rich_color(base.bgcolor) if base.bgcolor else self._colour("background")
        self._made: dict[tuple[str, str], Style] = {}

    def style(self, name: str, over: str = "") -> Style:
        """The style of a text with this name. `over` is what it stands on: "cursor", "elsewhere" (a cursor without the
        keyboard), "octet" (the cursor in a line), "lit", "headings", or nothing."""
        made = self._made.get((name, over))
        if made is None:
            made = self._made[name, over] = self.base + self._ground(over) + self._text(name)
        return made

    def _text(self, name: str) -> Style:
        look = LOOKS.get(name)
        if look is None:
            return _parsed(name) if self._has_colour else _parsed(name).without_color
        if not self._has_colour:
            return Style.parse(look.plain)
        colour = self._background.blend(self._colour(look.colour), look.strength)
        return Style.parse(look.attributes) + Style(color=colour.rich_color)

    def _ground(self, over: str) -> Style:
        if not self._has_colour:
            return PLAIN_GROUNDS.get(over, Style())
        match over:
            case "cursor":
                colour = self._background.blend(self._colour("primary"), CURSOR)
            case "elsewhere":
                colour = self._background.blend(self._colour("primary"), CURSOR_ELSEWHERE)
            case "octet":
                colour = self._colour("primary")
            case "lit":
                colour = self._background.blend(self._colour("accent"), LIT)
            case "headings":
                colour = self._background.blend(self._foreground, HEADING_ROW)
            case _:
                return Style()
        return Style(bgcolor=colour.rich_color)

    def _colour(self, variable: str) -> Color:
        try:
            return Color.parse(self._variables[variable])
        except (KeyError, ColorParseError):
            return Color.parse("#e0e0e0" if variable == "foreground" else "#121212")


def palette_of(widget: Widget) -> Palette:
    """The styles of a widget under the theme of now."""
    app = widget.app
    has_colour = not (app.no_color or app.native_ansi_color)
    return Palette(widget.rich_style, app.theme_variables, has_colour)


def _parsed(words: str) -> Style:
    try:
        return Style.parse(words)
    except StyleSyntaxError:
        return Style()
