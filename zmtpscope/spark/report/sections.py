"""The sections of the page: title, lead, plot and table columns for each answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from zmtpscope.export.safe_text import safe_text
from zmtpscope.records import SECOND
from zmtpscope.spark.report import plots, units
from zmtpscope.spark.report.plots import SERIES, Part, Plot, Range
from zmtpscope.words import host_port

Row = dict[str, Any]

MAX_DRAWN = 12
LONGEST_SILENCE = 60
"""Consecutive empty intervals drawn. A longer silence separates two periods."""


class Section(NamedTuple):
    """A section of the page. `lead` explains the numbers, `nothing` is the text if there are no rows, and `draw` makes
    the plot."""

    name: str
    title: str
    lead: str
    nothing: str
    draw: Draw
    columns: tuple[str, ...] = ()
    """Columns of the page's table; empty: all."""
    order: str | None = None
    """Column by which the page's table is sorted, descending and without zeros."""
    averages: tuple[str, ...] = ()
    """Averages over the whole time, left out for captures of several periods."""


def _peer(row: Row) -> str:
    """Name a peer: `"worker-1" 10.0.0.2 DEALER`, `10.0.0.1:5555 ROUTER`."""
    words = [_quoted(row["identity"])] if row.get("identity") else []
    words.append(_endpoint(row["address"], row["port"]))
    return " ".join([*words, row["socket_type"] or "of unknown type"])


def _endpoint(address: str | None, port: int | None) -> str:
    if address is None:
        return "others"
    return address if port is None else str(host_port(address, port))


def _quoted(text: str) -> str:
    return f'"{text}"'


def _topic(row: Row) -> str:
    topic = "no topic known" if row["topic"] is None else _quoted(row["topic"])
    return f"{topic}  {row['socket_type'] or 'socket type unknown'}"


SIZES = ("smallest", "p50", "p90", "p99", "largest")
DURATIONS = ("shortest_ns", "p50_ns", "p90_ns", "p99_ns", "longest_ns")
HOW_TO_READ = "thick up to the 90th of 100, the dot is the median, the mark the 99th"


Draw = Callable[[Sequence[Row]], Plot | None]
Label = Callable[[Row], str]
Unit = Callable[[float], str]


def _bars(title: str, label: Label, unit: Unit, *parts: tuple[str | None, str, str], where: str | None = None) -> Draw:
    """Return a function that draws a bar for each row, of several parts: a word for the legend, a column and a colour.

    Rows without a value in the column `where` are left out.
    """

    def draw(rows: Sequence[Row]) -> Plot | None:
        shown = [row for row in rows if where is None or row[where]][:MAX_DRAWN]
        made = [Part(word, [row[name] or 0 for row in shown], [colour]) for word, name, colour in parts]
        return plots.bars(title, _safe(map(label, shown)), made, unit)

    return draw


def _ranges(title: str, label: Label, unit: Unit = units.duration, names: Sequence[str] = DURATIONS) -> Draw:
    """Return a function that draws, for each row, the range from the smallest to the largest of the columns `names`.

    The second column is the median. Rows without values are left out.
    """

    def draw(rows: Sequence[Row]) -> Plot | None:
        shown = [row for row in rows if row[names[1]] is not None][:MAX_DRAWN]
        ranges = [Range(*(row[name] for name in names)) for row in shown]
        return plots.ranges(title, _safe(map(label, shown)), ranges, unit) if shown else None

    return draw


def _at(row: Row) -> str:
    return _endpoint(row["address"], row["port"])


def _payload(row: Row) -> str:
    return row["protocol"] or ("sealed" if row["kind"] == "encrypted" else "nothing known")


def _findings(rows: Sequence[Row]) -> Plot | None:
    shown = rows[:MAX_DRAWN]
    labels = [f"{row['severity']} {row['id']}" for row in shown]
    part = Part(None, [row["findings"] for row in shown], [row["severity"] for row in shown])
    return plots.bars("Findings by rule", _safe(labels), [part], units.count)


def _storms(rows: Sequence[Row]) -> Plot | None:
    shown = rows[:MAX_DRAWN]
    labels = [storm(row) for row in shown]
    colours = ["warn" if row["outcome"] == "closed" else "error" for row in shown]
    moments = [(row["start"], row["end"]) for row in shown]
    return plots.spans("When clients reconnected again and again", _safe(labels), moments, colours)


def storm(row: Row) -> str:
    """Describe a series of reconnects: `10.0.0.2 tried 20 times to connect to 10.0.0.1:5555: refused`."""
    who, where = row["client"] or "others", _endpoint(row["address"], row["port"])
    if row["outcome"] == "closed":
        return f"{who} connected {row['connections']:,} times to {where}; each connection failed or was closed"
    return f"{who} tried {row['connections']:,} times to connect to {where}: {row['outcome']}"


def _throughput(rows: Sequence[Row]) -> Plot | None:
    steps = [after["start"] - before["start"] for before, after in pairwise(rows)]
    width = min(steps, default=SECOND // 1000) / 1e6
    rows = _without_silences(rows)
    starts = [row["start"] for row in rows]
    panels = [
        plots.Panel("messages/s", [row["messages_per_second"] for row in rows], units.short_count, "series-1"),
        plots.Panel("octets/s", [row["octets_per_second"] for row in rows], units.short_size, "series-2"),
    ]
    return plots.curves("Messages and octets a second over time", starts, width, panels)


def _without_silences(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of intervals; of a long silence, only the first interval."""
    found: list[Row] = []
    for is_silent, run in groupby(rows, lambda row: row["messages"] == 0):
        some = list(run)
        found += some[:1] if is_silent and len(some) > LONGEST_SILENCE else some
    return found


def _size_histogram(rows: Sequence[Row]) -> Plot | None:
    shown = rows[: len(SERIES)]
    lows = sorted({bucket["low"] for row in shown for bucket in row["histogram"]})
    # empty buckets in between are also shown
    buckets = [0] * (lows[0] == 0) + [1 << bit for bit in range(lows[-1].bit_length()) if 1 << bit >= (lows[0] or 1)]
    parts = []
    for row, colour in zip(shown, SERIES, strict=False):
        counts = {bucket["low"]: bucket["messages"] for bucket in row["histogram"]}
        name = safe_text(row["socket_type"] or "unknown")
        parts.append(Part(name, [counts.get(low, 0) for low in buckets], [colour]))
    labels = [units.power_of_two(low) for low in buckets]
    return plots.columns("Messages by size", labels, parts, units.short_count)


def version_and_mechanism(row: Row) -> str:
    """Return ZMTP version and mechanism as text: `3.1 CURVE`, `2.0`."""
    version = row["version"] or "no version agreed"
    over = ["over WebSocket"] if row["transport"] == "ws" else []
    return " ".join([version, *([row["mechanism"]] if row["mechanism"] else []), *over])


def _versions(rows: Sequence[Row]) -> Plot | None:
    counts: dict[str, int] = {}
    for row in rows:
        word = f"announces {row['announced'] or 'nothing known'} {row['mechanism'] or ''}".rstrip()
        version_and_mechanism = f"{word}, speaks {row['version'] or 'no agreed version'}"
        counts[version_and_mechanism] = counts.get(version_and_mechanism, 0) + row["connections"]
    shown = sorted(counts.items(), key=lambda item: -item[1])[:MAX_DRAWN]
    part = Part(None, [number for _, number in shown], ["series-1"])
    return plots.bars("Greetings by version", _safe(word for word, _ in shown), [part], units.short_count)


def _no_plot(rows: Sequence[Row]) -> Plot | None:
    return None


def _safe(labels: Any) -> list[str]:
    return [safe_text(label) for label in labels]


SECTIONS = (
    Section(
        "causes",
        "Diagnoses",
        "Diagnoses of zmtpscope check: the cause, and the packet where the evidence begins.",
        "No problem was found.",
        _no_plot,
        ("severity", "rule", "text", "certainty", "count", "because_of", "first", "packet", "file"),
    ),
    Section(
        "findings_by_rule",
        "Findings",
        "Findings by id, the worst first, with the packet of the first one.",
        "No findings.",
        _findings,
        ("severity", "id", "text", "findings", "count", "connections", "first", "packet", "file"),
    ),
    Section(
        "reconnect_storms",
        "Reconnect storms",
        "Clients that connect repeatedly: more than five times within a minute after connections that failed or "
        "that the other side closed, or more than five failed attempts.",
        "No client connected repeatedly.",
        _storms,
    ),
    Section(
        "request_latency",
        "Replies",
        f"Time from a request to its reply, for each server: {HOW_TO_READ}.",
        "No requests.",
        _ranges(
            "How long replies took",
            lambda row: f"{_at(row)}  {row['peer_socket_type'] or 'unknown'}  {row['answered']:,} answered",
        ),
    ),
    Section(
        "delivery_gaps",
        "Missed messages",
        "Subscribers that received fewer messages of a topic than another subscriber of the same publisher: messages "
        "published before they subscribed, and while they were subscribed. The numbers are lower bounds.",
        "No subscriber received less than another one.",
        _bars(
            "Messages missed by subscriber",
            lambda row: f"{_quoted(row['topic'])} to {row['subscriber']}",
            units.short_count,
            ("before it subscribed", "missed_early", "note"),
            ("while it was subscribed", "missed", "warn"),
        ),
    ),
    Section(
        "slow_consumers",
        "Slow consumers",
        "Receivers that closed their receive window, which stops the sender.",
        "No receiver closed its window.",
        _bars(
            "How long receivers did not receive",
            lambda row: f"{_at(row)}  {row['stalls']:,} times",
            units.duration,
            (None, "stalled_ns", "warn"),
        ),
    ),
    Section(
        "heartbeat_rtt",
        "Heartbeats",
        f"Time from a PING to its PONG: {HOW_TO_READ}.",
        "No PINGs.",
        _ranges(
            "How long PONGs took", lambda row: f"{_at(row)}  asked by {row['asker']}  {row['answered']:,} answered"
        ),
    ),
    Section(
        "throughput",
        "Throughput",
        "Messages and octets a second over time. The table has the busiest intervals.",
        "No messages.",
        _throughput,
        order="messages",
    ),
    Section(
        "top_talkers",
        "Peers",
        "Peers by messages and octets. A listening peer has a port; subscriptions sent as messages count.",
        "No ZMTP connections.",
        _bars(
            "Octets sent and received by peer",
            _peer,
            units.short_size,
            ("sent", "octets_sent", "series-1"),
            ("received", "octets_received", "series-2"),
        ),
    ),
    Section(
        "topic_rates",
        "Topics",
        "How often each topic is sent: a message to three subscribers is three messages, as on the wire.",
        "No messages.",
        _bars("Messages by topic", _topic, units.short_count, (None, "messages", "series-1")),
        averages=("messages_per_second",),
    ),
    Section(
        "topic_fanout",
        "Fan-out",
        "Number of subscribers of each topic, and the messages sent to all of them.",
        "No messages were published.",
        _bars(
            "Messages sent by topic, to all subscribers",
            lambda row: f"{_quoted(row['topic'])} to {row['subscribers']:,}",
            units.short_count,
            (None, "sent", "series-1"),
            where="sent",
        ),
    ),
    Section(
        "subscription_churn",
        "Subscriptions",
        "Number of subscriptions of each subscriber, and how they ended.",
        "No subscriptions.",
        _bars(
            "Subscriptions by subscriber",
            lambda row: f"{row['subscriber']} at {_at(row)}",
            units.short_count,
            (None, "subscriptions", "series-1"),
        ),
    ),
    Section(
        "topic_sizes",
        "Sizes by topic",
        f"Message sizes from smallest to largest: {HOW_TO_READ}.",
        "No messages.",
        _ranges("Sizes of messages by topic", _topic, units.short_size, SIZES),
    ),
    Section(
        "size_distribution",
        "Sizes",
        "Messages by size, for each sending socket type. Buckets begin at powers of two.",
        "No messages.",
        _size_histogram,
        ("socket_type", "messages", "octets", *SIZES, "mean"),
    ),
    Section(
        "payload_types",
        "Payloads",
        "Payloads of messages, by dissector.",
        "No messages.",
        _bars("Messages by payload", _payload, units.short_count, (None, "messages", "series-1")),
    ),
    Section(
        "connection_lifetimes",
        "Connections",
        f"How long connections to each endpoint lasted, and how they ended: {HOW_TO_READ}. Those that are open at the "
        "end, or began before the capture, lasted longer.",
        "No ZMTP connections.",
        _ranges("How long connections lasted", lambda row: f"{_at(row)}  {row['connections']:,} {row['close']}"),
    ),
    Section(
        "handshake_times",
        "Handshakes",
        f"Time from the SYN to the last READY, or to the later greeting without READY: {HOW_TO_READ}.",
        "No ZMTP connections.",
        _ranges("How long handshakes took", lambda row: f"{version_and_mechanism(row)}  {row['timed']:,} timed"),
    ),
    Section(
        "version_inventory",
        "Versions",
        "Versions and mechanisms that peers announce, and the versions agreed.",
        "No greetings.",
        _versions,
    ),
)
