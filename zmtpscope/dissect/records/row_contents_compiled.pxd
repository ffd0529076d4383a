# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""Test for readable octets, shared by compiled modules."""

from libc.stdint cimport uint8_t


cdef inline bint is_readable(const uint8_t *octets, Py_ssize_t count) noexcept nogil:
    """Whether octets are printable ASCII."""
    cdef Py_ssize_t place
    cdef bint is_other = False
    for place in range(count):  # vectorised by the compiler
        is_other |= (octets[place] < 32) | (octets[place] > 126)
    return not is_other
