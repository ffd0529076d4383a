"""Format why messages did or did not reach a subscriber, as text and as JSON.

Consecutive messages with the same reason share a line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from zmtpscope.diagnosis.across.why import Answer, MessageRange
from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.observed import ObservedFinding
from zmtpscope.dissect.records.row_columns import file_name
from zmtpscope.export.clock import Clock
from zmtpscope.export.diagnosis.report import when
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.styles import Paint, plain
from zmtpscope.words import listed

MAX_LINES = 200

MAX_NAMES = 10
"""Subscribers to list if the requested one is unknown."""


def why_lines(topic: str, found: Iterable[Answer], clock: Clock, paint: Paint = plain) -> Iterator[str]:
    """Yield a paragraph for each publisher and subscriber in `found`. `topic` is printable text."""
    for answer in found:
        how_many = f"{came(answer)} of {answer.messages}"
        yield safe_text(f"{topic} from {answer.publisher} to {answer.peer}: {how_many} messages arrived")
        yield "  " + paint("dim", safe_text(_known_from(answer)))
        if answer.gap is not None:
            yield "  " + paint("warn", safe_text(_skipped(answer.gap, clock)))
        for each in answer.ranges[:MAX_LINES]:
            yield _line(each, clock, paint)
        if len(answer.ranges) > MAX_LINES:
            yield f"  and {len(answer.ranges) - MAX_LINES} more ranges"
        yield ""


def came(answer: Answer) -> int:
    """Return the number of messages that the subscriber received."""
    return sum(each.last - each.first + 1 for each in answer.ranges if each.reason.came)


def _known_from(answer: Answer) -> str:
    if answer.sibling is None:
        return "no other subscriber received the topic, so messages that were not sent to this one are unknown"
    return f"the published messages are known from {answer.sibling}, which received most"


def _skipped(gap: ObservedFinding, clock: Clock) -> str:
    gaps = "a gap" if gap.count == 1 else f"{gap.count} gaps"
    return (
        f"the sequence numbers that it received have {gaps}: more was published, first before {when(gap.moment, clock)}"
    )


def _line(each: MessageRange, clock: Clock, paint: Paint) -> str:
    count = each.last - each.first + 1
    which = f"message {each.first}" if count == 1 else f"messages {each.first}..{each.last}"
    times = when(each.begin, clock) if count == 1 else f"{when(each.begin, clock)} .. {when(each.end, clock)}"
    reason = each.reason
    why = reason.text + ("" if reason.moment is None else f" {when(reason.moment, clock)}")
    return f"  {which} ({times}): {safe_text(why) if reason.came else paint('warn', safe_text(why))}"


def nothing_found(topic: str, names: Iterable[str]) -> str:
    """Return the error message for a peer that is no subscriber of `topic`; `names` are the subscribers."""
    known = [safe_text(name) for name in names]
    there = f"subscribers are {listed(known, MAX_NAMES)}" if known else "there are no subscribers"
    return f"nobody of that name subscribed where {safe_text(topic)} might be published; {there}"


def why_json(topic: str, found: Iterable[Answer]) -> Iterator[bytes]:
    """Yield JSON lines with newlines. `topic` is text as in records."""
    for answer in found:
        about = {
            "topic": topic,
            "publisher": answer.publisher,
            "peer": answer.peer,
            "known_from": answer.sibling,
            "messages": answer.messages,
            "received": came(answer),
            "gaps": 0 if answer.gap is None else answer.gap.count,
        }
        for each in answer.ranges:
            reason = each.reason
            values = {
                **about,
                "first": each.first,
                "last": each.last,
                "begin": _where(each.begin),
                "end": _where(each.end),
                "came": reason.came,
                "why": reason.text,
                "decided": None if reason.moment is None else _where(reason.moment),
            }
            yield orjson.dumps(values, option=orjson.OPT_APPEND_NEWLINE)


def _where(moment: Moment) -> dict[str, Any]:
    return {"ts_ns": moment.ns, "file": file_name(moment.file), "packet": moment.packet}
