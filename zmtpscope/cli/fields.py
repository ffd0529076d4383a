"""`zmtpscope fields`: reference of all records and fields."""

from __future__ import annotations

import json
import sys

import click

from zmtpscope.cli.parameters import command, flag
from zmtpscope.cli.terminal import terminal_width
from zmtpscope.export.types import spark_schema
from zmtpscope.export.wrap import wrap
from zmtpscope.record_fields import COMMON, STREAM, Field
from zmtpscope.records import RECORDS, RecordType


@command(short_help="List every record type and field.")
@click.argument("records", nargs=-1, type=click.Choice(list(RECORDS)), metavar="[RECORD]...")
@flag("--json", "as_json", help="Print JSON lines, one object per field.")
@flag("--spark", help='Print a schema per record type for spark.read.schema("...").json("messages.jsonl").')
def fields(records: tuple[str, ...], as_json: bool, spark: bool) -> None:
    """List every field of every record type, or of each RECORD given: name, type, unit, meaning, other names in
    filters, and an example filter."""
    from zmtpscope.filter.examples import example_of
    from zmtpscope.filter.fields import MADE, Type, other_names

    if as_json and spark:
        raise click.UsageError("--json and --spark are mutually exclusive")
    types = [RECORDS[name] for name in records or RECORDS]
    write = sys.stdout.write
    if spark:
        for type_ in types:
            if len(types) > 1:
                write(f"-- {type_.name}\n")  # an SQL comment
            write(f"{spark_schema(type_.name)}\n")
        return
    if as_json:
        for type_ in types:
            for field in type_.fields:
                aliases = other_names(field.name, type_.name)
                values = {**field._asdict(), "aliases": aliases, "example": example_of(field.name, type_.name)}
                write(json.dumps({"record": type_.name, **values}) + "\n")
        return
    write("every record\n")
    for field in COMMON:
        write(_line(field, other_names(field.name, None), example_of(field.name, None)))
    write("\nevery record of octets in a stream\n")
    for field in STREAM:
        write(_line(field, other_names(field.name, None), example_of(field.name, None)))
    for type_ in types:
        write(f"\n{type_.name}: {type_.meaning}\n")
        for field in _own(type_):
            write(_line(field, other_names(field.name, type_.name), example_of(field.name, type_.name)))
    if not records:
        write("\nin filters, too\n")
        for made in MADE:
            type_name = "text" if made.type in (Type.TEXT, Type.ADDRESS) else "int"
            field = Field(made.name, f"list<{type_name}>" if made.is_list else type_name, made.meaning)
            write(_line(field, other_names(made.name, None), example_of(made.name, None)))


def _own(type_: RecordType) -> list[Field]:
    return [field for field in type_.fields if field not in COMMON and field not in STREAM]


def _line(field: Field, aliases: list[str], example: str) -> str:
    type_ = (
        "list<{name, value}>"
        if field.type.startswith("list<struct")
        else field.type.partition("<name")[0] or field.type
    )
    if field.type.startswith("struct"):
        type_ = "struct"
    unit = f" [{field.unit}]" if field.unit else ""
    also = f"also: {', '.join(aliases)}; " if aliases else ""
    front, words = f"  {field.name:<18} {type_:<20} ", f"{field.meaning}{unit} ({also}e.g. {example})"
    width = terminal_width()
    return (front + words if width is None else wrap(front, len(front), words, width)) + "\n"
