"""Styles of text by name: theme colours, or bold and dim on terminals without colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple

from rich.errors import StyleSyntaxError
from rich.segment import Segment
from rich.style import Style
from textual.color import Color, ColorParseError
from textual.filter import LineFilter
from textual.widget import Widget


class Look(NamedTuple):
    """How a kind of text looks: a theme colour, mixed with the background by `strength`; `plain` is its style without
    colour."""

    colour: str = "foreground"
    strength: float = 1.0
    attributes: str = ""
    plain: str = ""


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
    "stall": Look("text-warning", plain="bold"),
    "retransmission": Look("text-warning", plain="bold"),
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
    "member": NORMAL,
    "zero": FAINT,
    "link": Look("text-primary", attributes="underline", plain="underline"),
    "secret": Look("text-warning", 0.8, plain="dim"),
    "mark": Look("accent", attributes="bold", plain="bold"),
    "left": Look("text-primary"),
    "right": Look("text-success"),
    "good": Look("text-success", plain="bold"),
}


class Ground(NamedTuple):
    """How a background looks: a theme colour, mixed with the normal background by `strength`; `plain` is its style
    without colour."""

    colour: str
    strength: float
    brighter: float
    """How far text colours are mixed with the foreground, to stay readable."""
    plain: str


GROUNDS: Mapping[str, Ground] = {
    "cursor": Ground("primary", 0.42, 0.5, "reverse"),
    "cell": Ground("primary", 0.62, 0.8, "reverse bold underline"),  # in the line with the cursor
    "elsewhere": Ground("primary", 0.18, 0.0, "bold"),  # the line with the cursor, without focus
    "octet": Ground("primary", 1.0, 1.0, "reverse bold"),
    "lit": Ground("accent", 0.22, 0.35, "reverse"),
    "headings": Ground("foreground", 0.07, 0.0, ""),
}
NO_GROUND = Ground("background", 0.0, 0.0, "")


class Colours(Enum):
    """Which colours the interface uses: the palette of the terminal, or a theme that the user chose."""

    ALL = auto()
    SIXTEEN = auto()
    NONE = auto()


class Palette:
    """The styles that a widget uses in one theme, by name.

    Other names are Rich styles (`bold red`, `#a0c0ff`) of colour rules; an invalid one gives plain text.
    """

    def __init__(
        self, base: Style, variables: Mapping[str, str], colours: Colours, filters: Sequence[LineFilter] = ()
    ) -> None:
        self._base = base if colours is Colours.ALL else base.without_color
        self._variables = variables
        self._colours = colours
        self._foreground = self._colour("foreground")
        self._background = Color.from_rich_color(base.bgcolor) if base.bgcolor else self._colour("background")
        self._filters = filters
        self._made: dict[tuple[str, str], Style] = {}
        self.base = self._filtered(self._base)
        """The style of empty cells."""

    def style(self, name: str, over: str = "") -> Style:
        """Return the style with this name, on the background `over`: one of `GROUNDS`, or "" for the normal one."""
        made = self._made.get((name, over))
        if made is None:
            ground = GROUNDS.get(over, NO_GROUND)
            style = self._full(name, ground) if self._colours is Colours.ALL else self._plain(name, ground)
            made = self._made[name, over] = self._filtered(self._base + style)
        return made

    def _filtered(self, style: Style) -> Style:
        """Return a style after Textual's line filters, so that they need not be applied to each line."""
        for line_filter in self._filters:
            style = line_filter.apply([Segment("", style)], self._background)[0].style or style
        return style

    def _full(self, name: str, ground: Ground) -> Style:
        below = self._background.blend(self._colour(ground.colour), ground.strength)
        style = Style(bgcolor=below.rich_color) if ground.strength else Style()
        look = LOOKS.get(name)
        if look is None:
            return style + _parsed(name)
        colour = self._background.blend(self._colour(look.colour), look.strength)
        brightest = below.get_contrast_text(1) if ground.strength == 1 else self._foreground
        colour = colour.blend(brightest, ground.brighter)
        return style + Style.parse(look.attributes) + Style(color=colour.rich_color)

    def _plain(self, name: str, ground: Ground) -> Style:
        look = LOOKS.get(name)
        style = Style.parse(ground.plain) + (_parsed(name) if look is None else Style.parse(look.plain))
        if self._colours is Colours.NONE:
            return style.without_color
        if look is None or look.colour == "foreground" or "reverse" in ground.plain:
            return style
        return style + Style(color=self._colour(look.colour).rich_color)

    def _colour(self, variable: str) -> Color:
        try:
            return Color.parse(self._variables[variable])
        except (KeyError, ColorParseError):
            return Color.parse("#e0e0e0" if variable == "foreground" else "#121212")


class Painted(Widget):
    """A widget that draws its lines with a palette."""

    _palette: Palette | None = None

    @property
    def palette(self) -> Palette:
        if self._palette is None:
            app = self.app
            colours = Colours.NONE if app.no_color else Colours.SIXTEEN if app.native_ansi_color else Colours.ALL
            self._palette = Palette(self.rich_style, app.theme_variables, colours, self.get_line_filters())
        return self._palette

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._palette = None


def is_style(name: str) -> bool:
    return name in LOOKS or bool(_parsed(name))


def _parsed(words: str) -> Style:
    try:
        return Style.parse(words)
    except StyleSyntaxError:
        return Style()
