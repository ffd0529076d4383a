"""The contents of a screen as text."""

from __future__ import annotations

from string import ascii_letters

from textual.app import App
from textual.strip import Strip


def screen_strips(app: App[None]) -> list[Strip]:
    return app.screen._compositor.render_strips()


def screen_text(app: App[None]) -> str:
    return "\n".join(strip.text.rstrip() for strip in screen_strips(app))


def screen_looks(app: App[None]) -> str:
    """Return each line of the screen, below it a letter for each cell where these differ from the line before, and
    below all lines the styles that the letters mean."""
    letters: dict[str, str] = {}
    lines: list[str] = []
    before = ""
    for strip in screen_strips(app):
        looks = ""
        for segment in strip:
            style = str(segment.style).partition(" meta ")[0]
            looks += letters.setdefault(style, ascii_letters[len(letters)]) * len(segment.text)
        lines.append(strip.text.rstrip())
        if looks != before:
            lines.append(looks)
        before = looks
    return "\n".join(lines + [f"{letter}: {style}" for style, letter in letters.items()]) + "\n"
