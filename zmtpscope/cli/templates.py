"""The options `-T fields`, `-e`, `-E` and `--format`, with which users choose the format of lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.filters import BadFilter
from zmtpscope.cli.parameters import OUTPUT

if TYPE_CHECKING:
    from zmtpscope.templates import Template

NO_TYPES = {"json": "--json writes JSON lines", "text": "text is the output without -T"}


def parse_type(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value not in (None, "fields"):
        raise click.BadParameter(
            f"{value!r} is not supported; {NO_TYPES.get(value or '', 'no other type is supported')}"
        )
    return value


def complete_field(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the names of fields that start with `incomplete`."""
    from zmtpscope.filter.fields import FIELDS  # slow to build

    return [name for name in FIELDS if name.startswith(incomplete)]


TYPE = OUTPUT.option(
    "-T", "output_type", callback=parse_type, metavar="fields", help="Print only the fields named with -e, in columns."
)
FIELD = OUTPUT.option(
    "-e",
    "shown_fields",
    multiple=True,
    shell_complete=complete_field,
    metavar="FIELD",
    help="With -T fields: print this field, for example topic, size or payload.fields.price; repeatable. `zmtpscope "
    "fields` lists them.",
)
SEPARATORS = OUTPUT.option(
    "-E",
    "separators",
    multiple=True,
    metavar="OPTION=VALUE",
    help="With -T fields: separator=/t|/s|C (tab, space or a character), header=y|n, quote=d|s|n (double, single, "
    "none), occurrence=f|l|a (first, last or all values) and aggregator=,|/s|C between values "
    "[default: separator=/t header=n quote=n occurrence=a aggregator=,].",
)
FORMAT = OUTPUT.option(
    "--format",
    "template",
    metavar="TEMPLATE",
    help=r"Print each record in this format, for example '{time} {topic} {size}' (\n newline, \t tab, {{ brace).",
)
TEMPLATE_OPTIONS = (TYPE, FIELD, SEPARATORS, FORMAT)


def parsed_template(given: dict[str, Any]) -> Template | None:
    """Return the template that the options describe, or None. Raises `click.UsageError`."""
    if given["output_type"] is None:
        for parameter, option in (("shown_fields", "-e"), ("separators", "-E")):
            if given[parameter]:
                raise click.UsageError(f"{option} needs -T fields")
        return None if given["template"] is None else _parsed("--format", lambda: _of_text(given["template"]))
    if given["template"] is not None:
        raise click.UsageError("-T fields and --format are mutually exclusive")
    if not given["shown_fields"]:
        raise click.UsageError("-T fields needs columns: -e topic -e size (zmtpscope fields lists all)")
    return _parsed("-e", lambda: _of_fields(given["shown_fields"], given["separators"]))


def _of_text(text: str) -> Template:
    from zmtpscope.templates import parse_template

    return parse_template(text)


def _of_fields(names: tuple[str, ...], options: tuple[str, ...]) -> Template:
    from zmtpscope.templates import of_fields, parse_separators

    try:
        separators = parse_separators(options)
    except ValueError as error:
        raise click.UsageError(f"-E: {error}") from None
    return of_fields(names, separators)


def _parsed(option: str, parse: Callable[[], Template]) -> Template:
    """Call `parse` for the value of `option`. An error is a usage error, with carets below the wrong part."""
    from zmtpscope.filter import FilterError

    try:
        return parse()
    except FilterError as error:
        sentence, *shown = str(error).split("\n")
        raise BadFilter(f"{option}: {sentence}", tuple(shown)) from None
