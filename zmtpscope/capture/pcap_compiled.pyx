# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""Compiled version of `pcap.py`: read the record headers."""

from libc.stdint cimport int64_t, uint8_t

import numpy as np

from zmtpscope.capture import packets, pcap as twin
from zmtpscope.capture.octets_compiled cimport number_at

cdef int64_t LARGEST_PACKET = packets.LARGEST_PACKET
cdef int LEAST_HEADER = twin.CAPTURED + 8


def records(const uint8_t[::1] data not None, int64_t position, str order, int64_t unit, int header, int64_t room):
    cdef int64_t size = data.shape[0], start = position, captured
    cdef Py_ssize_t count = 0, row
    cdef bint is_little = order == "<"
    cdef const uint8_t *octets
    if position < 0 or header < LEAST_HEADER:
        raise ValueError("no place of a record")
    while count < room and start + header <= size:
        captured = number_at(&data[start + 8], is_little)
        if captured > LARGEST_PACKET or start + header + captured > size:
            break
        start += header + captured
        count += 1
    columns = np.empty((twin.COLUMNS, count), np.int64)
    cdef int64_t[:, ::1] found = columns
    for row in range(count):
        octets = &data[position]
        captured = number_at(octets + 8, is_little)
        found[0, row] = position + header
        found[1, row] = position = position + header + captured
        found[2, row] = max(number_at(octets + 12, is_little) - captured, 0)
        found[3, row] = number_at(octets, is_little) * 1_000_000_000 + number_at(octets + 4, is_little) * unit
    return columns, position
