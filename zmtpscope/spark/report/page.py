"""Build the page of a report from tables, and write it. Its files appear only when all are complete."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from zmtpscope.export.files import OutputFile
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.words import size
from zmtpscope.spark.report import units
from zmtpscope.spark.report.sections import SECTIONS, Row, Section, storm, version_and_mechanism
from zmtpscope.version import __version__
from zmtpscope.words import cut

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


SERIOUS = ("error", "warn")
MAX_ROWS = 20
"""Rows of a table in the page. The Parquet file has all."""
MAX_NAMED = 12
LONGEST_CELL, LONGEST_WORD = 160, 24
"""Characters of a cell and of a word: longer cells are cut, longer words are broken."""

HEADS = {
    "p50": "median",
    "p90": "90 %",
    "p99": "99 %",
    "p50_ns": "median",
    "p90_ns": "90 %",
    "p99_ns": "99 %",
    "messages_per_second": "messages/s",
    "octets_per_second": "octets/s",
    "mean_wait_ns": "mean wait",
    "greeted_p50_ns": "SYN to greetings",
    "ready_p50_ns": "greetings to READY",
    "id": "rule",
    "missed_early": "missed before",
}
"""Headings of columns, unless the name without `_ns` and `_` is good enough."""

SIZES = {"octets", "octets_sent", "octets_received", "smallest", "p50", "p90", "p99", "largest", "mean"}
MOMENTS = {"start", "end", "first", "last", "busiest_start"}
PLAIN = {"port", "packet"}


Clock = Callable[[int], str]


class About(NamedTuple):
    """Data for the head of the page: names of captures, width of intervals (s), problems of reading as sentences, and
    time ranges."""

    captures: Sequence[str]
    interval: float
    problems: Sequence[str] = ()
    periods: Sequence[tuple[int, int]] = ()
    """Periods that the captures cover (ns since 1970)."""


class Cell(NamedTuple):
    text: str
    style: str


class Shown(NamedTuple):
    section: Section
    wide: Markup
    narrow: Markup
    heads: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    more: str


def page(answers: Mapping[str, pa.Table], about: About) -> str:
    """Write the page as self-contained HTML. `answers` are the tables of `answers.answers` by name."""
    rows = {name: _rows(table) for name, table in answers.items()}
    clock = _clock(rows)
    causes = [row for row in rows["causes"] if row["because_of"] is None]
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["safe_text"] = safe_text
    template = environment.from_string(resources.files(__package__).joinpath("page.html").read_text("utf-8"))
    return template.render(
        about=about,
        named=about.captures[:MAX_NAMED],
        facts=_facts(rows, about),
        problems=about.problems,
        causes=[_cause(row, rows["causes"], clock) for row in causes[:MAX_ROWS]],
        more_causes=len(causes[MAX_ROWS:]),
        serious=[_finding(row, clock) for row in rows["findings_by_rule"] if row["severity"] in SERIOUS],
        handshakes=_handshakes(rows["handshake_times"]),
        storms=[_storm(row, clock) for row in rows["reconnect_storms"]],
        notes=[_finding(row, clock) for row in rows["findings_by_rule"] if row["severity"] == "note"],
        verdict=_verdict(rows, about),
        sections=[_shown(section, rows[section.name], about, clock) for section in SECTIONS],
        interval=units.duration(about.interval * 1e9),
        zmtpscope=__version__,
    )


def _clock(rows: Mapping[str, Sequence[Row]]) -> Clock:
    """Return a function that formats times; without the date if all times are on one day, which the head of the page
    shows."""
    named = (row[name] for each in rows.values() for row in each for name in MOMENTS & row.keys())
    days = {units.moment(moment)[:10] for moment in named if moment is not None}
    return units.time_of_day if len(days) == 1 else units.moment


def _rows(table: pa.Table) -> list[Row]:
    """Return the rows of a table; times are microseconds since 1970."""
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            times = table.column(index).cast(pa.timestamp("us"), safe=False).cast(pa.int64())
            table = table.set_column(index, field.name, times)
    rows: list[Row] = table.to_pylist()
    return rows


# -- the overview ----------------------------------------------------------------------------------------------------


def _facts(rows: Mapping[str, Sequence[Row]], about: About) -> list[tuple[str, str, str]]:
    """Return name, value and remark of each fact in the head of the page."""
    lives, sizes, peers = rows["connection_lifetimes"], rows["size_distribution"], rows["top_talkers"]
    handshakes, payloads = rows["handshake_times"], rows["payload_types"]
    connections, messages = _sum(lives, "connections"), _sum(sizes, "messages")
    facts = []
    if peers:
        first, last = min(row["first"] for row in peers), max(row["last"] for row in peers)
        covered, remark = (last - first) * 1000, f"from {units.moment(first)[:19]} UTC"
        if len(about.periods) > 1:
            covered = sum(end - start for start, end in about.periods)
            remark = f"in {len(about.periods)} periods {remark} to {units.moment(last)[:19]}"
        facts.append(("Time", units.duration(covered), remark))
    endpoints = len({(row["address"], row["port"]) for row in lives})
    complete, failed = _sum(handshakes, "complete"), _sum(handshakes, "failed")
    outcome = f"{units.count(complete)} complete handshakes" + (f", {units.count(failed)} failed" if failed else "")
    facts.append(("Connections", units.count(connections), outcome))
    facts.append(("Peers", units.count(len(peers)), f"{_number(endpoints, 'endpoint')} to connect to"))
    sealed = sum(row["messages"] for row in payloads if row["kind"] == "encrypted")
    remark = size(_sum(sizes, "octets")) + (f", {units.count(sealed)} sealed" if sealed else "")
    facts.append(("Messages", units.count(messages), remark))
    topics = sum(row["topic"] is not None for row in rows["topic_rates"])
    busiest = max(rows["throughput"], key=lambda row: row["messages"], default=None)
    if busiest is not None:
        peak = f"in the busiest {units.duration(about.interval * 1e9)}"
        facts.append(("Peak", f"{units.count(busiest['messages_per_second'])}/s", peak))
    facts.append(("Topics", units.count(topics), f"of {', '.join(_types(rows['topic_rates'])) or 'nobody'}"))
    return facts


def _types(topics: Sequence[Row]) -> list[str]:
    return sorted({safe_text(row["socket_type"]) for row in topics if row["topic"] is not None and row["socket_type"]})


def _sum(rows: Sequence[Row], column: str) -> int:
    return sum(row[column] for row in rows)


def _number(number: int, word: str) -> str:
    return f"{units.count(number)} {word}{'s' * (number != 1)}"


def _verdict(rows: Mapping[str, Sequence[Row]], about: About) -> str:
    counts = Counter(row["severity"] for row in rows["causes"] if row["because_of"] is None)
    words = [_number(counts["error"], "error")] if counts["error"] else []
    words += [_number(counts["warn"], "warning")] if counts["warn"] else []
    found = sum(row["findings"] for row in rows["findings_by_rule"] if row["severity"] in SERIOUS)
    words += [_number(found, "violation") + " of the protocols"] if found else []
    failed = _sum(rows["handshake_times"], "failed")
    words += [_number(failed, "failed handshake")] if failed else []
    words += [_number(len(rows["reconnect_storms"]), "reconnect storm")] if rows["reconnect_storms"] else []
    words += [f"{_number(len(about.problems), 'problem')} with the captures themselves"] if about.problems else []
    if not words:
        return "No errors, no warnings, no violations of the protocols, no failed handshakes, no reconnect storms."
    return f"{', '.join(words[:-1])} and {words[-1]}." if len(words) > 1 else f"{words[0]}."


def _cause(row: Row, causes: Sequence[Row], clock: Clock) -> dict[str, Any]:
    key = f"{row['rule']} {row['subject']}"
    text = f"likely: {row['text']}" if row["certainty"] == "likely" else row["text"]
    consequences = [each["text"] for each in causes if each["because_of"] == key]
    shown = {"id": row["rule"], "text": text, "times": _number(row["count"], "time"), "where": _where(row, clock)}
    return {**row, **shown, "section": "", "consequences": consequences}


def _finding(row: Row, clock: Clock) -> dict[str, Any]:
    times = _number(row["findings"], "time")
    if row["connections"]:
        times += f" on {_number(row['connections'], 'connection')}"
    return {**row, "times": times, "where": _where(row, clock), "consequences": []}


def _where(row: Row, clock: Clock) -> str:
    where = f"first at {clock(row['first'])} UTC"
    if row["packet"] is not None:
        where += f", packet {row['packet']}" + (f" of {row['file']}" if row["file"] else "")
    return where


def _handshakes(rows: Sequence[Row]) -> list[str]:
    return [
        f"{units.count(row['failed'])} of {_number(row['connections'], 'handshake')} failed: "
        + version_and_mechanism(row)
        for row in rows
        if row["failed"]
    ]


def _storm(row: Row, clock: Clock) -> dict[str, str]:
    when = f"from {clock(row['start'])} UTC"
    if row["end"] is not None:
        when += f", for {units.duration((row['end'] - row['start']) * 1000)}"
    if row["mean_wait_ns"] is not None:
        when += f", {units.duration(row['mean_wait_ns'])} from the end of a connection to the next"
    return {"text": storm(row), "when": when}


# -- sections --------------------------------------------------------------------------------------------------------


def _shown(section: Section, rows: Sequence[Row], about: About, clock: Clock) -> Shown:
    plot = section.draw(rows) if rows else None
    wide, narrow = (Markup(""), Markup("")) if plot is None else (Markup(plot.wide), Markup(plot.narrow))
    listed = rows
    if (order := section.order) is not None:
        listed = sorted((row for row in rows if row[order]), key=lambda row: -row[order])
    left_out = {*(() if len(about.captures) > 1 else ("file",)), *(section.averages if len(about.periods) > 1 else ())}
    names = [name for name in section.columns or (rows[0] if rows else ()) if name not in left_out]
    heads = [Cell(HEADS.get(name, name.removesuffix("_ns").replace("_", " ")), _style(name, rows)) for name in names]
    formats = {name: clock if name in MOMENTS else _format(name) for name in names}
    cells = [
        [_cell(row[name], head.style, formats[name]) for name, head in zip(names, heads, strict=True)]
        for row in listed[:MAX_ROWS]
    ]
    more = f"{len(cells)} of {units.count(len(rows))} rows" if len(cells) < len(rows) else ""
    return Shown(section, wide, narrow, heads, cells, more)


def _style(name: str, rows: Sequence[Row]) -> str:
    if name in MOMENTS:
        return "time"
    return "number" if any(isinstance(row[name], int | float) for row in rows) else "text"


def _cell(value: Any, style: str, format: Callable[[Any], str]) -> Cell:
    if value is None:
        return Cell(units.NOTHING, f"{style} unknown")
    text = format(value)
    return Cell(text, "long" if style == "text" and len(text) > LONGEST_WORD else style)


def _format(name: str) -> Callable[[Any], str]:
    if name in SIZES:
        return size
    if name == "octets_per_second":
        return lambda octets: f"{size(octets)}/s"
    if name in PLAIN:
        return str
    if name.endswith("_ns"):
        return units.duration
    return lambda value: units.count(value) if isinstance(value, int | float) else _text(value)


def _text(value: str) -> str:
    return cut(safe_text(value), LONGEST_CELL)


PAGE = "index.html"
FILES = (PAGE, *(f"{section.name}.parquet" for section in SECTIONS))


@contextmanager
def workspace(directory: Path) -> Iterator[Path]:
    """Return in a context a temporary directory within `directory`, which is created if missing."""
    made = not directory.exists()
    directory.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".analyze-", dir=directory))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if made:
            with suppress(OSError):  # it contains a report
                directory.rmdir()


def write_report(answers: Mapping[str, DataFrame], directory: Path, about: About, work: Path) -> list[Path]:
    """Compute the answers, and write their tables and the page. `work` is a temporary folder on the same
    file system."""
    tables = {name: _run(answer, work / name) for name, answer in answers.items()}
    files = [OutputFile(directory / name) for name in FILES]
    try:
        for file in files:
            file.open()
            if file.target.name == PAGE:
                file.write(page(tables, about).encode())
            else:
                pq.write_table(tables[file.target.stem], pa.PythonFile(file, "w"), compression="zstd")
            file.finish()
        for file in files:
            file.commit()
    finally:
        for file in files:
            file.discard()
    return [file.target for file in files]


def _run(answer: DataFrame, folder: Path) -> pa.Table:
    """Compute an answer. Spark writes the rows to a file, so that large results do not pass through JVM
    memory at once."""
    answer.write.parquet(str(folder))
    return pq.read_table(folder)
