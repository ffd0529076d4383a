"""Numbers in headers."""

from libc.stdint cimport int64_t, uint8_t


cdef inline int64_t number_at(const uint8_t *octets, bint is_little) noexcept nogil:
    if is_little:
        return <int64_t>octets[3] << 24 | octets[2] << 16 | octets[1] << 8 | octets[0]
    return <int64_t>octets[0] << 24 | octets[1] << 16 | octets[2] << 8 | octets[3]


cdef inline int short_at(const uint8_t *octets, bint is_little) noexcept nogil:
    return octets[1] << 8 | octets[0] if is_little else octets[0] << 8 | octets[1]
