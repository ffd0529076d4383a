# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""`row_contents.py`, compiled: select the messages for dissectors, one by one."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int8_t, int64_t, uint8_t

import numpy as np

from zmtpscope.dissect.records import message_columns
from zmtpscope.dissect.records import row_contents as twin
from zmtpscope.payloads import shapes as of_shapes
from zmtpscope.zmtp import events

from zmtpscope.payloads.json_compiled cimport plain_json

cdef int64_t SPECIAL = events.SPECIAL, NO_OCTET = of_shapes.NO_OCTET, SEVERAL = twin.SEVERAL
cdef int64_t LONGEST_JSON = message_columns.LONGEST_JSON
cdef int8_t UNKNOWN = of_shapes.UNKNOWN, NO_CANDIDATES = of_shapes.NO_CANDIDATES


cdef bint is_json(const uint8_t *octets, int64_t size) except -1:
    if size > LONGEST_JSON:
        return False
    if plain_json(octets, size, NULL) >= 0:
        return True
    from zmtpscope.payloads.json import ordinary  # loaded only if JSON may occur

    return ordinary((<const char *>octets)[:size]) is not None


def are_json(data, const int64_t[:] starts, const int64_t[:] sizes):
    cdef bytes whole = <bytes?>data
    cdef const uint8_t *octets = <const uint8_t *>PyBytes_AS_STRING(whole)
    cdef int64_t length = PyBytes_GET_SIZE(whole)
    cdef Py_ssize_t place
    found = np.zeros(starts.shape[0], np.bool_)
    cdef uint8_t[:] found_of = found.view(np.uint8)
    for place in range(starts.shape[0]):
        if starts[place] < 0 or sizes[place] < 0 or starts[place] > length or sizes[place] > length - starts[place]:
            raise IndexError("octets that are not there")
        found_of[place] = is_json(octets + starts[place], sizes[place])
    return found


cdef Py_ssize_t rank(list counts, int64_t count) except -1:
    """Return the number of frame counts, from which on a dissector may claim a message, that are at most `count`."""
    cdef Py_ssize_t found = 0
    while found < len(counts) and <int64_t>counts[found] <= count:
        found += 1
    return found


cdef int64_t total(const int64_t[:] sizes, Py_ssize_t first, Py_ssize_t last) except -1:
    """Return the octets of frames."""
    cdef int64_t found = 0
    cdef Py_ssize_t frame
    for frame in range(first, last + 1):
        found += sizes[frame]
    return found


cdef bint are_readable(
    const uint8_t *octets,
    int64_t length,
    int64_t base,
    const int64_t[:] bodies,
    const int64_t[:] sizes,
    Py_ssize_t first,
    Py_ssize_t last,
) except -1:
    """Whether frames are printable ASCII, and not all of them empty."""
    cdef int64_t start, size
    cdef bint has_octets = False
    cdef Py_ssize_t frame
    for frame in range(first, last + 1):
        start, size = bodies[frame] - base, sizes[frame]
        if start < 0 or size < 0 or start > length or size > length - start:
            raise IndexError("a frame that is not within its message")
        if not is_readable(octets + start, size):
            return False
        has_octets |= size > 0
    return has_octets


def asked_rows(run, shapes, wanted):
    cdef const int64_t[:] offsets = run.offsets, bodies = run.bodies, sizes = run.sizes, flags = run.flags
    cdef const int64_t[:] first = run.first, last = run.last
    cdef const uint8_t[:] complete = run.complete.view(np.uint8)
    cdef bytes data = <bytes?>run.data
    cdef const uint8_t *octets = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef int64_t base = run.base, length = PyBytes_GET_SIZE(data), limit = wanted.limit
    cdef bint claims = wanted.claims, others = wanted.others, everything = wanted.everything
    cdef bint wants_texts = wanted.texts, wants_json = wanted.json, is_asked, is_text
    cdef bint has_texts = False
    cdef bint enveloped = message_columns.is_enveloped(run), grouped = not enveloped and run.socket_type in message_columns.GROUPED
    cdef int64_t begin, body, size, start, octet, shape, ranks, first_of = shapes.first_of(run.socket_type)
    cdef Py_ssize_t row, head, end, frame, behind, count = first.shape[0]
    cdef list counts = shapes.counts
    cdef const int8_t[:] known_shapes = shapes.known
    cdef const uint8_t[:] begins_frame = shapes.begins_frame.view(np.uint8)
    cdef list rows = [], begins = [], totals = [], content = [], starts = [], stops = [], of_rows = [], unknown = []
    cdef list json = [], json_sizes = []
    texts = np.zeros(count, np.bool_) if wants_texts else None
    cdef uint8_t[:] texts_of = texts.view(np.uint8) if wants_texts else None
    cdef const uint8_t[:] only_json = shapes.only_json.view(np.uint8)
    ranks = len(counts) + 1
    for row in range(count):
        head, end = first[row], last[row]
        begin, body, size = offsets[head], bodies[end], sizes[end]
        if (
            not complete[row]
            or flags[head] & SPECIAL
            or begin < base
            or body < begin
            or size < 0
            or body > base + length
            or size > base + length - body
            or body + size - begin > limit
        ):
            unknown.append(row)
            continue
        frame = head
        if enveloped:
            while frame < end and sizes[frame]:
                frame += 1
            frame = frame + 1 if frame < end else head
        elif head < end and (grouped or not sizes[head]):
            frame = head + 1
        start, size = bodies[frame] - base, sizes[frame]
        if start < 0 or size < 0 or start > length or size > length - start:
            raise IndexError("a frame that is not within its message")
        shape, is_asked = SEVERAL, everything
        if claims:
            octet = octets[start] if size else NO_OCTET
            shape = (octet * ranks + rank(counts, end - frame + 1)) * ranks + rank(counts, end - head + 1) + first_of
            if known_shapes[shape] == UNKNOWN:
                shapes.claimable(np.array([shape]))
            is_asked = is_asked or known_shapes[shape] != NO_CANDIDATES
            if frame != end:
                shape = SEVERAL
                for behind in range(frame + 1, end + 1):
                    if is_asked:
                        break
                    start = bodies[behind] - base
                    if start < 0 or start > length or sizes[behind] > length - start:
                        raise IndexError("a frame that is not within its message")
                    is_asked = sizes[behind] > 1 and begins_frame[octets[start] << 8 | octets[start + 1]]
                start = bodies[frame] - base
            elif wants_json and only_json[shape] and is_json(octets + start, size):
                json.append(row)
                json_sizes.append(total(sizes, head, end))
                continue
        is_text = wants_texts and are_readable(octets, length, base, bodies, sizes, frame, end)
        if is_text:
            has_texts = texts_of[row] = True
        is_asked = is_asked or (others and not is_text)
        if not is_asked:
            continue
        rows.append(row)
        begins.append(begin)
        content.append(frame)
        starts.append(start)
        stops.append(start + size)
        of_rows.append(shape)
        totals.append(total(sizes, head, end))
    return twin.AskedRows(
        rows, begins, totals, content, starts, stops, of_rows, unknown, texts if has_texts else None, json, json_sizes
    )
