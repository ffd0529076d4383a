"""The lines of many message rows at once.

Here a line is a chain of pieces, and what stands in most of them is shared: with all rows of a run, or with the rows
beside it that came with the same packet. So every piece is made once for all rows that share it, columns say which row
takes which, and a stretch of lines is one join. Compiled (`json_text_compiled.pyx`), it is a loop over the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from pybase64 import b64encode

from zmtpscope import compiled
from zmtpscope.capture.segments import FILE_SHIFT, PACKET_MASK
from zmtpscope.dissect.records.columns import Int64, numbers
from zmtpscope.dissect.records.message_columns import NO_TOPIC, NOT_KEPT, NOTHING_INSIDE, TEXT_INSIDE
from zmtpscope.export.base64_bodies import PADDING, encode
from zmtpscope.export.clock import rfc_3339
from zmtpscope.export.json_rows import (
    CHUNK,
    CLOSINGS,
    ENDS_OF_BODIES,
    LARGEST_SIZE,
    TEXT_BEGINS,
    TEXT_ENDS,
    JsonRows,
    topic_of,
)
from zmtpscope.payloads.values import LONGEST_SUMMARY
from zmtpscope.records import SECOND
from zmtpscope.zmtp.events import ENCRYPTED

LARGEST_HEADER = 9
"""Octets in front of a body. What lies further apart is not encoded together."""

SEPARATOR = b"\x7f\x7f"
"""Stands between texts, is in none of them, and needs no escape in JSON; as long as `PADDING`."""

LONG_BODY = 1000
"""Bodies of more octets on average are encoded one by one."""

PLAIN, DELIMITED, SEALED, OPEN, TEXT, DELIMITED_TEXT = range(6)
"""What a row says of envelope, topic, kind and payload: as most do, or in words of its own (`OPEN`); of those with text
inside the text is their own."""
MEANINGS = {
    PLAIN: b',"envelope":null,"topic":null,"kind":"data"',
    DELIMITED: b',"envelope":[],"topic":null,"kind":"data"',
    SEALED: b',"envelope":null,"topic":null,"kind":"encrypted"',
}
WITH_TEXT = {PLAIN: TEXT, DELIMITED: DELIMITED_TEXT}

ENDS = [
    {
        **{meaning: words + closing.front + b"null" + closing.back for meaning, words in MEANINGS.items()},
        **{with_text: MEANINGS[meaning] + closing.front + TEXT_BEGINS for meaning, with_text in WITH_TEXT.items()},
        OPEN: b"",
    }
    for closing in CLOSINGS
]
"""How a line goes on from `envelope`, by closing and meaning: to its end, up to a text, or not at all, where the row
says everything in words of its own."""
TEXT_BACKS = np.array([TEXT_ENDS + closing.back for closing in CLOSINGS], object)

FRONT, OFFSET, SHAPE, BODIES, BACK, OWN, END = range(7)
"""The pieces of a line; `OWN` is what the row says in words of its own, and its text."""
PIECES = 7


@compiled.where_possible
def lines_between(rows: JsonRows, low: int, high: int, cuts: Sequence[int]) -> list[bytes]:
    """The lines of the rows `low..high` (high excluded), from each of the `cuts` to the next one; the first cut is
    `low`, the last one `high`."""
    pieces = _Pieces(rows).of(low, high)
    return [b"".join(pieces[(begin - low) * PIECES : (end - low) * PIECES]) for begin, end in pairwise(cuts)]


class _Pieces:
    """The lines of rows as pieces."""

    def __init__(self, rows: JsonRows) -> None:
        self.rows = rows
        self.columns, self.options = rows.columns, rows.options

    def of(self, low: int, high: int) -> list[bytes]:
        """The rows `low..high` (high excluded), `PIECES` for each, the last of which ends the line."""
        rows, columns = slice(low, high), self.columns
        usual, sealed = self._usual(rows)
        first = columns.first[rows]
        parts = np.where(usual, columns.counts[rows], 0)
        behind = np.cumsum(parts)
        frames = numbers(first, parts)
        sizes, kept = columns.sizes[frames], columns.kept[rows]
        run = columns.run_of[rows]
        closing_of = np.where(columns.complete[rows], self.rows.whole[run], self.rows.incomplete[run])
        meaning = self._meanings(rows, usual)
        bounds = None if (parts == 1).all() else [0, *behind.tolist()]
        pieces = [b""] * (PIECES * (high - low))
        pieces[FRONT::PIECES] = self._fronts(rows)
        pieces[OFFSET::PIECES] = _digits(columns.offsets[first])
        pieces[SHAPE::PIECES] = self._shapes(columns.lengths[rows].tolist(), sizes.tolist(), bounds)
        texts = np.flatnonzero(meaning >= TEXT)
        own_texts: list[bytes] | None = None
        if self.rows.has_bodies and len(frames):
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
            pieces[row * PIECES : (row + 1) * PIECES] = [self.rows.careful(low + row), *[b""] * (PIECES - 1)]
        return pieces

    def _usual(self, rows: slice) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which rows are plain data whose octets are all there and wanted (or none is wanted), and which are sealed."""
        columns = self.columns
        special = columns.special[rows]
        usual: NDArray[np.bool_] = (special == 0) & columns.is_kept[rows]
        if self.rows.has_bodies:
            usual &= columns.kept[rows] != NOT_KEPT
        return usual, (special == ENCRYPTED) & (columns.sizes[columns.last[rows]] <= LARGEST_SIZE)

    def _fronts(self, rows: slice) -> list[bytes]:
        """Everything in front of `offset`."""
        columns = self.columns.run_of[rows], self.columns.packets[rows], self.columns.times[rows]
        chosen, counts = _groups(*columns)
        run_of, packets, times = (column[chosen] for column in columns)
        seconds, nanoseconds = np.divmod(times, SECOND)
        shared, files = self.rows.shared, self.rows.files
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
        shapes = _Shapes(self.rows.has_bodies)
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
        if total > LONG_BODY * len(frames) or total > 4 * CHUNK:
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
        data = self.rows.data
        for run, start, stop in zip(run_of.tolist(), starts.tolist(), stops.tolist(), strict=True):
            yield data[run][start:stop]

    def _backs(self, rows: slice, kept: NDArray[np.int8], closing_of: Int64, meaning: Int64) -> list[bytes]:
        """Return the end of each line, from `bodies_kept` on. For rows of meaning `OPEN` it stops after
        `peer_socket_type`."""
        columns = self.columns.run_of[rows], self.columns.packet_ends[rows], self.columns.time_ends[rows]
        chosen, counts = _groups(*columns, kept, closing_of, meaning)
        run_of, packets, times = (column[chosen] for column in columns)
        types, ends = self.rows.types, ENDS
        backs = [
            b'%b,"packet_end":%b,"ts_end_ns":%b%b%b'
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
        meanings[usual & (inside != NOTHING_INSIDE) & (inside != TEXT_INSIDE)] = OPEN
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
                yield b"null" if what == NOTHING_INSIDE else self.rows.payload(row)

    def _plain_texts(self, low: int, rows: Int64) -> list[bytes]:
        """Of the rows `rows` from `low` on, whose payload is plain text: as much of it as a summary has."""
        columns = self.columns
        run_of, frames = columns.run_of[rows + low], columns.last[rows + low]
        starts, sizes = self._starts(run_of, frames), columns.sizes[frames]
        texts = list(self._octets(run_of, starts, starts + np.minimum(sizes, LONGEST_SUMMARY)))
        texts = _escaped(SEPARATOR.join(texts))
        several = columns.content[rows + low] < frames
        for at in np.flatnonzero(several | (sizes > LONGEST_SUMMARY)).tolist():
            texts[at] = self.rows.payload(low + int(rows[at]))[len(TEXT_BEGINS) : -len(TEXT_ENDS)]
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
                envelope = self.rows.envelope(row)
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
    return b"null" if size == NO_TOPIC else topic_of(head)


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
