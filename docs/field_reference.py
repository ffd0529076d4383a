"""Write field-reference.md from the fields themselves: `python docs/field_reference.py`."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Iterator

from zmtpscope.filter.examples import example_of
from zmtpscope.filter.fields import MADE, NAMES, FilterField, other_names
from zmtpscope.record_fields import COMMON, STREAM, Field
from zmtpscope.records import RECORDS

PAGE = pathlib.Path(__file__).with_name("field-reference.md")

INTRODUCTION = """\
# Every field

Made by `python docs/field_reference.py`; `zmtpscope fields` prints the same. The names are those of JSON lines and
tables ([records.md](records.md)), of filters ([filters.md](filters.md)) and of lines of your own
([fields.md](fields.md)). The example is a filter: `zmtpscope read my.pcap -Y 'topic == prices.EUR'`.
"""
HEAD = ("| field | type | meaning | also | example |", "|---|---|---|---|---|")


def page() -> str:
    """Return the page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield INTRODUCTION
    yield from _table("Every record", COMMON, None)
    yield from _table("Every record that stands for octets of a stream", STREAM, None)
    for type_ in RECORDS.values():
        own = [field for field in type_.fields if field not in COMMON and field not in STREAM]
        yield from _table(f"{type_.name}: {type_.meaning}", own, type_.name)
    yield from ("## In filters, and lines of your own, too", "", *HEAD)
    for made in MADE:
        yield _row(made.name, _type(made), made.meaning, None)
    yield from ("", "What rides inside is asked for by the way to it, such as `payload.fields.header.msg_type`.", "")
    yield from ("## Names of Wireshark", "", "| name | ours | a plain number n is | example |", "|---|---|---|---|")
    for name in NAMES:
        number = "n" + (f" * {name.scale:,}" if name.scale != 1 else "") + (f" + {name.shift}" if name.shift else "")
        only = f" (IPv{name.version} only)" if name.version else ""
        yield f"| `{name.name}` | `{name.ours}`{only} | {number} | {_code(example_of(name.name, None))} |"


def _table(title: str, fields: Iterable[Field], record: str | None) -> Iterator[str]:
    yield from (f"## {title}", "", *HEAD)
    for field in fields:
        unit = f" [{field.unit}]" if field.unit else ""
        yield _row(field.name, field.type, field.meaning + unit, record)
    yield ""


def _row(name: str, type_: str, meaning: str, record: str | None) -> str:
    also = ", ".join(f"`{other}`" for other in other_names(name, record))
    return f"| `{name}` | {_code(type_)} | {_cell(meaning)} | {also} | {_code(example_of(name, record))} |"


def _type(field: FilterField) -> str:
    of = "int" if "number" in field.type.value or "time" in field.type.value else "text"
    return f"list<{of}>" if field.is_list else of


def _code(text: str) -> str:
    return f"`{_cell(text)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
