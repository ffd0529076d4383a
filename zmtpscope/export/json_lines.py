"""JSON lines: one object a record, every field of its type, and `time` (RFC 3339, UTC) beside `ts_ns`.

Octets are base64, `text` is as it is in the record. Message rows are most of what there is: what the rows of a run
share is made once, and the usual row is one formatting of octets. Everything else goes through orjson.
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from zmtpscope.capture.segments import FILE_SHIFT, PACKET_MASK
from zmtpscope.dissect import Batch, FrameRun, MessageRun, Options, Record
from zmtpscope.dissect.rows import PUBLISHERS
from zmtpscope.export.values import file_name, record_values
from zmtpscope.records import SCHEMA, to_text
from zmtpscope.zmtp.events import ENCRYPTED, SPECIAL

SECOND = 1_000_000_000

LARGEST_SIZE = 1 << 48
"""Octets of a body; the rows of larger ones are written the careful way."""

_NOT_ASCII = re.compile("[^\x00-\x7e]")


def lines(batch: Batch, options: Options, *, ascii_only: bool = False) -> Iterator[bytes]:
    """The records of a batch in order, a line each, newline included; `ascii_only` is for terminals."""
    rows = {id(run): message_lines(run, batch.files, options) for run in batch.runs}
    for item, index in batch.in_order():  # the rows of a run come in the order of the run
        line = next(rows[id(item)]) if isinstance(item, MessageRun) else record_line(item, index, batch.files, options)
        yield escaped(line) if ascii_only else line


def record_line(
    item: Record | MessageRun | FrameRun, index: int, files: Sequence[str | None], options: Options
) -> bytes:
    """The line of any record or row."""
    line: dict[str, Any] = {}
    for name, value in record_values(item, index, files, options).items():
        line[name] = value
        if name == "ts_ns":
            seconds, nanoseconds = divmod(value, SECOND)
            line["time"] = f"{_clock(seconds).decode()}.{nanoseconds:09}Z"
    return orjson.dumps(line, default=_base64, option=orjson.OPT_APPEND_NEWLINE)


def escaped(line: bytes) -> bytes:
    """The line with everything above 7E written as JSON escapes, so that a terminal gets plain ASCII."""
    return line if line.isascii() and b"\x7f" not in line else _NOT_ASCII.sub(_escape, line.decode()).encode()


def message_lines(run: MessageRun, files: Sequence[str | None], options: Options) -> Iterator[bytes]:
    """The lines of all rows of a run, one by one: what `record_line` gives for each, made faster."""
    first, last = run.first, run.last
    usual, sealed = _usual(run, options)
    offsets = run.offsets[first]
    lengths = run.bodies[last] + run.sizes[last] - offsets
    seconds, nanoseconds = np.divmod(run.times, SECOND)
    template = _template(run)
    apart = set(np.flatnonzero(~(usual | sealed)).tolist())
    rows = zip(
        run.times.tolist(),
        map(_clock, seconds.tolist()),
        nanoseconds.tolist(),
        map([orjson.dumps(file_name(name)) for name in files].__getitem__, (run.packets >> FILE_SHIFT).tolist()),
        (run.packets & PACKET_MASK).tolist(),
        offsets.tolist(),
        lengths.tolist(),
        _contents(run, usual, options),
        (run.packet_ends & PACKET_MASK).tolist(),
        run.time_ends.tolist(),
        _meanings(run, usual),
        [b"true" if complete else b"false" for complete in run.complete.tolist()],
        strict=True,
    )
    if not apart:
        return map(template.__mod__, rows)
    return (
        record_line(run, index, files, options) if index in apart else template % row for index, row in enumerate(rows)
    )


def _template(run: MessageRun) -> bytes:
    """A row's line, to be filled by `%`: what all rows of the run share is in it already, every `%` of it doubled."""
    stream = run.stream
    same = {"schema": SCHEMA, "record": "message", "conn": stream.conn, "conn_id": stream.conn_id, "side": stream.side}
    ends = {key: getattr(stream, key) for key in ("src_ip", "src_port", "dst_ip", "dst_port")}
    types = {key: getattr(run, key) for key in ("version", "socket_type", "peer_socket_type")}
    shared = [orjson.dumps(part)[1:-1].replace(b"%", b"%%") for part in (same, ends, types)]
    return (
        b'{%b,"ts_ns":%%d,"time":"%%b.%%09dZ","file":%%b,"packet":%%d,%b,"source":0,"offset":%%d,"length":%%d,%%b,'
        b'"packet_end":%%d,"ts_end_ns":%%d,%b,%%b,"decrypted":false,"payload":null,"complete":%%b,"confidence":"%b"}\n'
    ) % (*shared, run.confidence.encode())


def _usual(run: MessageRun, options: Options) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which rows are plain data whose octets are all there and wanted (or none is wanted), and which are sealed."""
    first, last = run.first, run.last
    kinds = run.flags[first] & SPECIAL
    # sizes may be anything up to 2^63-1: nothing is added to one before it is known to be small
    room = run.base + len(run.data) - run.bodies[last]
    usual: NDArray[np.bool_] = (kinds == 0) & (run.bodies[first] >= run.base) & (run.sizes[last] <= room)
    if options.bodies == "full":
        usual &= run.bodies[last] + np.minimum(run.sizes[last], room) - run.offsets[first] <= options.body_limit
    elif options.bodies == "head":
        usual[:] = False
    return usual, (kinds == ENCRYPTED) & (run.sizes[last] <= LARGEST_SIZE)


def _contents(run: MessageRun, usual: NDArray[np.bool_], options: Options) -> Iterator[bytes]:
    """The members `parts`, `sizes`, `bodies` and `bodies_kept` of each row; of no meaning for rows that stand apart."""
    starts, sizes, data = (run.bodies - run.base).tolist(), run.sizes.tolist(), run.data
    keep = options.bodies == "full"
    for first, last, plain in zip(run.first.tolist(), run.last.tolist(), usual.tolist(), strict=True):
        if not plain:
            yield b'"parts":null,"sizes":null,"bodies":null,"bodies_kept":"none"'
        elif not keep:
            counts = b",".join([b"%d" % size for size in sizes[first : last + 1]])
            yield b'"parts":%d,"sizes":[%b],"bodies":null,"bodies_kept":"none"' % (last - first + 1, counts)
        elif first == last:
            start, size = starts[first], sizes[first]
            body = b2a_base64(data[start : start + size], newline=False)
            yield b'"parts":1,"sizes":[%d],"bodies":["%b"],"bodies_kept":"full"' % (size, body)
        else:
            counts = b",".join([b"%d" % size for size in sizes[first : last + 1]])
            bodies = b'","'.join(
                [
                    b2a_base64(data[start : start + size], newline=False)
                    for start, size in zip(starts[first : last + 1], sizes[first : last + 1], strict=True)
                ]
            )
            yield b'"parts":%d,"sizes":[%b],"bodies":["%b"],"bodies_kept":"full"' % (last - first + 1, counts, bodies)


def _meanings(run: MessageRun, usual: NDArray[np.bool_]) -> Iterator[bytes]:
    """The members `envelope`, `topic` and `kind` of each row; of no meaning for rows that stand apart."""
    enveloped = bool({"REQ", "REP"} & {run.socket_type, run.peer_socket_type})
    published = run.socket_type in PUBLISHERS
    starts, sizes, data = (run.bodies - run.base).tolist(), run.sizes.tolist(), run.data
    for first, last, plain in zip(run.first.tolist(), run.last.tolist(), usual.tolist(), strict=True):
        if not plain:
            yield b'"envelope":null,"topic":null,"kind":"encrypted"'
            continue
        envelope = topic = b"null"
        if enveloped:
            delimiter = next((frame for frame in range(first, last) if not sizes[frame]), None)
            if delimiter is not None:
                addresses = [data[starts[frame] : starts[frame] + sizes[frame]] for frame in range(first, delimiter)]
                envelope = orjson.dumps([to_text(address) for address in addresses])
        if published:
            topic = orjson.dumps(to_text(data[starts[first] : starts[first] + sizes[first]]))
        yield b'"envelope":%b,"topic":%b,"kind":"data"' % (envelope, topic)


@lru_cache(maxsize=64)
def _clock(seconds: int) -> bytes:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S").encode()


def _base64(value: object) -> str:
    if isinstance(value, bytes):
        return b2a_base64(value, newline=False).decode()
    raise TypeError(f"no JSON for {type(value).__name__}")


def _escape(match: re.Match[str]) -> str:
    octets = match[0].encode("utf-16-be")
    return "".join(f"\\u{octets[i : i + 2].hex()}" for i in range(0, len(octets), 2))
