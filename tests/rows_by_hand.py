"""The fields of message and frame rows, row by row: columns are compared with these.

Slow and plain: nothing here is shared with the code that makes columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.payloads.reading import dissected
from zmtpscope.capture.segments import FILE_SHIFT, PACKET_MASK
from zmtpscope.dissect import Batch, FrameTable, MessageTable, Options, Record
from zmtpscope.dissect.records.tables import HEAD_KEPT
from zmtpscope.export.values import record_values
from zmtpscope.payloads.json import JsonPayload
from zmtpscope.records import to_text
from zmtpscope.zmtp.events import CANCEL, ENCRYPTED, SPECIAL, SUBSCRIBE

KINDS = {0: "data", ENCRYPTED: "encrypted", SUBSCRIBE: "subscribe", CANCEL: "cancel"}
LONGEST_SUMMARY = 200


def values_of(batch: Batch, options: Options) -> list[dict[str, Any]]:
    """Every record of a batch, in order, with all fields."""
    return [
        record_values(item, options) if isinstance(item, Record) else row_values(item, index, batch.files, options)
        for item, index in batch.in_order()
    ]


def row_values(
    run: MessageTable | FrameTable, index: int, files: Sequence[str | None], options: Options
) -> dict[str, Any]:
    if is_message := isinstance(run, MessageTable):
        run, index = run.part(index, index + 1), 0
    first, last = (int(run.first[index]), int(run.last[index])) if is_message else (index, index)
    body, packet, stream = int(run.bodies[last]), int(run.packets[index]), run.stream
    file = files[packet >> FILE_SHIFT]
    return {
        "schema": 1,
        "record": "message" if is_message else "frame",
        "conn": stream.conn,
        "conn_id": stream.conn_id,
        "side": stream.side,
        "ts_ns": int(run.times[index]),
        "file": None if file is None else file.encode("utf-8", "backslashreplace").decode(),
        "packet": packet & PACKET_MASK,
        "src_ip": stream.src_ip,
        "src_port": stream.src_port,
        "dst_ip": stream.dst_ip,
        "dst_port": stream.dst_port,
        "source": 1 if run.regime.opened else run.source,
        "offset": int(run.offsets[first]),
        "length": body + min(int(run.sizes[last]), run.end - body) - int(run.offsets[first]),
        **(message_values(run, index, options) if is_message else frame_values(run, index)),
    }


def message_values(run: MessageTable, index: int, options: Options) -> dict[str, Any]:
    first, last = int(run.first[index]), int(run.last[index])
    kind = KINDS[int(run.flags[first]) & SPECIAL]
    is_sealed = kind == "encrypted"
    sizes = [int(size) for size in run.sizes[first : last + 1]]
    bodies, kept = (None, "none") if is_sealed else bodies_of(run, first, last, options)
    return {
        "parts": None if is_sealed else len(sizes),
        "sizes": None if is_sealed else sizes,
        "bodies": bodies,
        "bodies_kept": kept,
        "packet_end": int(run.packet_ends[index]) & PACKET_MASK,
        "ts_end_ns": int(run.time_ends[index]),
        "version": run.sender.version,
        "socket_type": run.socket_type,
        "peer_socket_type": run.peer_socket_type,
        "envelope": envelope_of(run, first, last) if kind == "data" else None,
        "topic": topic_of(run, index, kind),
        "kind": kind,
        "decrypted": run.regime.opened,
        "payload": payload_of(run, index),
        "complete": bool(run.complete[index]),
        "confidence": run.sender.confidence,
    }


def frame_values(run: FrameTable, index: int) -> dict[str, Any]:
    flags = int(run.flags[index]) % 256
    return {
        "flags": flags,
        "more": flags % 2 == 1,
        "long": int(run.bodies[index] - run.offsets[index]) > run.sender.longest_short_header,
        "size": int(run.sizes[index]),
        "message": int(run.messages[index]),
    }


def body_of(run: MessageTable, frame: int) -> bytes | None:
    """Return the kept octets of the body of a frame; None if its first octet is missing."""
    start, size = int(run.bodies[frame]) - run.base, int(run.sizes[frame])
    if start < 0 or (size > 0 and start >= len(run.data)):
        return None
    return run.data[start : start + size]


def bodies_of(run: MessageTable, first: int, last: int, options: Options) -> tuple[list[bytes] | None, str]:
    if options.bodies == "none":
        return None, "none"
    sizes = [int(size) for size in run.sizes[first : last + 1]]
    limit = options.head if options.bodies == "head" else max(sizes)
    if options.bodies == "full" and sum(sizes) > options.body_limit:
        limit = 0
    kept = [body_of(run, frame) for frame in range(first, last + 1)]
    shown = [None if body is None else body[:limit] for body in kept]
    if all(body is not None and len(body) == size for body, size in zip(shown, sizes, strict=True)):
        return [body or b"" for body in shown], "full"
    return ([body or b"" for body in shown], "head") if any(shown) else (None, "none")


def envelope_of(run: MessageTable, first: int, last: int) -> list[str] | None:
    if run.socket_type not in ("REQ", "REP") and run.peer_socket_type not in ("REQ", "REP"):
        return None
    addresses: list[str] = []
    for frame in range(first, last):
        if run.sizes[frame] == 0:
            in_front = int(run.bodies[frame]) - int(run.offsets[first])
            return addresses if in_front <= HEAD_KEPT and len(addresses) == frame - first else None
        body = body_of(run, frame)
        if body is not None and len(body) == run.sizes[frame]:
            addresses.append(to_text(body))
    return None


def topic_of(run: MessageTable, index: int, kind: str) -> str | None:
    size = -1 if run.topics is None else int(run.topics[index])
    if size < 0:
        return None
    start = int(run.bodies[run.first[index]]) - run.base + (kind in ("subscribe", "cancel"))
    return to_text(run.data[start : start + size])


def content_of(run: MessageTable, index: int) -> int:
    """The first frame of a message that is no address, delimiter, topic or group."""
    first, last = int(run.first[index]), int(run.last[index])
    if "REQ" in (run.socket_type, run.peer_socket_type) or "REP" in (run.socket_type, run.peer_socket_type):
        empty = [frame for frame in range(first, last) if run.sizes[frame] == 0]
        return empty[0] + 1 if empty else first
    is_published = run.socket_type in ("PUB", "XPUB", "RADIO")
    return first + 1 if first < last and (is_published or run.sizes[first] == 0) else first


def payload_of(run: MessageTable, index: int) -> dict[str, Any] | None:
    made = None if run.payloads is None else run.payloads[index]
    if made is not None:
        return {"protocol": made.protocol, "summary": made.summary, "fields": made.fields} if made.protocol else None
    if run.json is not None and run.json[index]:
        made = dissected(JsonPayload, body_of(run, int(run.last[index])) or b"")
        return {"protocol": "json", "summary": made.summary, "fields": made.fields}
    if run.texts is None or not run.texts[index]:
        return None
    frames = range(content_of(run, index), int(run.last[index]) + 1)
    text = " | ".join((body_of(run, frame) or b"").decode("ascii") for frame in frames)
    short = text if len(text) <= LONGEST_SUMMARY else text[: LONGEST_SUMMARY - 1] + "…"
    return {"protocol": "text", "summary": short, "fields": None}
