"""The header of a plain frame of 2.0 and 3.x, for all that is compiled and reads some."""

from libc.stdint cimport uint8_t, uint64_t

cdef enum:
    LONG = 2
    HIGHEST = 3  # flags of a plain frame: MORE, LONG or both
    LARGEST_SHORT = 255
    HEADER_OF_SHORT = 2
    HEADER_OF_LONG = 9

cdef struct Frame:
    Py_ssize_t body
    uint64_t size
    uint8_t flags


cdef inline bint read_plain_header(
    const uint8_t *data, Py_ssize_t length, Py_ssize_t at, Frame *frame
) noexcept nogil:
    """Read the header at `data[at]`; whether it is all there, and plain."""
    cdef int place
    if length - at < HEADER_OF_SHORT or data[at] > HIGHEST:
        return False
    frame.flags = data[at]
    if frame.flags < LONG:
        frame.size, frame.body = data[at + 1], at + HEADER_OF_SHORT
        return True
    if length - at < HEADER_OF_LONG:
        return False
    frame.size, frame.body = 0, at + HEADER_OF_LONG
    for place in range(1, HEADER_OF_LONG):
        frame.size = frame.size << 8 | data[at + place]
    return LARGEST_SHORT < frame.size < <uint64_t>1 << 63
