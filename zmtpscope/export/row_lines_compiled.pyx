# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""Compiled twin of `row_lines.py`: complete and readable messages are written octet by octet. Python functions
format all others, unreadable parts, and packets and times that are more than numbers."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8, PyUnicode_GET_LENGTH
from libc.stdint cimport int8_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

import numpy as np

from zmtpscope.capture import segments
from zmtpscope.dissect.records import message_columns
from zmtpscope.export import preview, rows
from zmtpscope.payloads import dissectors, values
from zmtpscope.zmtp import events

from zmtpscope.dissect.records.row_contents_compiled cimport is_readable

cdef int64_t PACKET_MASK = segments.PACKET_MASK
cdef int64_t SPECIAL = events.SPECIAL
cdef int64_t LARGEST = 2**63 - 1
cdef int64_t MAX_SIZES = rows.MAX_SIZES, MAX_ADDRESSES = rows.MAX_ADDRESSES, TOPIC = rows.TOPIC
cdef int64_t LONGEST_ADDRESS = rows.LONGEST_ADDRESS, LONGEST_TOPIC = rows.LONGEST_TOPIC
cdef int64_t PREVIEW = rows.PREVIEW
cdef int64_t OCTETS = preview.OCTETS, LEAST = preview.LEAST
cdef int64_t MAX_IN_FRONT = preview.MAX_IN_FRONT, MIN_IN_FRONT = preview.MIN_IN_FRONT
cdef tuple NOT_SHOWN = rows.NOT_SHOWN
cdef int OTHER_INSIDE = message_columns.OTHER_INSIDE, JSON_INSIDE = message_columns.JSON_INSIDE
cdef bytes NAME_OF_JSON = dissectors.JSON.name.encode()
cdef bytes BETWEEN = preview.BETWEEN.encode(), NO_MORE = values.NO_MORE.encode()
cdef int64_t WIDTH_BETWEEN = len(preview.BETWEEN), WIDTH_NO_MORE = len(values.NO_MORE)

cdef enum:
    ROOM = 8192  # octets of a row; Python formats a longer one
    WIDEST = 1 << 30  # characters; a wider body is taken whole
    MAX_DIGITS = 19  # of a number that is not negative
    BLANK = 32
    NEWLINE = 10
    ZERO = 48
    TIME = 10  # characters of a time, at least ...
    DECIMALS = 7  # ... of which so many follow the seconds
    MICROSECOND = 1000  # nanoseconds
    SECOND = 1000000  # microseconds

cdef int64_t LONGEST = 2**62
"""Nanoseconds; Python formats times that are further apart."""


cdef bint has_backslash(const uint8_t *octets, Py_ssize_t count) noexcept nogil:
    """Whether an octet is a backslash, which escapes others."""
    cdef Py_ssize_t place
    cdef bint found = False
    for place in range(count):
        found |= octets[place] == 92
    return found


@cython.final
cdef class Numbers:
    cdef bint is_number
    cdef int64_t origin, width

    cdef void take(self, front) except *:
        """Continue with the values that `front` has written."""
        self.width = front.width
        self.is_number = front.origin is not None
        self.origin = front.origin if self.is_number else 0


@cython.final
cdef class Rows:
    """Rows as columns, and the current line: `used` octets of `line`. Functions that write return whether there was
    room."""

    cdef list payloads, messages
    cdef bytes data
    cdef const int64_t[:] sender_of, places, packets, times, first, last, content, starts, sizes, flags
    cdef const uint8_t[:] is_whole, is_enveloped
    cdef const int8_t[:] inside
    cdef bint are_messages, has_one_file
    cdef int64_t limit
    cdef char *line
    cdef Py_ssize_t used

    def __init__(self, words):
        columns = words.columns
        self.packets, self.times = columns.packets, columns.times
        self.has_one_file = len(columns.files) == 1
        self.are_messages = isinstance(columns, message_columns.MessageColumns)
        if not self.are_messages:
            return
        self.sender_of, self.places = columns.sender_of, columns.places
        self.payloads, self.inside = columns.made.in_tables(), columns.inside
        self.messages = [(rows.noun(sender) + rows.doubt(sender)).encode() for sender in columns.senders]
        self.first, self.last, self.content = columns.first, columns.last, columns.content
        self.data, self.starts = columns.octets.whole, columns.starts
        self.sizes, self.flags = columns.sizes, columns.flags
        self.is_whole = (columns.complete & columns.is_kept).view(np.uint8)
        self.is_enveloped = columns.is_enveloped.view(np.uint8)
        self.limit = min(rows.limit_of_bodies(words.options, rows.PREVIEW), WIDEST)

    cdef str line_of(self, words, Py_ssize_t row, str who, front, Numbers numbers):
        cdef char line[ROOM + 1]
        cdef Py_ssize_t begin
        cdef bint is_number = numbers.is_number and self.has_one_file
        cdef str text
        self.line, self.used = line, 0
        if not is_number or not self.put_front(numbers, self.packets[row], self.times[row]):
            self.used, front.width = 0, numbers.width
            text = front.paint("dim", front.of_row(self.packets[row], self.times[row], words.columns.files))
            numbers.take(front)
            if not self.put_text(text):
                return f"{text}{who}{words.describe(row, 0)}\n"
        begin = self.used
        if not self.put_text(who) or not self.put_words(row):
            self.used, text = begin, f"{who}{words.describe(row, 0)}"
            if not self.put_text(text):
                return f"{PyUnicode_DecodeUTF8(line, begin, NULL)}{text}\n"
        line[self.used] = NEWLINE
        return PyUnicode_DecodeUTF8(line, self.used + 1, NULL)

    cdef bint put(self, const char *octets, Py_ssize_t count) noexcept nogil:
        if not 0 <= count <= ROOM - self.used:
            return False
        memcpy(self.line + self.used, octets, count)
        self.used += count
        return True

    cdef bint put_number(self, int64_t number, int64_t width=0) noexcept nogil:
        """Write a number, right-aligned in `width` characters."""
        cdef char digits[MAX_DIGITS]
        cdef Py_ssize_t begin = MAX_DIGITS
        if number < 0:
            return False
        while True:
            begin -= 1
            digits[begin] = <char>(ZERO + number % 10)
            number //= 10
            if not number:
                break
        return self.put_blanks(width - (MAX_DIGITS - begin)) and self.put(digits + begin, MAX_DIGITS - begin)

    cdef bint put_blanks(self, int64_t count) noexcept nogil:
        """Write blanks; none if `count` is negative."""
        if count > ROOM - self.used:
            return False
        if count > 0:
            memset(self.line + self.used, BLANK, count)
            self.used += count
        return True

    cdef bint put_front(self, Numbers numbers, int64_t reference, int64_t time) noexcept nogil:
        """Write packet and time as numbers."""
        cdef int64_t packet = reference & PACKET_MASK, microseconds, fraction, scale = SECOND // 10
        cdef Py_ssize_t begin = self.used
        if not (-LONGEST < time < LONGEST and -LONGEST < numbers.origin <= time):
            return False
        microseconds = (time - numbers.origin) // MICROSECOND
        if not self.put_number(packet, numbers.width) or not self.put(b" ", 1):
            return False
        numbers.width = max(numbers.width, self.used - begin - 1)
        if not self.put_number(microseconds // SECOND, TIME - DECIMALS) or not self.put(b".", 1):
            return False
        fraction = microseconds % SECOND
        while scale > 1 and fraction < scale:
            if not self.put(b"0", 1):
                return False
            scale //= 10
        return self.put_number(fraction) and self.put_blanks(2)

    cdef bint put_words(self, Py_ssize_t row) except -1:
        """Describe a row whose octets are all present."""
        cdef int64_t first, last, content, frame
        cdef bytes message
        if not self.are_messages or not self.is_whole[row]:
            return False
        first, last, content = self.first[row], self.last[row], self.content[row]
        message = self.messages[self.sender_of[row]]
        if self.flags[first] & SPECIAL:
            return False
        if not self.put(PyBytes_AS_STRING(message), PyBytes_GET_SIZE(message)) or not self.put(b" ", 1):
            return False
        if not self.put_sizes(first, last):
            return False
        if first < content and self.is_enveloped[row]:
            if content - 1 - first > MAX_ADDRESSES:
                return False
            for frame in range(first, content - 1):
                if not self.put(b" via ", 5) or not self.put_name(frame, LONGEST_ADDRESS):
                    return False
        elif first < content and not (self.put(b" ", 1) and self.put_name(first, LONGEST_TOPIC)):
            return False
        if self.inside[row] == JSON_INSIDE:
            return self.put_json(last)
        if self.inside[row] == OTHER_INSIDE:
            made = self.payloads[self.places[row]]
            if made.protocol not in NOT_SHOWN:
                return self.put_inside(made)
        if not self.limit:
            return True
        if not self.put(b"  ", 2):
            return False
        return self.put_preview(content, self.limit) >= 0 if content == last else self.put_parts(content, last)

    cdef bint put_sizes(self, int64_t first, int64_t last) except -1:
        cdef int64_t frame, total = 0
        if last - first >= MAX_SIZES:
            for frame in range(first, last + 1):
                if not 0 <= self.sizes[frame] <= LARGEST - total:
                    return False
                total += self.sizes[frame]
            return (
                self.put_number(last - first + 1)
                and self.put(b" parts ", 7)
                and self.put_number(total)
                and self.put(b" octets", 7)
            )
        for frame in range(first, last + 1):
            if frame > first and not self.put(b"+", 1):
                return False
            if not self.put_number(self.sizes[frame]):
                return False
        return self.put(b" octets", 6 if first == last and self.sizes[first] == 1 else 7)

    cdef const uint8_t *octets(self, int64_t frame, int64_t limit, int64_t *count) except? NULL:
        """Return the first octets of a body, at most `limit`; NULL if they were not kept."""
        cdef int64_t start = self.starts[frame]
        count[0] = min(self.sizes[frame], limit)
        if count[0] < 0 or not 0 <= start <= PyBytes_GET_SIZE(self.data) - count[0]:
            return NULL
        return <const uint8_t *>PyBytes_AS_STRING(self.data) + start

    cdef bint put_text(self, str text) except -1:
        cdef Py_ssize_t count
        cdef const char *octets = PyUnicode_AsUTF8AndSize(text, &count)
        return self.put(octets, count)

    cdef bint put_inside(self, made) except -1:
        """Write the payload."""
        cdef str protocol = made.protocol, summary = made.summary
        cdef Py_ssize_t named, said, shown
        cdef const char *name = PyUnicode_AsUTF8AndSize(protocol, &named)
        cdef const char *octets = PyUnicode_AsUTF8AndSize(summary, &said)
        shown = min(said, PREVIEW + 1)
        if named >= PREVIEW or not is_readable(<const uint8_t *>name, named):
            return self.put_text(rows.inside(made, rows.PREVIEW))
        if not is_readable(<const uint8_t *>octets, shown):
            return self.put_text(rows.inside(made, rows.PREVIEW))
        if not self.put(b"  ", 2) or not self.put(name, named) or not self.put(b" ", 1):
            return False
        shown = PREVIEW - named - 1
        return self.put_begin(<const uint8_t *>octets, said, said <= shown, shown)

    cdef bint put_json(self, int64_t frame) except -1:
        """Write JSON without parsing it."""
        cdef int64_t count, size = self.sizes[frame], shown = PREVIEW - len(NAME_OF_JSON) - 1
        cdef const uint8_t *octets = self.octets(frame, PREVIEW + 1, &count)
        if octets == NULL or not count or octets[0] == BLANK or not is_readable(octets, count):
            return False
        if not self.put(b"  ", 2) or not self.put(PyBytes_AS_STRING(NAME_OF_JSON), PyBytes_GET_SIZE(NAME_OF_JSON)):
            return False
        return self.put(b" ", 1) and self.put_begin(octets, size, size <= shown, shown)

    cdef bint put_name(self, int64_t frame, int64_t limit) except -1:
        """Write a topic, group or address in quotes."""
        cdef int64_t count
        cdef const uint8_t *octets = self.octets(frame, TOPIC, &count)
        if octets == NULL:
            return False
        if not is_readable(octets, count) or has_backslash(octets, count):
            return self.put_text(rows.name_of((<const char *>octets)[:count], limit))
        return self.put(b'"', 1) and self.put_begin(octets, count, count <= limit, limit) and self.put(b'"', 1)

    cdef bint put_begin(self, const uint8_t *octets, int64_t count, bint is_all, int64_t limit) noexcept:
        """Write octets, or as many as fit before an ellipsis."""
        if is_all:
            return self.put(<const char *>octets, count)
        if not self.put(<const char *>octets, min(count, limit - 1)):
            return False
        return self.put(PyBytes_AS_STRING(NO_MORE), PyBytes_GET_SIZE(NO_MORE))

    cdef int64_t put_preview(self, int64_t frame, int64_t limit) except? -1:
        """Write the beginning of a body in at most `limit` characters; return how many, or -1 without room."""
        cdef int64_t count
        cdef const uint8_t *octets
        cdef bint is_all
        cdef str text
        octets = self.octets(frame, OCTETS * limit, &count)
        if octets == NULL:
            return -1
        if not count or not is_readable(octets, count):
            text = preview.preview((<const char *>octets)[:count], self.sizes[frame], limit)
            return PyUnicode_GET_LENGTH(text) if self.put_text(text) else -1
        is_all = count == self.sizes[frame] and count <= limit
        if not self.put_begin(octets, count, is_all, limit):
            return -1
        return count if is_all else min(count, limit - 1) + 1

    cdef bint put_parts(self, int64_t first, int64_t last) except -1:
        """Write the beginnings of frames, next to each other."""
        cdef int64_t frame, room, shown, left = self.limit
        last = min(last, first + self.limit)
        for frame in range(first, last + 1):
            if frame > first and not self.put(PyBytes_AS_STRING(BETWEEN), PyBytes_GET_SIZE(BETWEEN)):
                return False
            room = left
            if frame < last:
                room = min(left - WIDTH_BETWEEN - WIDTH_NO_MORE, max(MIN_IN_FRONT, self.limit // MAX_IN_FRONT))
            if room < LEAST:
                return self.put(PyBytes_AS_STRING(NO_MORE), PyBytes_GET_SIZE(NO_MORE))
            shown = self.put_preview(frame, room)
            if shown < 0:
                return False
            left -= shown + WIDTH_BETWEEN
        return True


def lines_of(words, rows, names, front):
    cdef Numbers numbers = Numbers()
    cdef Rows columns
    cdef Py_ssize_t row
    cdef list lines = []
    if words.compiled is None:
        words.compiled = Rows(words)
    columns = words.compiled
    numbers.take(front)
    for row, (who, _) in zip(rows, names, strict=True):
        lines.append(columns.line_of(words, row, who, front, numbers))
    front.width = numbers.width
    return lines
