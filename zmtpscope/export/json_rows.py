"""Message rows as JSON lines, many at once.

A line is a chain of pieces, and what stands in most of them is shared: with all rows of a run, or with the rows beside
it that came with the same packet. So every piece is made once for all rows that share it, columns tell which row takes
which, and a chunk of lines is one join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise, product
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from pybase64 import b64encode

from zmtpscope.capture.segments import FILE_SHIFT, PACKET_MASK
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.columns import Int64, numbers
from zmtpscope.dissect.records.message_columns import (
    HEAD_KEPT_ONLY,
    KEPT,
    NO_TOPIC,
    NOT_KEPT,
    OTHER_INSIDE,
    TEXT_INSIDE,
    MessageColumns,
)
from zmtpscope.dissect.records.row_columns import file_name
from zmtpscope.export.base64_bodies import PADDING, encode
from zmtpscope.export.clock import rfc_3339
from zmtpscope.export.values import as_base64
from zmtpscope.payloads.values import LONGEST_SUMMARY
from zmtpscope.records import SCHEMA, SECOND, to_text
from zmtpscope.zmtp.events import ENCRYPTED

CHUNK = 1 << 20
LINE = 600
"""Rows are made into lines about so many octets at once, a line being this long without its bodies."""

LARGEST_HEADER = 9
"""Octets in front of a body. What lies further apart is not encoded together."""

SEPARATOR = b"\x7f\x7f"
"""Stands between texts, is in none of them, and needs no escape in JSON; as long as `PADDING`."""

LONG = 1000
"""Bodies of more octets on average are encoded one by one."""

LARGEST_SIZE = 1 << 48
"""Octets of a sealed body; the rows of larger ones are written the careful way."""

ENDS_OF_BODIES = {
    NOT_KEPT: b',"bodies_kept":"none"',
    HEAD_KEPT_ONLY: b'"],"bodies_kept":"head"',
    KEPT: b'"],"bodies_kept":"full"',
}
"""How bodies end, and what is said of how much of them was kept."""

PLAIN, DELIMITED, SEALED, OPEN, TEXT, DELIMITED_TEXT = range(6)
"""What a row says of envelope, topic, kind and payload: as most do, or in words of its own (`OPEN`); of those with text
inside the text is their own."""
MEANINGS = {
    PLAIN: b',"envelope":null,"topic":null,"kind":"data"',
    DELIMITED: b',"envelope":[],"topic":null,"kind":"data"',
    SEALED: b',"envelope":null,"topic":null,"kind":"encrypted"',
}
WITH_TEXT = {PLAIN: TEXT, DELIMITED: DELIMITED_TEXT}
TEXT_BEGINS, TEXT_ENDS = b'{"protocol":"text","summary":"', b'","fields":null}'


class Closing:
    """How lines end that say the same of what they are worth: was the message opened, how certain is it, is it whole.

    `front` and `back` stand around the payload. `ends` are, by meaning, how a line goes on from `envelope`: to its end,
    up to a text, or not at all, where the row says everything in words of its own.
    """

    def __init__(self, opened: bool, confidence: str, complete: bool) -> None:
        self.front = b',"decrypted":%b,"payload":' % _truth(opened)
        self.back = b',"complete":%b,"confidence":"%b"}\n' % (_truth(complete), confidence.encode())
        self.text_back = TEXT_ENDS + self.back
        self.ends = {meaning: words + self.front + b"null" + self.back for meaning, words in MEANINGS.items()}
        self.ends[OPEN] = b""
        for meaning, with_text in WITH_TEXT.items():
            self.ends[with_text] = MEANINGS[meaning] + self.front + TEXT_BEGINS


def _truth(value: bool) -> bytes:
    return b"true" if value else b"false"


CLOSING_KEYS = list(product((False, True), ("proven", "likely", "guess"), (False, True)))
"""What a line may say: opened, confidence, complete. Columns hold the place in this list."""
CLOSING_NUMBER = {key: number for number, key in enumerate(CLOSING_KEYS)}
CLOSINGS = [Closing(*key) for key in CLOSING_KEYS]
ENDS = [closing.ends for closing in CLOSINGS]
TEXT_BACKS = np.array([closing.text_back for closing in CLOSINGS], object)

FRONT, OFFSET, SHAPE, BODIES, BACK, OWN, END = range(7)
"""The pieces of a line; `OWN` is what the row says in words of its own, and its text."""
PIECES = 7

Careful = Callable[[int], bytes]
"""Makes the line of any row."""


class JsonRows:
    """The message rows of a batch as pieces of lines."""

    def __init__(self, columns: MessageColumns, careful: Careful) -> None:
        runs = columns.runs
        self.columns, self.options, self.careful = columns, columns.options, careful
        self.files = [orjson.dumps(file_name(name)) for name in columns.files]
        # of each run
        self.data = [run.data for run in runs]
        self.shared = [_shared(run.stream, run.source) for run in runs]
        self.types = [_types(run.version, run.socket_type, run.peer_socket_type) for run in runs]
        worth = [(run.regime.opened, run.confidence) for run in runs]
        self.incomplete = np.array([CLOSING_NUMBER[*each, False] for each in worth])
        self.whole = np.array([CLOSING_NUMBER[*each, True] for each in worth])

    def chunks(self) -> Iterator[tuple[int, int]]:
        """(low, high): rows to make into lines at once."""
        weight = np.cumsum(np.clip(self.columns.lengths, 0, CHUNK) + LINE) // CHUNK
        yield from pairwise([0, *(np.flatnonzero(np.diff(weight)) + 1).tolist(), len(weight)])

    def pieces(self, low: int, high: int) -> list[bytes]:
        """The rows `low..high` (high excluded), `PIECES` for each, the last of which ends the line."""
        rows, columns = slice(low, high), self.columns
        usual, sealed = self._usual(rows)
        first = columns.first[rows]
        parts = np.where(usual, columns.counts[rows], 0)
        behind = np.cumsum(parts)
        frames = numbers(first, parts)
        sizes, kept = columns.sizes[frames], columns.kept[rows]
        run = columns.run_of[rows]
        closing_of = np.where(columns.complete[rows], self.whole[run], self.incomplete[run])
        meaning = self._meanings(rows, usual)
        bounds = None if (parts == 1).all() else [0, *behind.tolist()]
        pieces = [b""] * (PIECES * (high - low))
        pieces[FRONT::PIECES] = self._fronts(rows)
        pieces[OFFSET::PIECES] = _digits(columns.offsets[first])
        pieces[SHAPE::PIECES] = self._shapes(columns.lengths[rows].tolist(), sizes.tolist(), bounds)
        texts = np.flatnonzero(meaning >= TEXT)
        own_texts: list[bytes] | None = None
        if self.options.bodies != "none" and len(frames):
            alike = len(texts) == len(frames) and bool((sizes <= LONGEST_SUMMARY).all())
            bodies, own_texts = self._bodies(np.repeat(run, parts), frames, alike)
            pieces[BODIES::PIECES] = (
                bodies if bounds is None else [b'","'.join(bodies[i:j]) for i, j in pairwise(bounds)]
            )
        pieces[BACK::PIECES] = self._backs(rows, kept, closing_of, meaning)
        own = np.flatnonzero(meaning == OPEN)
        if own_texts is not None and len(own_texts) == high - low:
            alike = bool((closing_of == closing_of[0]).all())
            backs = [TEXT_BACKS[closing_of[0]]] * (high - low) if alike else TEXT_BACKS[closing_of].tolist()
            pieces[OWN::PIECES], pieces[END::PIECES] = own_texts, backs
        elif len(texts):
            ends = np.full((2, high - low), b"", object)
            ends[0, texts], ends[1, texts] = self._plain_texts(low, texts), TEXT_BACKS[closing_of[texts]]
            pieces[OWN::PIECES], pieces[END::PIECES] = ends.tolist()
        for row, text, payload in zip(
            own.tolist(), self._own_meanings(own + low), self._insides(low, own), strict=True
        ):
            closing = CLOSINGS[closing_of[row]]
            pieces[row * PIECES + OWN] = b"%b%b%b%b" % (text, closing.front, payload, closing.back)
        for row in np.flatnonzero(~(usual | sealed)).tolist():
            pieces[row * PIECES : (row + 1) * PIECES] = [self.careful(low + row), *[b""] * (PIECES - 1)]
        return pieces

    def _usual(self, rows: slice) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which rows are plain data whose octets are all there and wanted (or none is wanted), and which are sealed."""
        columns = self.columns
        special = columns.special[rows]
        usual: NDArray[np.bool_] = (special == 0) & columns.is_kept[rows]
        if self.options.bodies != "none":
            usual &= columns.kept[rows] != NOT_KEPT
        return usual, (special == ENCRYPTED) & (columns.sizes[columns.last[rows]] <= LARGEST_SIZE)

    def _fronts(self, rows: slice) -> list[bytes]:
        """Everything in front of `offset`."""
        columns = self.columns.run_of[rows], self.columns.packets[rows], self.columns.times[rows]
        chosen, counts = _groups(*columns)
        run_of, packets, times = (column[chosen] for column in columns)
        seconds, nanoseconds = np.divmod(times, SECOND)
        shared, files = self.shared, self.files
        fronts = [
            b'%b%b,"time":"%b.%bZ","file":%b,"packet":%b%b'
            % (shared[run][0], time, rfc_3339(second), fraction[1:], files[file], packet, shared[run][1])
            for run, time, second, fraction, file, packet in zip(
                run_of.tolist(),
                _digits(times),
                seconds.tolist(),
                _digits(nanoseconds + SECOND),  # for the zeros in front
                (packets >> FILE_SHIFT).tolist(),
                _digits(packets & PACKET_MASK),
                strict=True,
            )
        ]
        return np.array(fronts, object).repeat(counts).tolist()

    def _shapes(self, lengths: list[int], sizes: list[int], bounds: list[int] | None) -> list[bytes]:
        """`length`, `parts`, `sizes` and the beginning of `bodies`; row i has `sizes[bounds[i]:bounds[i + 1]]`, or one
        size where there are no bounds."""
        shapes = _Shapes(self.options.bodies != "none")
        if bounds is None:
            return list(map(shapes.__getitem__, zip(lengths, sizes, strict=True)))
        return [shapes[length, *sizes[i:j]] for length, (i, j) in zip(lengths, pairwise(bounds), strict=True)]

    def _bodies(self, run_of: Int64, frames: Int64, texts: bool) -> tuple[list[bytes], list[bytes] | None]:
        """The bodies of frames in base64, as much of each as is wanted; `run_of` are their runs. Also as text, where
        all of them are plain `texts` and lie together."""
        starts, sizes = self._starts(run_of, frames), self.columns.sizes[frames]
        if self.options.bodies == "head":
            sizes, texts = np.minimum(sizes, self.options.head), False
        stops = starts + sizes
        total = int(sizes.sum())
        if total > LONG * len(frames) or total > 4 * CHUNK:
            return [b64encode(octets) for octets in self._octets(run_of, starts, stops)], None
        joined, places = self._joined(run_of, starts, stops)
        bodies, behind = encode(joined, places, sizes), places + sizes
        if not texts or not (places[1:] == behind[:-1] + PADDING).all():
            return bodies, None
        octets = np.frombuffer(joined, np.uint8)
        octets[behind] = octets[behind + 1] = SEPARATOR[0]
        return bodies, _escaped(memoryview(joined)[int(places[0]) : int(behind[-1])])

    def _joined(self, run_of: Int64, starts: Int64, stops: Int64) -> tuple[bytearray, Int64]:
        """The octets `starts..stops` of runs, with some others between them and `PADDING` behind each, and their places
        there."""
        # octets that lie together are taken together, headers between bodies included
        apart = np.ones(len(starts) + 1, np.bool_)
        between = starts[1:] - stops[:-1]
        apart[1:-1] = (run_of[1:] != run_of[:-1]) | (between < PADDING) | (between > LARGEST_HEADER)
        cuts = np.flatnonzero(apart)
        begins, ends = starts[cuts[:-1]], stops[cuts[1:] - 1]
        stretches = self._octets(run_of[cuts[:-1]], begins, ends)
        joined = bytearray(PADDING).join([*stretches, b"", b""])
        lengths = ends - begins + PADDING
        return joined, starts + np.repeat(np.cumsum(lengths) - lengths - begins, np.diff(cuts))

    def _starts(self, run_of: Int64, frames: Int64) -> Int64:
        """Where the bodies of frames begin in the octets of their runs."""
        return self.columns.starts[frames] - self.columns.octets.begins[run_of]

    def _octets(self, run_of: Int64, starts: Int64, stops: Int64) -> Iterator[bytes]:
        data = self.data
        for run, start, stop in zip(run_of.tolist(), starts.tolist(), stops.tolist(), strict=True):
            yield data[run][start:stop]

    def _backs(self, rows: slice, kept: NDArray[np.int8], closing_of: Int64, meaning: Int64) -> list[bytes]:
        """Everything from `bodies_kept` on; up to `peer_socket_type` where the meaning is open."""
        columns = self.columns.run_of[rows], self.columns.packet_ends[rows], self.columns.time_ends[rows]
        chosen, counts = _groups(*columns, kept, closing_of, meaning)
        run_of, packets, times = (column[chosen] for column in columns)
        types, ends = self.types, ENDS
        backs = [
            b'%b,"packet_end":%b,"ts_end_ns":%b,%b%b'
            % (ENDS_OF_BODIES[keeping], packet, time, types[run], ends[closing][means])
            for run, packet, time, keeping, closing, means in zip(
                run_of.tolist(),
                _digits(packets & PACKET_MASK),
                _digits(times),
                kept[chosen].tolist(),
                closing_of[chosen].tolist(),
                meaning[chosen].tolist(),
                strict=True,
            )
        ]
        return np.array(backs, object).repeat(counts).tolist()

    def _meanings(self, rows: slice, usual: NDArray[np.bool_]) -> Int64:
        """What each row says of envelope, topic and kind."""
        columns, inside = self.columns, self.columns.inside[rows]
        enveloped = usual & columns.is_enveloped[rows] & (columns.counts[rows] > 1)
        delimited = columns.sizes[columns.first[rows]] == 0
        meanings = np.where(usual, PLAIN, SEALED)
        meanings[enveloped] = np.where(delimited, DELIMITED, OPEN)[enveloped]
        meanings[usual & (columns.topic_sizes[rows] != NO_TOPIC)] = OPEN
        for meaning, with_text in WITH_TEXT.items():
            meanings[(inside == TEXT_INSIDE) & (meanings == meaning)] = with_text
        meanings[usual & (inside == OTHER_INSIDE)] = OPEN
        return meanings

    def _insides(self, low: int, rows: Int64) -> Iterator[bytes]:
        """The payload of each of the rows `rows` from `low` on."""
        inside = self.columns.inside[rows + low]
        is_text = inside == TEXT_INSIDE
        texts = iter(self._plain_texts(low, rows[is_text]) if is_text.any() else ())
        for row, what in zip((rows + low).tolist(), inside.tolist(), strict=True):
            if what == TEXT_INSIDE:
                yield b"%b%b%b" % (TEXT_BEGINS, next(texts), TEXT_ENDS)
            else:
                yield self._payload(row) if what == OTHER_INSIDE else b"null"

    def _payload(self, row: int) -> bytes:
        """What the payload of a row is."""
        return orjson.dumps(self.columns["payload"][row], default=as_base64)

    def _plain_texts(self, low: int, rows: Int64) -> list[bytes]:
        """Of the rows `rows` from `low` on, whose payload is plain text: as much of it as a summary has."""
        columns = self.columns
        run_of, frames = columns.run_of[rows + low], columns.last[rows + low]
        starts, sizes = self._starts(run_of, frames), columns.sizes[frames]
        texts = list(self._octets(run_of, starts, starts + np.minimum(sizes, LONGEST_SUMMARY)))
        texts = _escaped(SEPARATOR.join(texts))
        for at in np.flatnonzero(sizes > LONGEST_SUMMARY).tolist():
            texts[at] = self._payload(low + int(rows[at]))[len(TEXT_BEGINS) : -len(TEXT_ENDS)]
        return texts

    def _own_meanings(self, rows: Int64) -> Iterator[bytes]:
        """`envelope`, `topic` and `kind` of rows of data that have a topic, an envelope or a payload of their own."""
        columns = self.columns
        run_of, sizes = columns.run_of[rows], columns.topic_sizes[rows]
        starts = self._starts(run_of, columns.first[rows])
        enveloped: list[bool] = columns.is_enveloped[rows].tolist()
        of_topics: dict[bytes, bytes] = {}
        heads = self._octets(run_of, starts, starts + np.maximum(sizes, 0))
        for row, is_enveloped, size, head in zip(rows.tolist(), enveloped, sizes.tolist(), heads, strict=True):
            if is_enveloped:
                envelope = orjson.dumps(columns["envelope"][row])
                yield b',"envelope":%b,"topic":%b,"kind":"data"' % (envelope, _topic(size, head))
            elif size == NO_TOPIC:
                yield MEANINGS[PLAIN]
            else:
                meaning = of_topics.get(head)
                if meaning is None:
                    meaning = b',"envelope":null,"topic":%b,"kind":"data"' % _topic(size, head)
                    of_topics[head] = meaning
                yield meaning


def _topic(size: int, head: bytes) -> bytes:
    """What a line says of a topic of `size` octets, if there is one."""
    return b"null" if size == NO_TOPIC else orjson.dumps(to_text(head))


class _Shapes(dict[tuple[int, ...], bytes]):
    """(length, *sizes): `length`, `parts`, `sizes` and the beginning of `bodies`; without sizes none is known."""

    def __init__(self, bodies: bool) -> None:
        self.begin = b'["' if bodies else b"null"

    def __missing__(self, key: tuple[int, ...]) -> bytes:
        length, *sizes = key
        if sizes:
            counts = b",".join([b"%d" % size for size in sizes])
            shape = b',"length":%d,"parts":%d,"sizes":[%b],"bodies":%b' % (length, len(sizes), counts, self.begin)
        else:
            shape = b',"length":%d,"parts":null,"sizes":null,"bodies":null' % length
        self[key] = shape
        return shape


def _groups(*columns: NDArray[Any]) -> tuple[Int64, Int64]:
    """Groups of rows that follow each other and have the same values: where each begins, and of how many it is."""
    new = np.ones(len(columns[0]) + 1, np.bool_)
    new[1:-1] = columns[0][1:] != columns[0][:-1]
    for column in columns[1:]:
        new[1:-1] |= column[1:] != column[:-1]
    begins = np.flatnonzero(new)
    return begins[:-1], np.diff(begins)


def _escaped(joined: bytes | memoryview) -> list[bytes]:
    """Texts of printable ASCII, with `SEPARATOR` between them, as they stand in JSON."""
    texts = orjson.dumps(str(joined, "ascii")).split(SEPARATOR[:1])[:: len(SEPARATOR)]  # quicker than by two octets
    texts[0] = texts[0][1:]  # the quotation marks around all of them
    texts[-1] = texts[-1][:-1]
    return texts


def _digits(numbers: Int64) -> list[bytes]:
    return orjson.dumps(numbers, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].split(b",")


@lru_cache(maxsize=4096)
def _shared(stream: Stream, source: int) -> tuple[bytes, bytes]:
    """What all lines of a stream have in front of the value of `ts_ns`, and between those of `packet` and `offset`."""
    front = {"schema": SCHEMA, "record": "message", "conn": stream.conn, "conn_id": stream.conn_id, "side": stream.side}
    ends = {key: getattr(stream, key) for key in ("src_ip", "src_port", "dst_ip", "dst_port")}
    behind = b',%b,"source":%d,"offset":' % (orjson.dumps(ends)[1:-1], source)
    return orjson.dumps(front)[:-1] + b',"ts_ns":', behind


@lru_cache(maxsize=256)
def _types(version: str | None, socket_type: str | None, peer_socket_type: str | None) -> bytes:
    types = {"version": version, "socket_type": socket_type, "peer_socket_type": peer_socket_type}
    return orjson.dumps(types)[1:-1]
