"""Why messages did or did not reach a peer, as JSON lines: one object for consecutive messages with the same reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from zmtpscope.diagnosis.across.why import Answer
from zmtpscope.diagnosis.moments import Moment
from zmtpscope.dissect.records.row_columns import file_name
from zmtpscope.export.diagnosis.why_lines import came


def why_json(topic: str, found: Iterable[Answer]) -> Iterator[bytes]:
    """Yield lines with newlines. `topic` has the format of records."""
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
        for stretch in answer.stretches:
            reason = stretch.reason
            values = {
                **about,
                "first": stretch.first,
                "last": stretch.last,
                "begin": _where(stretch.begin),
                "end": _where(stretch.end),
                "came": reason.came,
                "why": reason.text,
                "decided": None if reason.moment is None else _where(reason.moment),
            }
            yield orjson.dumps(values, option=orjson.OPT_APPEND_NEWLINE)


def _where(moment: Moment) -> dict[str, Any]:
    return {"ts_ns": moment.ns, "file": file_name(moment.file), "packet": moment.packet}
