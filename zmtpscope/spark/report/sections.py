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
"""Maximum number of rows in a plot."""
LONGEST_SILENCE = 60
"""Maximum number of consecutive empty intervals drawn. A longer silence separates two periods."""


class Section(NamedTuple):
    """A section of the page. `lead` explains the counts, `nothing` the absence of rows, and `draw` makes the plot."""

    name: str
    title: str
    lead: str
    nothing: str
    draw: Callable[[Sequence[Row]], Plot | None]
    columns: tuple[str, ...] = ()
    """Columns of the page's table; empty: all."""
    order: str | None = None
    """Column by which the page's table is sorted, descending and without zeros; None: not sorted."""
    averages: tuple[str, ...] = ()
    """Columns that are averages over the whole time, left out for captures of several periods."""


def _peer(row: Row) -> str:
    """Format a peer: `"worker-1" 10.0.0.2 DEALER`, `10.0.0.1:5555 ROUTER`."""
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


def _range(row: Row, names: Sequence[str]) -> Range:
    return Range(*(row[name] for name in names))


SIZES = ("smallest", "p50", "p90", "p99", "largest")
DURATIONS = ("shortest_ns", "p50_ns", "p90_ns", "p99_ns", "longest_ns")
HOW_TO_READ = "thick up to the 90th of 100, the dot is the median, the mark the 99th"


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
    """Format a storm: `10.0.0.2 tried 20 times to connect to 10.0.0.1:5555: refused`."""
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
    """Return the intervals, keeping only the first of a long silence."""
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


def _talkers(rows: Sequence[Row]) -> Plot | None:
    shown = rows[:MAX_DRAWN]
    parts = [
        Part(word, [row[f"octets_{word}"] for row in shown], [colour])
        for word, colour in (("sent", "series-1"), ("received", "series-2"))
    ]
    return plots.bars("Octets sent and received by peer", _safe(map(_peer, shown)), parts, units.short_size)


def _topic_rates(rows: Sequence[Row]) -> Plot | None:
    shown = rows[:MAX_DRAWN]
    part = Part(None, [row["messages"] for row in shown], ["series-1"])
    return plots.bars("Messages by topic", _safe(map(_topic, shown)), [part], units.short_count)


def _topic_sizes(rows: Sequence[Row]) -> Plot | None:
    shown = rows[:MAX_DRAWN]
    sizes = [_range(row, SIZES) for row in shown]
    return plots.ranges("Sizes of messages by topic", _safe(map(_topic, shown)), sizes, units.short_size)


def _payloads(rows: Sequence[Row]) -> Plot | None:
    shown = rows[:MAX_DRAWN]
    labels = [row["protocol"] or ("sealed" if row["kind"] == "encrypted" else "nothing known") for row in shown]
    part = Part(None, [row["messages"] for row in shown], ["series-1"])
    return plots.bars("Messages by payload", _safe(labels), [part], units.short_count)


def _lifetimes(rows: Sequence[Row]) -> Plot | None:
    shown = rows[:MAX_DRAWN]
    labels = [f"{_endpoint(row['address'], row['port'])}  {row['connections']:,} {row['close']}" for row in shown]
    lives = [_range(row, DURATIONS) for row in shown]
    return plots.ranges("How long connections lasted", _safe(labels), lives, units.duration)


def _handshakes(rows: Sequence[Row]) -> Plot | None:
    shown = [row for row in rows if row["timed"]][:MAX_DRAWN]
    if not shown:
        return None
    labels = [f"{version_and_mechanism(row)}  {row['timed']:,} timed" for row in shown]
    return plots.ranges(
        "How long handshakes took", _safe(labels), [_range(row, DURATIONS) for row in shown], units.duration
    )


def version_and_mechanism(row: Row) -> str:
    """Format version and mechanism: `3.1 CURVE`, `2.0`."""
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


def _replies(rows: Sequence[Row]) -> Plot | None:
    return _durations("How long replies took", rows, lambda row: f"{row['peer_socket_type'] or 'unknown'}")


def _heartbeats(rows: Sequence[Row]) -> Plot | None:
    return _durations("How long PONGs took", rows, lambda row: f"asked by {row['asker']}")


def _durations(title: str, rows: Sequence[Row], word: Callable[[Row], str]) -> Plot | None:
    """Draw durations at each endpoint, or return None if there are none."""
    shown = [row for row in rows if row["p50_ns"] is not None][:MAX_DRAWN]
    if not shown:
        return None
    labels = [f"{_endpoint(row['address'], row['port'])}  {word(row)}  {row['answered']:,} answered" for row in shown]
    return plots.ranges(title, _safe(labels), [_range(row, DURATIONS) for row in shown], units.duration)


def _stalls(rows: Sequence[Row]) -> Plot | None:
    shown = rows[:MAX_DRAWN]
    labels = [f"{_endpoint(row['address'], row['port'])}  {row['stalls']:,} times" for row in shown]
    part = Part(None, [row["stalled_ns"] for row in shown], ["warn"])
    return plots.bars("How long receivers did not receive", _safe(labels), [part], units.duration)


def _gaps(rows: Sequence[Row]) -> Plot | None:
    shown = rows[:MAX_DRAWN]
    labels = [f"{_quoted(row['topic'])} to {row['subscriber']}" for row in shown]
    parts = [
        Part(word, [row[name] or 0 for row in shown], [colour])
        for word, name, colour in (
            ("before it subscribed", "missed_early", "note"),
            ("while it was subscribed", "missed", "warn"),
        )
    ]
    return plots.bars("Messages missed by subscriber", _safe(labels), parts, units.short_count)


def _fanout(rows: Sequence[Row]) -> Plot | None:
    shown = [row for row in rows if row["sent"]][:MAX_DRAWN]
    labels = [f"{_quoted(row['topic'])} to {row['subscribers']:,}" for row in shown]
    part = Part(None, [row["sent"] for row in shown], ["series-1"])
    return plots.bars("Messages sent by topic, to all subscribers", _safe(labels), [part], units.short_count)


def _churn(rows: Sequence[Row]) -> Plot | None:
    shown = rows[:MAX_DRAWN]
    labels = [f"{row['subscriber']} at {_endpoint(row['address'], row['port'])}" for row in shown]
    part = Part(None, [row["subscriptions"] for row in shown], ["series-1"])
    return plots.bars("Subscriptions by subscriber", _safe(labels), [part], units.short_count)


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
        _replies,
    ),
    Section(
        "delivery_gaps",
        "Missed messages",
        "Subscribers that received fewer messages of a topic than another subscriber of the same publisher: messages "
        "published before they subscribed, and while they were subscribed. The numbers are lower bounds.",
        "No subscriber received less than another one.",
        _gaps,
    ),
    Section(
        "slow_consumers",
        "Slow consumers",
        "Receivers that closed their receive window, which stops the sender.",
        "No receiver closed its window.",
        _stalls,
    ),
    Section(
        "heartbeat_rtt",
        "Heartbeats",
        f"Time from a PING to its PONG: {HOW_TO_READ}.",
        "No PINGs.",
        _heartbeats,
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
        _talkers,
    ),
    Section(
        "topic_rates",
        "Topics",
        "How often each topic is sent: a message to three subscribers is three messages, as on the wire.",
        "No messages.",
        _topic_rates,
        averages=("messages_per_second",),
    ),
    Section(
        "topic_fanout",
        "Fan-out",
        "Number of subscribers of each topic, and the messages sent to all of them.",
        "No messages were published.",
        _fanout,
    ),
    Section(
        "subscription_churn",
        "Subscriptions",
        "Number of subscriptions of each subscriber, and how they ended.",
        "No subscriptions.",
        _churn,
    ),
    Section(
        "topic_sizes",
        "Sizes by topic",
        f"Message sizes from smallest to largest: {HOW_TO_READ}.",
        "No messages.",
        _topic_sizes,
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
        _payloads,
    ),
    Section(
        "connection_lifetimes",
        "Connections",
        f"How long connections to each endpoint lasted, and how they ended: {HOW_TO_READ}. Those that are open at the "
        "end, or began before the capture, lasted longer.",
        "No ZMTP connections.",
        _lifetimes,
    ),
    Section(
        "handshake_times",
        "Handshakes",
        f"Time from the SYN to the last READY, or to the later greeting without READY: {HOW_TO_READ}.",
        "No ZMTP connections.",
        _handshakes,
    ),
    Section(
        "version_inventory",
        "Versions",
        "Versions and mechanisms that peers announce, and the versions agreed.",
        "No greetings.",
        _versions,
    ),
)
"""The sections of the page, in order."""
