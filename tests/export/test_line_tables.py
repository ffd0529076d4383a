"""CSV as spreadsheets and programs read it, and JSON lines with columns left out."""

from __future__ import annotations

import csv
import io
import json
import pathlib
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.export.test_arrow import batches
from tests.export.test_json_lines import OPTIONS
from tests.readings import CAPTURES
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser, Batch, Options
from zmtpscope.export.files import OutputFile
from zmtpscope.export.json_lines import lines
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.tables import FORMULA, CsvTable, JsonLinesTable, by_type, json_cell, text_cell
from zmtpscope.records import RECORDS

DEALERS = CAPTURES / "patterns" / "multihop-proxy.pcap"


def written(
    table: type[JsonLinesTable | CsvTable], record: str, columns: tuple[str, ...], folder: pathlib.Path
) -> tuple[bytes, list[dict[str, Any]]]:
    """Return the table of a capture, and the JSON objects of the same records."""
    options, objects = Options(frames=True), []
    file = OutputFile(folder / "table")
    file.open()
    made = table(file, record, columns, options)
    for batch in Analyser(options).run(open_captures([str(DEALERS)])):
        for type_, part in by_type(batch):
            if type_ == record:
                made.add(part)
                objects += map(json.loads, lines(part, options))
    made.close()
    file.finish()
    file.commit()
    assert made.rows == len(objects) > 0
    return (folder / "table").read_bytes(), objects


def names(record: str) -> tuple[str, ...]:
    return tuple(field.name for field in RECORDS[record].fields)


def cell_of(value: Any) -> str:
    """A cell of the values in captures, which hold nothing that has to be escaped."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, separators=(",", ":"))


@pytest.mark.parametrize("record", ["connection", "greeting", "command", "message", "frame"])
def test_csv_holds_what_json_lines_do(record: str, tmp_path: pathlib.Path) -> None:
    octets, objects = written(CsvTable, record, names(record), tmp_path)
    header, *rows = csv.reader(io.StringIO(octets.decode(), newline=""))
    assert header == list(objects[0])
    assert rows == [[cell_of(value) for value in each.values()] for each in objects]


class Held:
    def __init__(self) -> None:
        self.octets = b""

    def write(self, octets: bytes) -> None:
        self.octets += octets


def odd(batch: Batch) -> Batch:
    """The batch with texts that look like the JSON around them, and some that would be formulas."""
    names = ['","file":"a","packet":1', '{"offset":1,"length":', "=1+1", "", None]
    types = ['","bodies_kept":"none', "PUB", "@a", ',"version":"\\', None]
    runs = [
        replace(run, senders=[run.sender._replace(version=types[-place], peer_socket_type=types[place % len(types)])])
        for place, run in enumerate(batch.messages)
    ]
    return Batch([names[len(runs)], names[-len(runs)]], messages=runs)


@given(batches().map(odd), st.sampled_from(OPTIONS))
def test_csv_holds_what_json_lines_do_of_any_messages(batch: Batch, options: Options) -> None:
    held = Held()
    table = CsvTable(cast(OutputFile, held), "message", names("message"), options)
    table.add(batch)
    _, *rows = csv.reader(io.StringIO(held.octets.decode(), newline=""))
    objects = [json.loads(line) for line in lines(batch, options)]
    assert table.rows == len(rows) == len(objects)
    for row, values in zip(rows, objects, strict=True):
        for cell, value in zip(row, values.values(), strict=True):
            if isinstance(value, str):
                assert cell.removeprefix("'") == safe_text(value)
            else:
                assert cell == cell_of(value) or json.loads(cell) == value


def test_csv_ends_lines_as_the_standard_has_it(tmp_path: pathlib.Path) -> None:
    octets, objects = written(CsvTable, "message", ("conn", "envelope"), tmp_path)
    assert octets.count(b"\r\n") == octets.count(b"\n") == len(objects) + 1
    assert octets.startswith(b"conn,envelope\r\n")


def test_wanted_columns_arrive_in_the_order_they_were_wanted_in(tmp_path: pathlib.Path) -> None:
    octets, objects = written(JsonLinesTable, "message", ("sizes", "ts_ns", "conn"), tmp_path)
    some = [{name: each[name] for name in ("sizes", "ts_ns", "time", "conn")} for each in objects]
    assert [list(json.loads(line).items()) for line in octets.splitlines()] == [list(each.items()) for each in some]


@given(st.text(st.sampled_from("=+-@'\t\r\n ,\"\\;a\x1b\u202e\uff1d")) | st.text())
def test_no_text_is_a_formula_or_more_than_a_cell(text: str) -> None:
    line = f"{text_cell(text)},end\r\n"
    assert line.count("\n") == line.count("\r") == 1
    [[cell, end]] = csv.reader(io.StringIO(line, newline=""))
    assert end == "end"
    assert safe_text(cell) == cell
    assert cell.lstrip()[:1] not in FORMULA
    assert cell.removeprefix("'") == safe_text(text)  # the first apostrophe of a cell is never data


@given(st.recursive(st.text() | st.integers(0, 9), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_lists_and_structs_are_ascii_json_in_a_cell(value: Any) -> None:
    [[cell]] = csv.reader(io.StringIO(json_cell(value), newline=""))
    assert cell.isascii()
    assert json.loads(cell) == value


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@sum(a1)", " =1", "\uff1d1", "'=1"])
def test_a_cell_is_never_a_formula(text: str) -> None:
    assert text_cell(text) == f"'{text}"


def test_nothing_and_empty_text_are_two_things() -> None:
    assert text_cell("") == '""'
