# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""`scanner.py`, compiled: the header of each frame, one after the other."""

from cpython cimport array
from libc.stdint cimport int64_t, uint8_t

cdef enum:
    FEWEST = 256  # frames for which there is room at first


def scan_2(const uint8_t[::1] data not None, Py_ssize_t at, int64_t base, columns not None):
    cdef array.array offsets = columns.offsets, bodies = columns.bodies, sizes = columns.sizes, flags = columns.flags
    cdef Py_ssize_t length = data.shape[0], count = len(offsets), room = count
    cdef const uint8_t *octets = &data[0] if length else NULL
    cdef Frame frame
    if at < 0:
        raise IndexError("a place in front of the octets")
    try:
        while at < length and read_plain_header(octets, length, at, &frame):
            if count == room:
                room += max(FEWEST, room)
                for column in (offsets, bodies, sizes, flags):
                    array.resize(column, room)
            offsets.data.as_longlongs[count] = base + at
            bodies.data.as_longlongs[count] = base + frame.body
            sizes.data.as_longlongs[count] = frame.size
            flags.data.as_longlongs[count] = frame.flags
            count += 1
            if frame.size > <size_t>(length - frame.body):
                return frame.body + int(frame.size)
            at = frame.body + <Py_ssize_t>frame.size
    finally:
        for column in (offsets, bodies, sizes, flags):
            array.resize(column, count)
    return at
