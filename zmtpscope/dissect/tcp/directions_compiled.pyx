# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""Compiled version of `directions.py`: one loop over the segments of a block."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t
from libc.string cimport memcpy

import numpy as np

from zmtpscope.capture import segments as flag_bits
from zmtpscope.dissect.tcp import directions as twin

cdef int FIN = flag_bits.FIN, SYN = flag_bits.SYN, ACK = flag_bits.ACK, NEVER_CLEAN = twin.NEVER_CLEAN
cdef int NOT_HERE = twin.NOT_HERE
cdef int PORT = 2

cdef enum:
    IS_PLAIN
    IS_CLEAN
    FIRST_FLAGS
    FIRST_SEQUENCE
    OCTETS
    FIRST_ROW
    SYN_ROW
    SECOND_ROW
    LAST_ROW
    FIN_ROW
    ACKNOWLEDGMENT
    COLUMNS

cdef struct Direction:
    int64_t following, rows, carrying
    int64_t[COLUMNS] values


cdef inline void add(
    Direction *direction, int64_t row, int64_t sequence, int64_t acknowledgment, int64_t flags, int64_t octets
) noexcept nogil:
    """Add the segment of a row to its direction."""
    cdef bint syn = flags & SYN != 0, fin = flags & FIN != 0
    cdef bint fits = not flags & NEVER_CLEAN and flags & (SYN | ACK) and not (syn and fin)
    cdef int64_t *values = direction.values
    if not direction.rows:
        values[FIRST_FLAGS], values[FIRST_SEQUENCE], values[FIRST_ROW] = flags, sequence, row
        values[SYN_ROW] = values[SECOND_ROW] = row
        values[IS_CLEAN], values[FIN_ROW] = True, -1
    elif flags == SYN and values[FIRST_FLAGS] == SYN and values[SECOND_ROW] == values[FIRST_ROW]:
        values[SYN_ROW] = row
        fits = fits and sequence == values[FIRST_SEQUENCE] and not octets
    elif syn or sequence != direction.following or (values[FIN_ROW] >= 0 and (octets or fin)):
        fits = False
    if values[SECOND_ROW] == values[FIRST_ROW] and not syn:
        values[SECOND_ROW] = row
    direction.rows += 1
    direction.carrying += octets > 0
    values[IS_CLEAN] &= fits
    values[OCTETS] += octets
    values[LAST_ROW] = row
    if fin:
        values[FIN_ROW] = row
    values[ACKNOWLEDGMENT] = acknowledgment if flags & ACK else -1
    values[IS_PLAIN] = values[IS_CLEAN] and not values[FIRST_FLAGS] & SYN and values[FIN_ROW] < 0
    direction.following = (sequence + octets + syn + fin) & <int64_t>0xFFFFFFFF


def by_direction(
    Py_ssize_t count,
    const int64_t[:] flows,
    const int64_t[:] sequences,
    const int64_t[:] acknowledgments,
    const int64_t[:] flags,
    const int64_t[:] starts,
    const int64_t[:] stops,
):
    cdef Py_ssize_t row, number, size = flows.shape[0], rows_before = 0, carrying_before = 0
    cdef int64_t octets, at
    cdef int64_t[:] rows, carrying, bounds, carrying_bounds
    cdef int64_t[:, ::1] columns
    found = np.empty((COLUMNS, count), np.int64)
    of_rows, of_bounds = np.empty(size, np.int64), np.empty(count + 1, np.int64)
    of_carrying, of_carrying_bounds = np.empty(size, np.int64), np.empty(count + 1, np.int64)
    columns, rows, bounds, carrying, carrying_bounds = found, of_rows, of_bounds, of_carrying, of_carrying_bounds
    state = np.zeros((count, sizeof(Direction) // sizeof(int64_t)), np.int64)
    cdef int64_t[:, ::1] each = state
    for row in range(size):
        octets = stops[row] - starts[row]
        add(<Direction *>&each[flows[row], 0], row, sequences[row], acknowledgments[row], flags[row], octets)
    cdef Direction *direction
    for number in range(count):
        direction = <Direction *>&each[number, 0]
        for row in range(COLUMNS):
            columns[row, number] = direction.values[row]
        bounds[number], carrying_bounds[number] = rows_before, carrying_before
        rows_before += direction.rows
        carrying_before += direction.carrying
        direction.rows, direction.carrying = bounds[number], carrying_bounds[number]  # from here on the next index
    bounds[count], carrying_bounds[count] = rows_before, carrying_before
    for row in range(size):
        direction = <Direction *>&each[flows[row], 0]
        rows[direction.rows] = row
        direction.rows += 1
        if stops[row] > starts[row]:
            carrying[direction.carrying] = row
            direction.carrying += 1
    return found, of_rows, of_bounds, of_carrying[:carrying_before], of_carrying_bounds


cdef bytes reversed_key(bytes key):
    """Return the flow key of the other direction."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(key), address = (size - 2 * PORT) // 2
    if size < 2 * PORT or size % 2:
        raise ValueError("no flow key")
    cdef bytes other = PyBytes_FromStringAndSize(NULL, size)
    cdef char *octets = PyBytes_AS_STRING(key)
    cdef char *made = PyBytes_AS_STRING(other)
    memcpy(made, octets + address, address)
    memcpy(made + address, octets, address)
    memcpy(made + size - 2 * PORT, octets + size - PORT, PORT)
    memcpy(made + size - PORT, octets + size - 2 * PORT, PORT)
    return other


def opposites(list keys, dict numbers):
    cdef Py_ssize_t place
    found = np.empty(len(keys), np.int64)
    cdef int64_t[:] columns = found
    for place in range(len(keys)):
        columns[place] = numbers.get(reversed_key(keys[place]), NOT_HERE)
    return found
