# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""`rows.py`, compiled: messages of which all is there, and that are readable, are written octet by octet; all others, and
what is not readable of these, are asked for."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8, PyUnicode_GET_LENGTH
from libc.stdint cimport int64_t, uint8_t
from libc.stdio cimport snprintf
from libc.string cimport memcpy

import numpy as np

from zmtpscope.dissect import MessageRun
from zmtpscope.dissect.records.message_columns import content_frames
from zmtpscope.export import preview, rows
from zmtpscope.zmtp import events

cdef int64_t SPECIAL = events.SPECIAL
cdef int64_t LARGEST = 2**63 - 1
cdef int64_t MOST_SIZES = rows.MOST_SIZES, MOST_ADDRESSES = rows.MOST_ADDRESSES, TOPIC = rows.TOPIC
cdef int64_t LONGEST_ADDRESS = rows.LONGEST_ADDRESS, LONGEST_TOPIC = rows.LONGEST_TOPIC
cdef int64_t OCTETS = preview.OCTETS, LEAST = preview.LEAST
cdef int64_t MOST_IN_FRONT = preview.MOST_IN_FRONT, LEAST_IN_FRONT = preview.LEAST_IN_FRONT
cdef tuple NOT_SHOWN = rows.NOT_SHOWN
cdef bytes BETWEEN = preview.BETWEEN.encode(), NO_MORE = preview.NO_MORE.encode()
cdef int64_t WIDTH_BETWEEN = len(preview.BETWEEN), WIDTH_NO_MORE = len(preview.NO_MORE)

cdef enum:
    ROOM = 8192  # octets of a row; a longer one is asked for
    WIDEST = 1 << 30  # characters; whoever wants more of a body gets all of it
    MOST_DIGITS = 21  # and the zero behind them


cdef bint is_readable(const uint8_t *octets, Py_ssize_t count) noexcept nogil:
    """Whether octets are ASCII that is printed as it is."""
    cdef Py_ssize_t place
    cdef bint is_other = False
    for place in range(count):  # which the compiler makes many steps at once of
        is_other |= (octets[place] < 32) | (octets[place] > 126)
    return not is_other


cdef bint has_backslash(const uint8_t *octets, Py_ssize_t count) noexcept nogil:
    """Whether some octet is the one that escapes others."""
    cdef Py_ssize_t place
    cdef bint found = False
    for place in range(count):
        found |= octets[place] == 92
    return found


@cython.final
cdef class Rows:
    """The columns of a run, and the row that is written: `used` octets of `line`. What writes says whether there was
    room."""

    cdef list payloads
    cdef bytes data, message
    cdef const int64_t[:] first, last, content, starts, sizes, flags
    cdef const uint8_t[:] complete
    cdef bint is_plain, is_enveloped
    cdef int64_t limit
    cdef char *line
    cdef Py_ssize_t used

    def __init__(self, words):
        run = words.run
        self.is_plain = isinstance(run, MessageRun)
        if not self.is_plain:
            return
        self.payloads, self.data, self.message = run.payloads, run.data, (words.message + words.doubt).encode()
        self.first, self.last, self.content = run.first, run.last, content_frames(run)
        self.starts, self.sizes, self.flags = run.bodies - run.base, run.sizes, run.flags
        self.complete = run.complete.view(np.uint8)
        self.is_enveloped, self.limit = words.enveloped, min(words.limit(0), WIDEST)

    cdef str row(self, words, Py_ssize_t row):
        """A row in words."""
        cdef char line[ROOM]
        if self.is_plain and self.complete[row]:
            self.line, self.used = line, 0
            made = None if self.payloads is None else self.payloads[row]
            if self.put_row(words, self.first[row], self.last[row], self.content[row], made):
                return PyUnicode_DecodeUTF8(self.line, self.used, NULL)
        return words.describe(row, 0)

    def between(self, words, Py_ssize_t low, Py_ssize_t high):
        return [self.row(words, row) for row in range(low, high)]

    cdef bint put(self, const char *octets, Py_ssize_t count) noexcept nogil:
        if not 0 <= count <= ROOM - self.used:
            return False
        memcpy(self.line + self.used, octets, count)
        self.used += count
        return True

    cdef bint put_number(self, int64_t number) noexcept nogil:
        cdef char digits[MOST_DIGITS]
        return number >= 0 and self.put(digits, snprintf(digits, MOST_DIGITS, b"%lld", <long long>number))

    cdef bint put_row(self, words, int64_t first, int64_t last, int64_t content, made) except -1:
        """What a message is, and what it carries, of which that was `made`."""
        cdef int64_t frame
        if self.flags[first] & SPECIAL:
            return False
        if not self.put(PyBytes_AS_STRING(self.message), PyBytes_GET_SIZE(self.message)) or not self.put(b" ", 1):
            return False
        if not self.put_sizes(first, last):
            return False
        if first < content and self.is_enveloped:
            if content - 1 - first > MOST_ADDRESSES:
                return False
            for frame in range(first, content - 1):
                if not self.put(b" via ", 5) or not self.put_name(words, frame, LONGEST_ADDRESS):
                    return False
        elif first < content and not (self.put(b" ", 1) and self.put_name(words, first, LONGEST_TOPIC)):
            return False
        if made is not None and made.protocol not in NOT_SHOWN:
            return self.put_text(words.inside(made, 0))
        if not self.limit:
            return True
        if not self.put(b"  ", 2):
            return False
        return self.put_preview(words, content, self.limit) >= 0 if content == last else self.put_parts(words, content, last)

    cdef bint put_sizes(self, int64_t first, int64_t last) except -1:
        cdef int64_t frame, total = 0
        if last - first >= MOST_SIZES:
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
        """The first octets of the body of a frame, at most `limit`; NULL where they were not kept."""
        cdef int64_t start = self.starts[frame]
        count[0] = min(self.sizes[frame], limit)
        if count[0] < 0 or not 0 <= start <= PyBytes_GET_SIZE(self.data) - count[0]:
            return NULL
        return <const uint8_t *>PyBytes_AS_STRING(self.data) + start

    cdef bint put_text(self, str text) except -1:
        cdef bytes octets = text.encode()
        return self.put(PyBytes_AS_STRING(octets), PyBytes_GET_SIZE(octets))

    cdef bint put_name(self, words, int64_t frame, int64_t limit) except -1:
        """A topic, group or address in quotes."""
        cdef int64_t count
        cdef const uint8_t *octets = self.octets(frame, TOPIC, &count)
        if octets == NULL or not is_readable(octets, count) or has_backslash(octets, count):
            return self.put_text(words.name(frame, limit))
        return self.put(b'"', 1) and self.put_begin(octets, count, count <= limit, limit) and self.put(b'"', 1)

    cdef bint put_begin(self, const uint8_t *octets, int64_t count, bint is_all, int64_t limit) noexcept:
        """Octets, or as many as `limit` leaves room for in front of an ellipsis."""
        if is_all:
            return self.put(<const char *>octets, count)
        if not self.put(<const char *>octets, min(count, limit - 1)):
            return False
        return self.put(PyBytes_AS_STRING(NO_MORE), PyBytes_GET_SIZE(NO_MORE))

    cdef int64_t put_preview(self, words, int64_t frame, int64_t limit) except? -1:
        """The beginning of a body in at most `limit` characters: how many there are; -1 where there was no room."""
        cdef int64_t count
        cdef const uint8_t *octets
        cdef bint is_all
        cdef str text
        octets = self.octets(frame, OCTETS * limit, &count)
        if octets == NULL or not count or not is_readable(octets, count):
            text = words.beginning(frame, limit)
            return PyUnicode_GET_LENGTH(text) if self.put_text(text) else -1
        is_all = count == self.sizes[frame] and count <= limit
        if not self.put_begin(octets, count, is_all, limit):
            return -1
        return count if is_all else min(count, limit - 1) + 1

    cdef bint put_parts(self, words, int64_t first, int64_t last) except -1:
        """The beginnings of frames, next to each other."""
        cdef int64_t frame, room, shown, left = self.limit
        last = min(last, first + self.limit)
        for frame in range(first, last + 1):
            if frame > first and not self.put(PyBytes_AS_STRING(BETWEEN), PyBytes_GET_SIZE(BETWEEN)):
                return False
            room = left
            if frame < last:
                room = min(left - WIDTH_BETWEEN - WIDTH_NO_MORE, max(LEAST_IN_FRONT, self.limit // MOST_IN_FRONT))
            if room < LEAST:
                return self.put(PyBytes_AS_STRING(NO_MORE), PyBytes_GET_SIZE(NO_MORE))
            shown = self.put_preview(words, frame, room)
            if shown < 0:
                return False
            left -= shown + WIDTH_BETWEEN
        return True


def describing(words):
    return Rows(words).between
