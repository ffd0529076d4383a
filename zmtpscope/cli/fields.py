"""`zmtpscope fields`: reference of all records and fields."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import click

from zmtpscope.cli.parameters import command, flag
from zmtpscope.cli.terminal import terminal_width
from zmtpscope.export.types import spark_schema
from zmtpscope.export.wrap import wrap
from zmtpscope.record_fields import COMMON, METADATA, STREAM, Field
from zmtpscope.records import RECORDS, RecordType


@command(short_help="List every record type and field.")
@click.argument("records", nargs=-1, type=click.Choice(list(RECORDS)), metavar="[RECORD]...")
@flag("--json", "as_json", help="Print JSON lines, one object per field.")
@flag("--spark", help='Print a schema per record type for spark.read.schema("...").json("messages.jsonl").')
def fields(records: tuple[str, ...], as_json: bool, spark: bool) -> None:
    """List every field of every record type, or of each RECORD given: name, type, unit, meaning, other names in
    filters, and an example filter."""
    if as_json and spark:
        raise click.UsageError("--json and --spark are mutually exclusive")
    types = [RECORDS[name] for name in records or RECORDS]
    if spark:
        lines = _schemas(types)
    elif as_json:
        lines = _json_lines(types)
    else:
        lines = _table(types, with_filter_fields=not records)
    for line in lines:
        click.echo(line)


def _schemas(types: Sequence[RecordType]) -> Iterator[str]:
    for type_ in types:
        if len(types) > 1:
            yield f"-- {type_.name}"  # an SQL comment
        yield spark_schema(type_.name)


def _json_lines(types: Sequence[RecordType]) -> Iterator[str]:
    from zmtpscope.filter.examples import example_of
    from zmtpscope.filter.fields import other_names

    for type_ in types:
        for field in type_.fields:
            filters = {
                "aliases": other_names(field.name, type_.name),
                "example": example_of(field.name, type_.name),
            }
            yield json.dumps({"record": type_.name, **field._asdict(), **filters})


def _table(types: Sequence[RecordType], *, with_filter_fields: bool) -> Iterator[str]:
    """Yield the lines of the list of fields, under headings: fields that records share, then fields of each type.

    With `with_filter_fields`, also fields that exist only in filters.
    """
    from zmtpscope.filter.fields import MADE, Type

    yield "every record"
    yield from _rows(COMMON, None)
    yield "\nevery record of octets in a stream"
    yield from _rows(STREAM, None)
    for type_ in types:
        yield f"\n{type_.name}: {type_.meaning}"
        yield from _rows([field for field in type_.fields if field not in COMMON and field not in STREAM], type_.name)
    if with_filter_fields:
        yield "\nin filters, too"
        for made in MADE:
            type_name = "text" if made.type in (Type.TEXT, Type.ADDRESS) else "int"
            yield from _rows(
                [Field(made.name, f"list<{type_name}>" if made.is_list else type_name, made.meaning)], None
            )


def _rows(fields: Sequence[Field], record: str | None) -> Iterator[str]:
    """Yield a table row for each field of a record type (None: fields of all types)."""
    from zmtpscope.filter.examples import example_of
    from zmtpscope.filter.fields import other_names

    width = terminal_width()
    for field in fields:
        unit = f" [{field.unit}]" if field.unit else ""
        aliases = other_names(field.name, record)
        also = f"also: {', '.join(aliases)}; " if aliases else ""
        front = f"  {field.name:<18} {_short_type(field.type):<20} "
        words = f"{field.meaning}{unit} ({also}e.g. {example_of(field.name, record)})"
        yield front + words if width is None else wrap(front, len(front), words, width)


def _short_type(type_: str) -> str:
    """Return the type of a field without its members: `struct`, `list<struct>`; but `list<{name, value}>` for
    properties."""
    if type_ == METADATA:
        return "list<{name, value}>"
    return type_.partition("struct<")[0] + "struct" + ">" * type_.startswith("list<") if "struct<" in type_ else type_
