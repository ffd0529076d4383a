"""Format the inventory as text: a table of endpoints, with remarks below some of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from zmtpscope.capture import CaptureStatistics
from zmtpscope.export.inventory.inventory import Inventory, objects
from zmtpscope.export.preview import quoted
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.wrap import wrap
from zmtpscope.records import SECOND
from zmtpscope.words import counted, host_port, how_many_times, listed

WIDTH = 80
"""Columns of the table, also in files, pipes and wider terminals."""

HEADINGS = ("ENDPOINT", "ZMTP", "MECH", "SOCKETS", "CONNS", "CLIENTS", "SEEN (UTC)")
WIDTHS = (20, 7, 5, 13, 5, 7, 17)
RIGHT = ("CONNS", "CLIENTS")
MAX_WORDS = 3
"""Versions, mechanisms and so on to list in a cell or line."""
MAX_NAMES = 8
MAX_OTHERS = 5
INDENT = 4


def report(inventory: Inventory, others: Mapping[tuple[str, int], int], capture: CaptureStatistics) -> Iterator[str]:
    found = list(objects(inventory, others))
    endpoints = [each for each in found if each["found"] == "endpoint"]
    refusals = [each for each in found if each["found"] == "refusal"]
    rest = [each for each in found if each["found"] == "other"]
    if capture.first_time is not None and capture.last_time is not None:
        first, last = (_time(time, "%Y-%m-%d %H:%M:%S") for time in (capture.first_time, capture.last_time))
        yield f"{counted(len(endpoints), 'endpoint')} with ZMTP in {counted(capture.packets, 'packet')}"
        yield f"{first} to {last.removeprefix(first[:11])} UTC"  # print an equal day only once
    if endpoints:
        yield ""
        yield _row(HEADINGS)
        for each in endpoints:
            yield from _endpoint(each)
    if refusals:
        yield ""
        yield "NOT LET IN"
        for each in refusals:
            times = how_many_times(each["count"])
            yield f"  {each['client']} at {host_port(each['ip'], each['port'])}, {times}: {each['outcome']}"
            if each["text"] is not None:
                yield _below(f"{each['finding']} {safe_text(each['text'])}")
    if rest:
        yield ""
        yield "TCP WITHOUT ZMTP"
        for each in rest[:MAX_OTHERS]:
            yield f"  {host_port(each['ip'], each['port'])}  {counted(each['connections'], 'connection')}"
        if len(rest) > MAX_OTHERS:
            yield f"  ... and {len(rest) - MAX_OTHERS} more endpoints: --json has all"


def _endpoint(values: dict[str, Any]) -> Iterator[str]:
    is_udp = values["transport"] == "udp"
    types = [values[name] for name in ("socket_types", "client_types") if values[name]]
    sockets = " < ".join(map(_first, types))
    name = host_port(values["ip"], values["port"])
    yield _row(
        (
            name,
            _versions(list(values["versions"])),
            _first(values["mechanisms"]) or "-",
            sockets or "-",
            "-" if is_udp else f"{values['connections']}",
            f"{len(values['clients'])}" + ("" if values["clients_complete"] else "+"),
            f"{_time(values['start_ns'])}-{_time(values['end_ns'])}",
        )
    )
    remarks = [_words(values["mechanisms"])] if len(values["mechanisms"]) > 1 else []
    if any(len(each) > 1 for each in types):
        remarks.append(" < ".join(map(_words, types)))
    if is_udp:
        remarks.append(f"UDP, {counted(values['connections'], 'datagram')}")
    if values["transport"] == "ws":
        remarks.append("over WebSocket")
    unsure = {word: count for word, count in values["confidences"].items() if word != "proven"}
    if unsure:
        remarks.append(", ".join(f"{count} {word}" for word, count in unsure.items()))
    handshakes = {word: count for word, count in values["handshakes"].items() if word != "complete"}
    remarks += [f"{counted(count, 'handshake')} {word}" for word, count in handshakes.items()]
    if values["other_connections"]:
        remarks.append(f"{counted(values['other_connections'], 'connection')} without ZMTP")
    if remarks:
        yield _below("; ".join(remarks))
    for key, who in (("identities", "is"), ("client_identities", "clients are")):
        if values[key]:
            yield _below(f"{who} {listed([quoted(name, 30) for name in values[key]], MAX_NAMES)}")


def _versions(versions: list[str]) -> str:
    known = sorted(map(safe_text, versions)) or ["-"]
    return known[0] if len(known) == 1 else f"{known[0]}-{known[-1]}"


def _first(counts: Iterable[str]) -> str:
    """Return the most frequent word, followed by + if the next line lists further ones."""
    words = list(counts)
    return safe_text(words[0]) + "+" * (len(words) > 1) if words else ""


def _words(counts: Iterable[str]) -> str:
    words = list(counts)
    return ",".join(map(safe_text, words[:MAX_WORDS])) + ("…" if len(words) > MAX_WORDS else "")


def _row(cells: Iterable[str]) -> str:
    """Format the cells of a table row. A long cell takes space from empty cells after it."""
    line, end = "", 0
    for heading, width, cell in zip(HEADINGS, WIDTHS, cells, strict=True):
        end += width
        room = max(1, end - len(line))
        line += cell.rjust(room) if heading in RIGHT else cell.ljust(room)
        line += " "
        end += 1
    return line.rstrip()


def _below(text: str) -> str:
    return wrap(" " * INDENT, INDENT, text, WIDTH)


def _time(nanoseconds: int, form: str = "%H:%M:%S") -> str:
    return datetime.fromtimestamp(nanoseconds // SECOND, UTC).strftime(form)
