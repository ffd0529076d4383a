# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""Compiled twin of `scanner.py`: reads the header of each frame, one after the other."""

from cpython.buffer cimport PyBUF_READ
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef enum:
    MOST = 512  # frames per batch


def scan_2(const uint8_t[::1] data not None, Py_ssize_t at, int64_t base, columns not None):
    cdef int64_t taken[4][MOST]
    cdef int64_t *places[4]
    cdef Py_ssize_t length = data.shape[0], count = MOST, row
    cdef const uint8_t *octets = &data[0] if length else NULL
    cdef uint64_t behind = at
    if at < 0:
        raise IndexError("a place in front of the octets")
    for row in range(4):
        places[row] = taken[row]
    while count == MOST:
        count = read_plain_frames(octets, length, &behind, base, places, 0, MOST)
        for row, column in enumerate((columns.offsets, columns.bodies, columns.sizes, columns.flags)):
            column.frombytes(PyMemoryView_FromMemory(<char *>taken[row], count * sizeof(int64_t), PyBUF_READ))
    return behind
