"""How what is shown looks: a table of names, made into colours by the theme, or into bold and dim without colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rich.errors import StyleSyntaxError
from rich.segment import Segment
from rich.style import Style
from textual.color import Color, ColorParseError
from textual.filter import LineFilter
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
    "greeting": Look("text-primary", 0.8),
    "command": Look("text-primary", 0.8),
    "connection": Look("text-success", 0.8, plain="bold"),
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
    "field": Look(strength=0.7),
    "value": NORMAL,
    "zero": FAINT,
    "link": Look("text-primary", attributes="underline", plain="underline"),
    "secret": Look("text-warning", 0.8, plain="dim"),
    "mark": Look("accent", attributes="bold", plain="bold"),
    "good": Look("text-success", plain="bold"),
}
GROUNDS: Mapping[str, tuple[str, float]] = {
    "cursor": ("primary", 0.42),
    "cell": ("primary", 0.62),
    "elsewhere": ("primary", 0.18),
    "octet": ("primary", 1.0),
    "lit": ("accent", 0.22),
    "headings": ("foreground", 0.07),
}
"""What texts stand on, as a variable of the theme, mixed with the background: the line with the cursor, the cell or the
octet in it, the cursor where the keyboard is elsewhere, octets that a field has, headings."""

BRIGHTER = {"cursor": 0.5, "cell": 0.8, "octet": 1.0, "lit": 0.35}
"""How far texts on a ground are moved to the foreground, so that they can be read there."""
PLAIN_GROUNDS: Mapping[str, Style] = {
    "cursor": Style(reverse=True),
    "cell": Style(reverse=True, bold=True, underline=True),
    "elsewhere": Style(bold=True),
    "octet": Style(reverse=True, bold=True),
    "lit": Style(reverse=True),
}


class Palette:
    """The styles of a widget, under one theme. Names that nobody knows are read as colours (`bold red`, `#a0c0ff`), as
    in colour rules; those that are none look like plain text."""

    def __init__(
        self, base: Style, variables: Mapping[str, str], has_colour: bool, filters: Sequence[LineFilter] = ()
    ) -> None:
        self._base = base if has_colour else base.without_color
        self._variables = variables
        self._has_colour = has_colour
        self._foreground = self._colour("foreground")
        self._background = Color.from_rich_color(base.bgcolor) if base.bgcolor else self._colour("background")
        self._filters = filters
        self._made: dict[tuple[str, str], Style] = {}
        self.base = self._filtered(self._base)
        """The style of nothing."""

    def style(self, name: str, over: str = "") -> Style:
        """The style of a text with this name, over one of `GROUNDS` or nothing."""
        made = self._made.get((name, over))
        if made is None:
            made = self._filtered(self._base + self._ground(over) + self._text(name, over))
            self._made[name, over] = made
        return made

    def _filtered(self, style: Style) -> Style:
        """What filters of Textual make of a style: once for each style, where they do it for each line."""
        for line_filter in self._filters:
            style = line_filter.apply([Segment("", style)], self._background)[0].style or style
        return style

    def _text(self, name: str, over: str) -> Style:
        look = LOOKS.get(name)
        if look is None:
            return _parsed(name) if self._has_colour else _parsed(name).without_color
        if not self._has_colour:
            return Style.parse(look.plain)
        colour = self._background.blend(self._colour(look.colour), look.strength)
        colour = colour.blend(self._foreground, BRIGHTER.get(over, 0))
        return Style.parse(look.attributes) + Style(color=colour.rich_color)

    def _ground(self, over: str) -> Style:
        if not self._has_colour:
            return PLAIN_GROUNDS.get(over, Style())
        if over not in GROUNDS:
            return Style()
        colour, strength = GROUNDS[over]
        return Style(bgcolor=self._background.blend(self._colour(colour), strength).rich_color)

    def _colour(self, variable: str) -> Color:
        try:
            return Color.parse(self._variables[variable])
        except (KeyError, ColorParseError):
            return Color.parse("#e0e0e0" if variable == "foreground" else "#121212")


def palette_of(widget: Widget) -> Palette:
    """The styles of a widget under the theme of now."""
    app = widget.app
    has_colour = not (app.no_color or app.native_ansi_color)
    return Palette(widget.rich_style, app.theme_variables, has_colour, widget.get_line_filters())


def _parsed(words: str) -> Style:
    try:
        return Style.parse(words)
    except StyleSyntaxError:
        return Style()
