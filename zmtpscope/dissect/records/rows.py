"""The fields of one message or frame row, by the names of the record schema, made where somebody reads it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zmtpscope.capture.segments import PACKET_MASK
from zmtpscope.dissect.options import Options
from zmtpscope.dissect.records.batch import HEAD_KEPT, FrameRun, Int64, MessageRun
from zmtpscope.payloads.values import LONGEST_SUMMARY, shortened
from zmtpscope.records import to_text
from zmtpscope.zmtp.events import CANCEL, ENCRYPTED, SPECIAL, SUBSCRIBE
from zmtpscope.zmtp.framing import MORE

REQUESTERS = frozenset({"REQ", "REP"})
KINDS = {ENCRYPTED: "encrypted", SUBSCRIBE: "subscribe", CANCEL: "cancel"}


def kind_of(run: MessageRun, index: int) -> str:
    """`kind` of message `index`: data, subscribe, cancel or encrypted."""
    return KINDS.get(int(run.flags[run.first[index]]) & SPECIAL, "data")


def is_enveloped(run: MessageRun) -> bool:
    """Whether the socket types tell that what stands in front of an empty frame is an envelope (wire.md 10.1)."""
    return not REQUESTERS.isdisjoint((run.socket_type, run.peer_socket_type))


def envelope_length(run: MessageRun, first: int, last: int) -> int | None:
    """How many frames of a message are envelope, delimiter included; None where nothing tells (wire.md 10.1)."""
    if not is_enveloped(run):
        return None
    for frame in range(first, last):
        if run.sizes[frame] == 0:
            return frame - first + 1
    return None


def envelope_of(run: MessageRun, first: int, last: int) -> list[bytes] | None:
    """The addresses in front of the delimiter; None where nothing tells, or not all of them were kept."""
    length = envelope_length(run, first, last)
    if length is None or int(run.bodies[first + length - 1] - run.offsets[first]) > HEAD_KEPT:
        return None
    addresses = [run.head(frame) for frame in range(first, first + length - 1)]
    known = [address for address in addresses if address is not None]
    sizes = run.sizes[first : first + length - 1].tolist()
    return known if list(map(len, known)) == sizes else None


def message_values(run: MessageRun, index: int, options: Options) -> dict[str, Any]:
    """The own fields of message `index`, by the names of `zmtpscope.records`; bodies as `options` ask for them."""
    first, last = int(run.first[index]), int(run.last[index])
    kind = kind_of(run, index)
    encrypted = kind == "encrypted"
    sizes = run.sizes[first : last + 1].tolist()
    complete = bool(run.complete[index])
    bodies: list[bytes] | None = None
    kept = "none"
    if options.bodies != "none" and not encrypted:
        bodies, kept = _bodies(run, first, last, sum(sizes), options)
    topic = run.topic(index)
    envelope = envelope_of(run, first, last) if kind == "data" else None
    return {
        "parts": None if encrypted else last - first + 1,
        "sizes": None if encrypted else sizes,
        "bodies": bodies,
        "bodies_kept": kept,
        "packet_end": int(run.packet_ends[index]) & PACKET_MASK,
        "ts_end_ns": int(run.time_ends[index]),
        "version": run.version,
        "socket_type": run.socket_type,
        "peer_socket_type": run.peer_socket_type,
        "envelope": None if envelope is None else list(map(to_text, envelope)),
        "topic": None if topic is None else to_text(topic),
        "kind": kind,
        "decrypted": run.regime.opened,
        "payload": payload_values(run, index),
        "complete": complete,
        "confidence": run.confidence,
    }


def _bodies(run: MessageRun, first: int, last: int, total: int, options: Options) -> tuple[list[bytes] | None, str]:
    limit = options.head if options.bodies == "head" else None
    if options.bodies == "full" and total > options.body_limit:
        limit = 0
    bodies = [run.head(frame, limit) for frame in range(first, last + 1)]
    whole = all(
        body is not None and len(body) == size
        for body, size in zip(bodies, run.sizes[first : last + 1].tolist(), strict=True)
    )
    if whole:
        return [body or b"" for body in bodies], "full"
    if limit == 0 or not any(bodies):
        return None, "none"
    return [body or b"" for body in bodies], "head"


NO_TOPIC = -1


def topic_sizes(run: MessageRun) -> Int64:
    """Octets of the topic of each message, `NO_TOPIC` where it has none."""
    return np.full(len(run.first), NO_TOPIC) if run.topics is None else run.topics


NOTHING_INSIDE, TEXT_INSIDE, OTHER_INSIDE = range(3)


def payload_kinds(run: MessageRun) -> NDArray[np.int8]:
    """Whether each message is plain text, has some other payload, or neither."""
    found = np.zeros(len(run.first), np.int8)
    if run.texts is not None:
        found[run.texts] = TEXT_INSIDE
    if run.payloads is not None:
        found[[made is not None for made in run.payloads]] = OTHER_INSIDE
    return found


def payload_values(run: MessageRun, index: int) -> dict[str, Any] | None:
    """`payload` of message `index`; None where nobody claims it."""
    made = None if run.payloads is None else run.payloads[index]
    if made is not None:
        if not made.protocol:  # who claimed it has failed
            return None
        return {"protocol": made.protocol, "summary": made.summary, "fields": made.fields}
    if run.texts is None or not run.texts[index]:
        return None
    text = (run.head(int(run.last[index]), LONGEST_SUMMARY + 1) or b"").decode("ascii")
    return {"protocol": "text", "summary": shortened(text), "fields": None}


def frame_values(run: FrameRun, index: int) -> dict[str, Any]:
    """The own fields of frame `index`; `long` tells the size form that was used, whatever the size."""
    flags = int(run.flags[index]) & 0xFF
    return {
        "flags": flags,
        "more": bool(flags & MORE),
        "long": int(run.bodies[index] - run.offsets[index]) > run.longest_short_header,
        "size": int(run.sizes[index]),
        "message": int(run.messages[index]),
    }
