from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

OPTIONS, INPUT, FILTERS, OUTPUT = "Options", "Input", "Filters", "Output"
DECODING, SECURITY, CAPTURE, MESSAGES = "Decoding", "Security", "Capture", "Messages"
HEADINGS = (OPTIONS, MESSAGES, FILTERS, INPUT, CAPTURE, OUTPUT, DECODING, SECURITY)
"""Headings in the order in which help prints them. A command's own options are under the first."""

AnyCommand = TypeVar("AnyCommand", bound=Callable[..., Any])


class Option(click.Option):
    """Help lists it under a heading of `HEADINGS`."""

    def __init__(self, *names: Any, heading: str = OPTIONS, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.heading = heading


class Command(click.Command):
    """Help lists its options under headings."""

    def options_by_heading(self, ctx: click.Context) -> dict[str, list[click.Option]]:
        """Group the options by heading, in the order in which help prints them."""
        found: dict[str, list[click.Option]] = {heading: [] for heading in HEADINGS}
        for each in self.get_params(ctx):
            if isinstance(each, click.Option) and not each.hidden:
                found[each.heading if isinstance(each, Option) else OPTIONS].append(each)
        if [each.name for each in found[OPTIONS]] == ["help"]:
            found[OPTIONS] = found.pop(OPTIONS)  # last: the command has no options of its own
        return {heading: options for heading, options in found.items() if options}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one list of options for each heading."""
        for heading, options in self.options_by_heading(ctx).items():
            records = [each.get_help_record(ctx) for each in options]
            with formatter.section(heading):
                formatter.write_dl([record for record in records if record is not None])


def command(**settings: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a `Command` of a function, with the settings of `click.command`."""
    decorator: Callable[[Callable[..., Any]], click.Command] = click.command(**{"cls": Command, **settings})
    return decorator


def options(*each: Callable[[AnyCommand], AnyCommand]) -> Callable[[AnyCommand], AnyCommand]:
    """Add several options to a command, in this order."""

    def add(command: AnyCommand) -> AnyCommand:
        for add_one in reversed(each):
            command = add_one(command)
        return command

    return add


def option(*names: str, heading: str = OPTIONS, **settings: Any) -> Callable[[AnyCommand], AnyCommand]:
    """Declare an option as `click.option` does, with a heading."""
    return click.option(*names, cls=Option, heading=heading, **settings)
