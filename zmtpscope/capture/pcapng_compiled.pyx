# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""Compiled version of `pcapng.py`: read consecutive packet blocks."""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp

import numpy as np

from zmtpscope.capture import packets, pcapng as twin
from zmtpscope.capture.octets_compiled cimport number_at, short_at

cdef int64_t LARGEST_PACKET = packets.LARGEST_PACKET, LATEST = packets.LATEST, LARGEST_BLOCK = twin.LARGEST_BLOCK
cdef int PACKET = twin.PACKET, MAX_OPTIONS = twin.MAX_OPTIONS, DROP_COUNT = twin.DROP_COUNT
cdef int END_OF_OPTIONS = twin.END_OF_OPTIONS

cdef enum:
    LEAST = 32  # octets of a block without a packet
    HEADER = 28
    OPTION = 4
    DROP_COUNT_SIZE = 8

cdef struct Block:
    int64_t start, stop, missing, time, interface, end


cdef inline bint has_drop_count(const uint8_t *octets, int64_t size, bint is_little) noexcept nogil:
    cdef int64_t at = 0
    cdef int code, length, _
    for _ in range(MAX_OPTIONS):
        if size - at < OPTION + DROP_COUNT_SIZE:
            return False
        code, length = short_at(octets + at, is_little), short_at(octets + at + 2, is_little)
        if code == DROP_COUNT and length == DROP_COUNT_SIZE:
            return True
        if code == END_OF_OPTIONS:
            return False
        at += OPTION + length + (-length & 3)
    return False


cdef inline bint read_block(
    const uint8_t *data, int64_t at, int64_t stop, bint is_little, const int64_t *units, int64_t most, Block *found
) noexcept nogil:
    """Read a block; return whether it is a plain packet block of one of `most` interfaces."""
    cdef int64_t size = stop - at, length, captured, high, ticks, unit, options
    cdef const uint8_t *octets = data + at
    if size < LEAST:
        return False
    length, captured = number_at(octets + 4, is_little), number_at(octets + 20, is_little)
    found.interface, high = number_at(octets + 8, is_little), number_at(octets + 12, is_little)
    if number_at(octets, is_little) != PACKET or length & 3 or not LEAST <= length <= min(size, LARGEST_BLOCK):
        return False
    if captured > min(length - LEAST, LARGEST_PACKET) or memcmp(octets + length - 4, octets + 4, 4):
        return False
    if found.interface >= most or high >> 31:
        return False
    unit, ticks = units[found.interface], high << 32 | number_at(octets + 16, is_little)
    options = HEADER + captured + (-captured & 3)
    if not unit or ticks > LATEST // unit or has_drop_count(octets + options, length - 4 - options, is_little):
        return False
    found.start, found.stop, found.end = at + HEADER, at + HEADER + captured, at + length
    found.missing, found.time = max(number_at(octets + 24, is_little) - captured, 0), ticks * unit
    return True


def packet_blocks(
    const uint8_t[::1] data not None,
    int64_t position,
    str order,
    const int64_t[::1] links not None,
    const int64_t[::1] units not None,
    int64_t first_interface,
    int64_t room,
):
    cdef Py_ssize_t count = 0, row
    cdef bint is_little = order == "<"
    cdef Block found
    cdef int64_t at = position, size = data.shape[0], most = units.shape[0]
    cdef const uint8_t *octets = &data[0] if size else NULL
    cdef const int64_t *unit = &units[0] if most else NULL
    if position < 0:
        raise ValueError("no place of a block")
    while count < room and read_block(octets, at, size, is_little, unit, most, &found):
        at = found.end
        count += 1
    columns = np.empty((twin.COLUMNS, count), np.int64)
    cdef int64_t[:, ::1] of = columns
    for row in range(count):
        read_block(octets, position, size, is_little, unit, most, &found)
        of[0, row], of[1, row], of[2, row] = links[found.interface], found.start, found.stop
        of[3, row], of[4, row], of[5, row] = found.missing, found.time, first_interface + found.interface
        position = found.end
    return columns, position
