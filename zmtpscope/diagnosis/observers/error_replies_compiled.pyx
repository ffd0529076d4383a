# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""`error_replies.py`, compiled: only frames whose first word contains a word of an error are matched."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t

from zmtpscope.diagnosis.observers import error_replies as twin

cdef int64_t HEAD = twin.HEAD
cdef object match = twin.BEGINNING.match


cdef inline uint8_t lower(uint8_t octet):
    return octet | 32 if 65 <= octet <= 90 else octet


cdef bint begins(const uint8_t *octets, int64_t size, const char *word, int64_t length):
    """Whether octets begin with a word in lower case."""
    cdef int64_t place
    if size < length:
        return False
    for place in range(length):
        if lower(octets[place]) != <uint8_t>word[place]:
            return False
    return True


cdef bint may_match(const uint8_t *octets, int64_t size):
    """Whether a word of an error is in the first word: letters, digits, and `_.-`."""
    cdef int64_t place, left
    cdef uint8_t octet
    for place in range(size):
        octet, left = lower(octets[place]), size - place
        if octet == 101:  # e
            if begins(octets + place, left, b"err", 3) or begins(octets + place, left, b"exception", 9):
                return True
        elif octet == 102:  # f
            if begins(octets + place, left, b"fail", 4):
                return True
        elif octet == 110:  # n
            if left > 2 and (begins(octets + place, left, b"nack", 4) or lower(octets[place + 2]) == 107):
                return True
        elif octet == 116 and place == 0:
            if begins(octets, left, b"traceback", 9):
                return True
        if not (97 <= octet <= 122 or octet == 95 or (place and (48 <= octet <= 57 or 45 <= octet <= 46))):
            return False
    return False


def beginnings(run):
    cdef const int64_t[:] bodies = run.bodies, sizes = run.sizes
    cdef bytes data = <bytes?>run.data
    cdef const uint8_t *octets = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef int64_t base = run.base, length = PyBytes_GET_SIZE(data), start, size
    cdef Py_ssize_t frame
    cdef list found = []
    for frame in range(sizes.shape[0]):
        start = bodies[frame] - base
        if start < 0 or start >= length:
            continue
        size = min(sizes[frame], HEAD, length - start)
        if may_match(octets + start, size) and match(data[start : start + size]):
            found.append(frame)
    return found
