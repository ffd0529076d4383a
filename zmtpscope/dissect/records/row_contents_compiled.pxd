# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""Readable octets, for all that is compiled and looks for some."""

from libc.stdint cimport uint8_t


cdef inline bint is_readable(const uint8_t *octets, Py_ssize_t count) noexcept nogil:
    """Whether octets are ASCII that is printed as it is."""
    cdef Py_ssize_t place
    cdef bint is_other = False
    for place in range(count):  # which the compiler makes many steps at once of
        is_other |= (octets[place] < 32) | (octets[place] > 126)
    return not is_other
