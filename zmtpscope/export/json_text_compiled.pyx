# cython: language_level=3, boundscheck=True, wraparound=False
"""Compiled twin of `json_text.py`: each row is written where the previous one ended."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int8_t, int64_t, uint8_t
from libc.string cimport memcpy

import sys

import numpy as np
from orjson import dumps
from pybase64 import b64encode

from zmtpscope import records
from zmtpscope.capture import segments
from zmtpscope.dissect.records import message_columns
from zmtpscope.dissect.records.row_columns import file_name
from zmtpscope.export import json_rows
from zmtpscope.export.clock import rfc_3339
from zmtpscope.export.values import as_base64
from zmtpscope.payloads import values
from zmtpscope.zmtp import events

from zmtpscope.payloads.json_compiled cimport LONGEST_PLAIN, is_empty_object, plain_json

cdef int FILE_SHIFT = segments.FILE_SHIFT
cdef int64_t PACKET_MASK = segments.PACKET_MASK
cdef int64_t ENCRYPTED = events.ENCRYPTED
cdef int64_t LARGEST_SIZE = json_rows.LARGEST_SIZE, NO_TOPIC = message_columns.NO_TOPIC
cdef int64_t LONGEST_SUMMARY = values.LONGEST_SUMMARY
cdef bytes NO_MORE = values.NO_MORE.encode(), BETWEEN = values.BETWEEN_FRAMES.encode()
cdef int NOT_KEPT = message_columns.NOT_KEPT
cdef int TEXT_INSIDE = message_columns.TEXT_INSIDE, OTHER_INSIDE = message_columns.OTHER_INSIDE
cdef int JSON_INSIDE = message_columns.JSON_INSIDE
cdef bytes BEGIN = json_rows.BEGIN
cdef bytes TEXT_BEGINS = json_rows.TEXT_BEGINS, TEXT_ENDS = json_rows.TEXT_ENDS
cdef int64_t SECOND = records.SECOND
cdef Py_ssize_t MOST = sys.maxsize // 4  # octets of text, so that no sum overflows

cdef enum:
    LONG_BODY = 1000  # octets of a body for which calling a library is faster than a loop
    LEAST = 1 << 16  # octets of room at first
    MAX_DIGITS = 20
    NINE = 9

cdef char DIGITS[200]
cdef char BASE64[8192]
cdef uint8_t ESCAPES[256]


cdef void make_tables() noexcept nogil:
    """Fill the tables: two digits of each number below 100, two base64 octets of each 12 bits, and the octet after a
    backslash in JSON text (0: none is needed; u: the number follows)."""
    cdef int i
    cdef const char *letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    for i in range(100):
        DIGITS[2 * i], DIGITS[2 * i + 1] = 48 + i // 10, 48 + i % 10
    for i in range(4096):
        BASE64[2 * i], BASE64[2 * i + 1] = letters[i >> 6], letters[i & 63]
    for i in range(256):
        ESCAPES[i] = b"u"[0] if i < 32 else 0
    ESCAPES[8], ESCAPES[9], ESCAPES[10], ESCAPES[12], ESCAPES[13] = b"b"[0], b"t"[0], b"n"[0], b"f"[0], b"r"[0]
    ESCAPES[34], ESCAPES[92] = b'"'[0], b"\\"[0]


make_tables()

# The functions for every octet or digit need no interpreter (`nogil`). Each expects enough room at `to`, and returns
# the end of its output.


@cython.cdivision(True)
cdef char *write_number(char *to, int64_t number) noexcept nogil:
    """Write a decimal number, not negative."""
    cdef char digits[MAX_DIGITS]
    cdef int begin = MAX_DIGITS, two
    while number >= 100:
        two, number = 2 * <int>(number % 100), number // 100
        begin -= 2
        digits[begin], digits[begin + 1] = DIGITS[two], DIGITS[two + 1]
    if number >= 10:
        begin -= 2
        digits[begin], digits[begin + 1] = DIGITS[2 * number], DIGITS[2 * number + 1]
    else:
        begin -= 1
        digits[begin] = <char>(48 + number)
    memcpy(to, digits + begin, MAX_DIGITS - begin)
    return to + MAX_DIGITS - begin


@cython.cdivision(True)
cdef char *write_nanoseconds(char *to, int64_t number) noexcept nogil:
    """Write nine digits."""
    cdef int place
    for place in range(NINE - 1, -1, -1):
        to[place] = <char>(48 + number % 10)
        number //= 10
    return to + NINE


cdef char *write_base64(char *to, const uint8_t *octets, Py_ssize_t count) noexcept nogil:
    """Write four octets for each group of three; the last group may be smaller."""
    cdef Py_ssize_t place = 0, rest = count % 3
    cdef int bits
    while place < count - rest:
        bits = octets[place] << 16 | octets[place + 1] << 8 | octets[place + 2]
        memcpy(to, BASE64 + 2 * (bits >> 12), 2)
        memcpy(to + 2, BASE64 + 2 * (bits & 4095), 2)
        place += 3
        to += 4
    if rest:
        bits = octets[place] << 16 | (octets[place + 1] << 8 if rest == 2 else 0)
        memcpy(to, BASE64 + 2 * (bits >> 12), 2)
        memcpy(to + 2, BASE64 + 2 * (bits & 4095), 2)
        to[3] = b"="[0]
        if rest == 1:
            to[2] = b"="[0]
        to += 4
    return to


cdef char *write_text(char *to, const uint8_t *octets, Py_ssize_t count) noexcept nogil:
    """Write UTF-8 within a JSON string, at most six octets for each."""
    cdef Py_ssize_t place
    cdef bint is_escaped = False
    for place in range(count):  # the compiler vectorises this loop
        is_escaped |= (octets[place] < 32) | (octets[place] == 34) | (octets[place] == 92)
    if not is_escaped:
        memcpy(to, octets, count)
        return to + count
    for place in range(count):
        if not ESCAPES[octets[place]]:
            to[0] = octets[place]
            to += 1
        elif ESCAPES[octets[place]] == b"u"[0]:
            memcpy(to, b"\\u00", 4)
            to[4], to[5] = b"0123456789abcdef"[octets[place] >> 4], b"0123456789abcdef"[octets[place] & 15]
            to += 6
        else:
            to[0], to[1] = b"\\"[0], ESCAPES[octets[place]]
            to += 2
    return to


@cython.final
cdef class Text:
    """Octets, of which `used` are written. Call `reserve` before writing at `at`."""

    cdef char *at
    cdef Py_ssize_t used, size

    def __dealloc__(self):
        PyMem_Free(self.at)

    cdef inline char *reserve(self, Py_ssize_t count) except NULL:
        """Make room for `count` more octets; return where to write them."""
        cdef Py_ssize_t size
        cdef char *at
        if not 0 <= count <= MOST - self.used:
            raise MemoryError
        if count > self.size - self.used or self.at == NULL:
            size = max(2 * self.size, self.used + count, LEAST)
            at = <char *>PyMem_Realloc(self.at, size)
            if at == NULL:
                raise MemoryError
            self.at, self.size = at, size
        return self.at + self.used

    cdef bytes octets(self):
        return PyBytes_FromStringAndSize(self.at, self.used)

    cdef inline int put(self, bytes octets) except -1:
        if octets is None:
            raise TypeError("octets are to be written")
        memcpy(self.reserve(PyBytes_GET_SIZE(octets)), PyBytes_AS_STRING(octets), PyBytes_GET_SIZE(octets))
        self.used += PyBytes_GET_SIZE(octets)
        return 0

    cdef int put_number(self, int64_t number) except -1:
        if number < 0:
            return self.put(b"%d" % number)
        self.used = write_number(self.reserve(MAX_DIGITS), number) - self.at
        return 0

    cdef int put_nanoseconds(self, int64_t number) except -1:
        self.used = write_nanoseconds(self.reserve(NINE), number) - self.at
        return 0

    cdef int put_base64(self, const uint8_t *octets, Py_ssize_t count) except -1:
        self.used = write_base64(self.reserve((count + 2) // 3 * 4), octets, count) - self.at
        return 0

    cdef int put_optional(self, number) except -1:
        return self.put(b"null") if number is None else self.put_number(number)

    cdef int put_optional_text(self, str words) except -1:
        """Write text in quotation marks, or null."""
        cdef Py_ssize_t size
        cdef const uint8_t *octets
        if words is None:
            return self.put(b"null")
        octets = <const uint8_t *>PyUnicode_AsUTF8AndSize(words, &size)
        self.put(b'"')
        self.put_text(octets, size)
        return self.put(b'"')

    cdef int put_front(self, stream) except -1:
        """Write everything between the values of `record` and `ts_ns`."""
        conn, conn_id, side, *_ = json_rows.NO_STREAM if stream is None else stream
        self.put(b',"conn":')
        self.put_optional(conn)
        self.put(b',"conn_id":')
        self.put_optional_text(conn_id)
        self.put(b',"side":')
        self.put_optional(side)
        return self.put(b',"ts_ns":')

    cdef int put_time(self, int64_t time) except -1:
        """Write everything from the value of `ts_ns` to that of `file`."""
        self.put_number(time)
        self.put(b',"time":"')
        self.put(<bytes?>rfc_3339(time // SECOND))
        self.put(b".")
        self.put_nanoseconds(time % SECOND)
        return self.put(b'Z","file":')

    cdef int put_ends(self, stream) except -1:
        """Write everything after the value of `packet` up to the own fields."""
        _, _, _, src_ip, src_port, dst_ip, dst_port = json_rows.NO_STREAM if stream is None else stream
        self.put(b',"src_ip":')
        self.put_optional_text(src_ip)
        self.put(b',"src_port":')
        self.put_optional(src_port)
        self.put(b',"dst_ip":')
        self.put_optional_text(dst_ip)
        self.put(b',"dst_port":')
        self.put_optional(dst_port)
        return self.put(b",")

    cdef int put_text(self, const uint8_t *octets, Py_ssize_t count) except -1:
        self.used = write_text(self.reserve(6 * count), octets, count) - self.at
        return 0


@cython.final
cdef class Rows:
    """The columns of `JsonRows`, and values shared by its rows."""

    cdef object rows
    cdef list files, data, payloads, streams, shared, types, closings, ends_of_bodies
    cdef dict topics
    cdef int64_t head
    cdef bint has_bodies
    cdef const int64_t[:] sender_of, places, packets, times, packet_ends, time_ends
    cdef const int64_t[:] lengths, firsts, counts, contents, special, topic_sizes
    cdef const int64_t[:] offsets, sizes, starts, begins, whole, incomplete
    cdef const uint8_t[:] is_kept, is_enveloped, complete
    cdef const int8_t[:] kept, inside
    # of the previous row, whose beginning the next one may share
    cdef int64_t sender_before, packet_before, time_before
    cdef Py_ssize_t front_begin, front_end

    def __init__(self, rows):
        columns, options = rows.columns, rows.options
        self.rows = rows
        self.files, self.data, self.streams, self.types = rows.files, rows.data, rows.streams, rows.types
        self.shared = [None] * len(self.streams)
        self.closings = [
            (each.front, each.back, each.front + TEXT_BEGINS, TEXT_ENDS + each.back) for each in json_rows.CLOSINGS
        ]
        self.ends_of_bodies = [json_rows.ENDS_OF_BODIES[kept] + b',"packet_end":' for kept in range(3)]
        self.topics = {}
        self.has_bodies = rows.has_bodies
        self.head = min(options.head, LARGEST_SIZE) if options.bodies == "head" else -1
        self.payloads = columns.made.in_tables()
        self.sender_of, self.places = columns.sender_of, columns.places
        self.packets, self.times = columns.packets, columns.times
        self.packet_ends, self.time_ends, self.lengths = columns.packet_ends, columns.time_ends, columns.lengths
        self.firsts, self.counts, self.contents = columns.first, columns.counts, columns.content
        self.special = columns.special
        self.offsets, self.sizes, self.starts = columns.offsets, columns.sizes, columns.starts
        self.begins = columns.octets.begins
        self.whole, self.incomplete = rows.whole, rows.incomplete
        self.topic_sizes = columns.topic_sizes
        self.is_kept, self.is_enveloped = columns.is_kept.view(np.uint8), columns.is_enveloped.view(np.uint8)
        self.complete = columns.complete.view(np.uint8)
        self.kept, self.inside = columns.kept, columns.inside

    cdef int put_line(self, Text text, Py_ssize_t row) except -1:
        cdef int64_t sender = self.sender_of[row], first = self.firsts[row], count = self.counts[row]
        cdef bint is_usual = self.special[row] == 0 and self.is_kept[row]
        cdef bint is_sealed = self.special[row] == ENCRYPTED and self.sizes[first + count - 1] <= LARGEST_SIZE
        cdef tuple closing
        if is_usual and self.has_bodies:
            is_usual = self.kept[row] != NOT_KEPT
        if not (is_usual or is_sealed):
            return text.put(self.rows.careful(row))
        self.put_front(text, row, sender)
        text.put_number(self.offsets[first])
        text.put(b',"length":')
        text.put_number(self.lengths[row])
        if is_usual:
            self.put_frames(text, sender, first, count)
        else:
            text.put(b',"parts":null,"sizes":null,"bodies":null')
        text.put(<bytes?>self.ends_of_bodies[self.kept[row]])
        text.put_number(self.packet_ends[row] & PACKET_MASK)
        text.put(b',"ts_end_ns":')
        text.put_number(self.time_ends[row])
        text.put(<bytes?>self.types[sender])
        closing = self.closings[self.whole[sender] if self.complete[row] else self.incomplete[sender]]
        if is_usual:
            self.put_meaning(text, row, sender, first, count)
            return self.put_inside(text, row, sender, first + count - 1, closing)
        text.put(b',"envelope":null,"topic":null,"kind":"encrypted"')
        text.put(<bytes?>closing[0])
        text.put(b"null")
        return text.put(<bytes?>closing[1])

    cdef int put_front(self, Text text, Py_ssize_t row, int64_t sender) except -1:
        """Write everything before the value of `offset`, often the same as in the previous line."""
        cdef int64_t packet = self.packets[row], time = self.times[row]
        cdef Py_ssize_t length = self.front_end - self.front_begin
        cdef tuple shared
        cdef char *to
        if length and sender == self.sender_before and packet == self.packet_before and time == self.time_before:
            to = text.reserve(length)  # may move the whole text
            memcpy(to, text.at + self.front_begin, length)
            text.used += length
            return 0
        self.sender_before, self.packet_before, self.time_before = sender, packet, time
        self.front_begin = text.used
        shared = self.shared_by(sender)
        text.put(<bytes?>shared[0])
        text.put_time(time)
        text.put(<bytes?>self.files[packet >> FILE_SHIFT])
        text.put(b',"packet":')
        text.put_number(packet & PACKET_MASK)
        text.put(<bytes?>shared[1])
        self.front_end = text.used
        return 0

    cdef tuple shared_by(self, int64_t sender):
        """Return the text before the value of `ts_ns`, and between the values of `packet` and `offset`, for all lines
        of a sender."""
        cdef Text front, ends
        if self.shared[sender] is None:
            stream, source = self.streams[sender]
            front, ends = Text(), Text()
            front.put(BEGIN)
            front.put(b'"message"')
            front.put_front(stream)
            ends.put_ends(stream)
            ends.put(b'"source":')
            ends.put_number(source)
            ends.put(b',"offset":')
            self.shared[sender] = front.octets(), ends.octets()
        return self.shared[sender]

    cdef int put_frames(self, Text text, int64_t sender, int64_t first, int64_t count) except -1:
        """Write `parts`, `sizes` and `bodies` without their end."""
        cdef int64_t frame, size
        if count == 1:
            text.put(b',"parts":1,"sizes":[')
        else:
            text.put(b',"parts":')
            text.put_number(count)
            text.put(b',"sizes":[')
        for frame in range(first, first + count):
            if frame > first:
                text.put(b",")
            text.put_number(self.sizes[frame])
        if not self.has_bodies:
            return text.put(b'],"bodies":null')
        text.put(b'],"bodies":["')
        for frame in range(first, first + count):
            if frame > first:
                text.put(b'","')
            size = self.sizes[frame]
            if 0 <= self.head < size:
                size = self.head
            self.put_body(text, sender, frame, size)
        return 0

    cdef const uint8_t *octets(self, int64_t sender, int64_t frame, int64_t size) except NULL:
        """Return the first `size` octets of a body."""
        cdef bytes data = <bytes?>self.data[sender]
        cdef int64_t start = self.starts[frame] - self.begins[sender]
        if size < 0 or not 0 <= start <= PyBytes_GET_SIZE(data) - size:
            raise IndexError("octets that were not kept")
        return <const uint8_t *>PyBytes_AS_STRING(data) + start

    cdef int put_body(self, Text text, int64_t sender, int64_t frame, int64_t size) except -1:
        """Write the first `size` octets of a body in base64."""
        cdef const uint8_t *octets = self.octets(sender, frame, size)
        if size < LONG_BODY:
            return text.put_base64(octets, size)
        return text.put(<bytes?>b64encode(<const uint8_t[:size]>octets))

    cdef int put_meaning(self, Text text, Py_ssize_t row, int64_t sender, int64_t first, int64_t count) except -1:
        """Write `envelope`, `topic` and `kind`."""
        cdef int64_t size = self.topic_sizes[row]
        if size == NO_TOPIC and not (self.is_enveloped[row] and count > 1):
            return text.put(b',"envelope":null,"topic":null,"kind":"data"')
        if self.is_enveloped[row] and count > 1:
            text.put(b',"envelope":')
            text.put(<bytes?>self.rows.envelope(row) if self.sizes[first] else b"[]")
        else:
            text.put(b',"envelope":null')
        if size == NO_TOPIC:
            return text.put(b',"topic":null,"kind":"data"')
        text.put(b',"topic":')
        text.put(self.topic(self.octets(sender, first, size), size))
        return text.put(b',"kind":"data"')

    cdef bytes topic(self, const uint8_t *octets, int64_t size):
        cdef bytes head = PyBytes_FromStringAndSize(<const char *>octets, size)
        cdef object found = self.topics.get(head)
        if found is None:
            found = self.topics[head] = json_rows.topic_of(head)
        return found

    cdef int put_inside(self, Text text, Py_ssize_t row, int64_t sender, int64_t last, tuple closing) except -1:
        """Write the rest after `kind`: `payload` and its surroundings."""
        cdef int64_t first = self.contents[row]
        if self.inside[row] == TEXT_INSIDE and self.is_short(first, last):
            text.put(<bytes?>closing[2])
            self.put_frames_of_text(text, sender, first, last)
            return text.put(<bytes?>closing[3])
        text.put(<bytes?>closing[0])
        if self.inside[row] == OTHER_INSIDE:
            self.put_made(text, self.payloads[self.places[row]])
        elif self.inside[row] == JSON_INSIDE:
            self.put_json(text, row, sender, last)
        elif self.inside[row] == TEXT_INSIDE:
            text.put(<bytes?>self.rows.payload(row))
        else:
            text.put(b"null")
        return text.put(<bytes?>closing[1])

    cdef bint is_short(self, int64_t first, int64_t last) except -1:
        """Whether the text of the frames fits in a summary."""
        cdef int64_t frame, left = LONGEST_SUMMARY
        for frame in range(first, last + 1):
            if frame > first:
                left -= PyBytes_GET_SIZE(BETWEEN)
            if not 0 <= self.sizes[frame] <= left:
                return False
            left -= self.sizes[frame]
        return True

    cdef int put_frames_of_text(self, Text text, int64_t sender, int64_t first, int64_t last) except -1:
        """Write the text of frames."""
        cdef int64_t frame
        for frame in range(first, last + 1):
            if frame > first:
                text.put(BETWEEN)
            text.put_text(self.octets(sender, frame, self.sizes[frame]), self.sizes[frame])
        return 0

    cdef int put_json(self, Text text, Py_ssize_t row, int64_t sender, int64_t frame) except -1:
        """Write dissected JSON; plain JSON is not dissected."""
        cdef int64_t size = self.sizes[frame]
        cdef const uint8_t *octets = self.octets(sender, frame, size)
        cdef char fields[LONGEST_PLAIN]
        cdef Py_ssize_t written = plain_json(octets, size, fields)
        if written < 0:
            return self.put_made(text, self.rows.columns.made.of(row))
        text.put(b'{"protocol":"json","summary":"')
        if size <= LONGEST_SUMMARY:
            text.put_text(octets, size)
        else:
            text.put_text(octets, LONGEST_SUMMARY - 1)
            text.put(NO_MORE)
        text.put(b'","fields":')
        if is_empty_object(fields, written):
            return text.put(b"null}")
        memcpy(text.reserve(written), fields, written)
        text.used += written
        return text.put(b"}")

    cdef int put_made(self, Text text, made) except -1:
        """Write the result of a dissector."""
        cdef str protocol = made.protocol, summary = made.summary
        cdef Py_ssize_t size
        cdef const uint8_t *octets = <const uint8_t *>PyUnicode_AsUTF8AndSize(summary, &size)
        if not protocol:  # the dissector that claimed the message failed
            return text.put(b"null")
        text.put(b'{"protocol":')
        text.put(<bytes?>dumps(protocol))
        text.put(b',"summary":"')
        text.put_text(octets, size)
        text.put(b'","fields":')
        text.put(b"null" if made.fields is None else <bytes?>dumps(made.fields, as_base64))
        return text.put(b"}")


def lines_between(rows, Py_ssize_t low, Py_ssize_t high, cuts):
    cdef Text text = Text()
    cdef Rows columns = Rows(rows)
    cdef Py_ssize_t row, end
    made = []
    row = low
    for end in cuts[1:]:
        if not row <= end <= high:
            raise ValueError("cuts are in order")
        text.used = columns.front_begin = columns.front_end = 0
        while row < end:
            columns.put_line(text, row)
            row += 1
        made.append(text.octets())
    return made


def lines_of_records(records, fields):
    cdef Text text = Text()
    made = []
    for record, own in zip(records, fields, strict=True):
        text.used = 0
        stream = record.stream
        text.put(BEGIN)
        text.put_optional_text(record.type)
        text.put_front(stream)
        text.put_time(record.ts_ns)
        text.put_optional_text(file_name(record.file))
        text.put(b',"packet":')
        text.put_optional(record.packet)
        text.put_ends(stream)
        text.put(<bytes?>own)
        made.append(text.octets())
    return made
