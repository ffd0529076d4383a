"""Read plain frames of 2.0 and 3.x without the interpreter (`nogil`), for all compiled code."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef enum:
    LONG = 2
    HIGHEST = 3  # flags of a plain frame: MORE, LONG or both
    LARGEST_SHORT = 255
    HEADER_OF_SHORT = 2
    HEADER_OF_LONG = 9

cdef struct Frame:
    uint64_t body
    uint64_t size
    uint8_t flags


cdef inline bint read_plain_header(const uint8_t *octets, uint64_t length, uint64_t at, Frame *frame) noexcept nogil:
    """Read the header at `octets[at]`, `at` at most `length`; return whether it is complete and plain."""
    cdef int place
    if length - at < HEADER_OF_SHORT or octets[at] > HIGHEST:
        return False
    frame.flags = octets[at]
    if frame.flags < LONG:
        frame.size, frame.body = octets[at + 1], at + HEADER_OF_SHORT
        return True
    if length - at < HEADER_OF_LONG:
        return False
    frame.size, frame.body = 0, at + HEADER_OF_LONG
    for place in range(1, HEADER_OF_LONG):
        frame.size = frame.size << 8 | octets[at + place]
    return LARGEST_SHORT < frame.size < <uint64_t>1 << 63


cdef inline Py_ssize_t read_plain_frames(
    const uint8_t *octets,
    uint64_t length,
    uint64_t *at,
    int64_t base,
    int64_t **columns,
    Py_ssize_t count,
    Py_ssize_t room,
) noexcept nogil:
    """Read frames from `octets[at]` on into `columns` (header, body, size, flags); return the new row count.

    The columns have `count` of `room` rows. Values are indices into `octets` plus `base`. `at` becomes the index of the
    first header not read, after `length` if the last body is incomplete.
    """
    cdef Frame frame
    while count < room and at[0] < length and read_plain_header(octets, length, at[0], &frame):
        columns[0][count] = base + <int64_t>at[0]
        columns[1][count] = base + <int64_t>frame.body
        columns[2][count] = <int64_t>frame.size
        columns[3][count] = frame.flags
        count += 1
        at[0] = frame.body + frame.size
    return count


cdef inline bint is_part_of_header(const uint8_t *octets, uint64_t length, uint64_t at) noexcept nogil:
    """Whether a header is incomplete, and its available octets are plain."""
    cdef uint64_t header = HEADER_OF_LONG if octets[at] & LONG else HEADER_OF_SHORT
    return octets[at] <= HIGHEST and length - at < header
