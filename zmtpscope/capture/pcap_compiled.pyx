# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""Compiled version of `pcap.py`: find the records."""

from libc.stdint cimport int64_t, uint8_t

import numpy as np

from zmtpscope.capture import pcap as twin

cdef int CAPTURED = twin.CAPTURED

cdef enum:
    ROOM = 4096  # initial number of records


cdef inline int64_t length_at(const uint8_t *octets, int lowest, int step) noexcept nogil:
    """Read a number of four octets, the lowest at `lowest` and the others `step` apart."""
    return (
        <int64_t>octets[lowest]
        | <int64_t>octets[lowest + step] << 8
        | <int64_t>octets[lowest + 2 * step] << 16
        | <int64_t>octets[lowest + 3 * step] << 24
    )


def walk(const uint8_t[::1] data not None, int64_t position, str order, int header):
    cdef int64_t last = data.shape[0] - header
    cdef Py_ssize_t count = 0, room = ROOM
    cdef int lowest = 0 if order == "<" else 3, step = 1 if order == "<" else -1
    cdef int64_t[::1] found
    if position < 0 or header < CAPTURED + 4:
        raise ValueError("no place of a record")
    records = np.empty(room, np.int64)
    found = records
    while position <= last:
        if count == room:
            room *= 2
            records = np.concatenate((records, np.empty(count, np.int64)))
            found = records
        found[count] = position
        count += 1
        position += header + length_at(&data[position + CAPTURED], lowest, step)
    return records[:count], position
