# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""The compiled twin of `plain_frames.py`: scans one string after the other."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint64_t

import numpy as np

from zmtpscope.dissect.fast_path import plain_frames as twin
from zmtpscope.zmtp.scanner_compiled cimport is_part_of_header, read_plain_frames

cdef enum:
    ROOM = 1024  # initial capacity, in frames

cdef uint64_t FARTHEST = twin.FARTHEST


def scan(strings, const int64_t[:] places):
    cdef Py_ssize_t number, count = 0, begin, room = ROOM, row
    cdef uint64_t length, at
    cdef const uint8_t *octets
    cdef bytes string
    cdef int64_t *columns[4]
    table = np.empty((4, room), np.int64)
    cdef int64_t[:, ::1] found = table
    counts, behind = np.zeros(len(strings), np.int64), np.array(places)
    is_plain = np.ones(len(strings), np.bool_)
    cdef int64_t[::1] counts_of = counts, places_of = behind
    cdef uint8_t[::1] plain_of = is_plain.view(np.uint8)
    for number in range(len(strings)):
        string = <bytes?>strings[number]
        octets, length = <const uint8_t *>PyBytes_AS_STRING(string), PyBytes_GET_SIZE(string)
        if places_of[number] < 0:
            raise IndexError("a place in front of the octets")
        begin, at = count, places_of[number]
        while True:
            for row in range(4):
                columns[row] = &found[row, 0]
            count = read_plain_frames(octets, length, &at, 0, columns, count, room)
            if count < room:
                break
            table = np.concatenate((table, np.empty((4, room), np.int64)), axis=1)
            found, room = table, 2 * room
        counts_of[number], places_of[number] = count - begin, min(at, FARTHEST)
        if at < length:
            plain_of[number] = is_part_of_header(octets, length, at)
    return twin.Scanned(counts, behind, is_plain, table[:, :count])
