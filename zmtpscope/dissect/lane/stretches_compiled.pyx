# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""`stretches.py`, compiled: the frames of one stretch after the other."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint64_t

import numpy as np

from zmtpscope.dissect.lane import stretches as twin
from zmtpscope.zmtp.scanner_compiled cimport HEADER_OF_LONG, HEADER_OF_SHORT, HIGHEST, LONG, Frame, read_plain_header

cdef enum:
    ROOM = 1024  # frames for which there is room at first

cdef uint64_t FARTHEST = twin.FARTHEST


def scan(stretches, const int64_t[:] places):
    cdef Py_ssize_t number, count = 0, begin, room = ROOM, length, at
    cdef const uint8_t *octets
    cdef bytes stretch
    cdef Frame frame
    table = np.empty((4, room), np.int64)
    cdef int64_t[:, ::1] found = table
    counts, behind = np.zeros(len(stretches), np.int64), np.array(places)
    is_plain = np.ones(len(stretches), np.bool_)
    cdef int64_t[::1] counts_of = counts, places_of = behind
    cdef uint8_t[::1] plain_of = is_plain.view(np.uint8)
    for number in range(len(stretches)):
        stretch = stretches[number]
        octets, length = <const uint8_t *>PyBytes_AS_STRING(stretch), PyBytes_GET_SIZE(stretch)
        begin, at = count, places_of[number]
        if at < 0:
            raise IndexError("a place in front of the octets")
        while at < length and read_plain_header(octets, length, at, &frame):
            if count == room:
                table = np.concatenate((table, np.empty((4, room), np.int64)), axis=1)
                found, room = table, 2 * room
            found[0, count], found[1, count] = at, frame.body
            found[2, count], found[3, count] = <int64_t>frame.size, frame.flags
            count += 1
            at = frame.body + <Py_ssize_t>min(frame.size, FARTHEST - <uint64_t>frame.body)
        counts_of[number], places_of[number] = count - begin, at
        if at < length:
            plain_of[number] = octets[at] <= HIGHEST and length - at < (
                HEADER_OF_LONG if octets[at] & LONG else HEADER_OF_SHORT
            )
    return twin.Scanned(counts, behind, is_plain, table[:, :count])
