# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""Compiled version of `late_acknowledgments.py`: one loop over the segments of a block."""

from libc.stdint cimport int64_t

from zmtpscope.capture import segments as flag_bits
from zmtpscope.dissect.tcp import late_acknowledgments as twin

cdef int64_t ACK = flag_bits.ACK, RESETS = flag_bits.SYN | flag_bits.FIN | flag_bits.RST | flag_bits.CUT
cdef int64_t AT_ONCE = twin.AT_ONCE, EARLIEST = twin.EARLIEST, LATEST = twin.LATEST
cdef int64_t MIN_AT_ONCE = twin.MIN_AT_ONCE, MIN_LATE = twin.MIN_LATE, MIN_LASTED = twin.MIN_LASTED

cdef enum:
    END
    TIME
    PROMPT
    LATE_ONES
    SINCE
    FIRST
    IS_TOLD
    FIELDS


cdef inline void forget(int64_t *direction) noexcept nogil:
    cdef int field
    for field in range(FIELDS):
        direction[field] = 0


def late_acknowledgments(
    const int64_t[:] places,
    int64_t[:, ::1] state,
    const int64_t[:] flows,
    const int64_t[:] sequences,
    const int64_t[:] acknowledgments,
    const int64_t[:] flags,
    const int64_t[:] starts,
    const int64_t[:] stops,
    const int64_t[:] times,
    const int64_t[:] packets,
):
    cdef Py_ssize_t row
    cdef int64_t place, octets, took
    cdef int64_t *own
    cdef int64_t *other
    found = []
    for row in range(flows.shape[0]):
        place, octets = places[flows[row]], stops[row] - starts[row]
        own, other = &state[place, 0], &state[place ^ 1, 0]
        if flags[row] & RESETS:
            forget(own)
            forget(other)
        elif octets > 0:
            forget(own)
            own[END], own[TIME] = (sequences[row] + octets) & <int64_t>0xFFFFFFFF, times[row]
        elif flags[row] == ACK and other[TIME] and other[END] == acknowledgments[row]:
            took = times[row] - other[TIME]
            other[TIME] = 0
            if took < AT_ONCE:
                own[PROMPT] += 1
                own[LATE_ONES] = 0
                if own[IS_TOLD] and own[PROMPT] == 1:
                    own[FIRST] = packets[row]
                if own[IS_TOLD] and own[PROMPT] == MIN_AT_ONCE:
                    own[IS_TOLD] = 0
                    found.append((flows[row], row, own[FIRST], True))
            elif own[IS_TOLD]:
                own[PROMPT] = 0
            elif took < EARLIEST or took > LATEST:
                own[LATE_ONES] = 0
            elif own[PROMPT] >= MIN_AT_ONCE:
                if not own[LATE_ONES]:
                    own[SINCE], own[FIRST] = times[row], packets[row]
                own[LATE_ONES] += 1
                if own[LATE_ONES] >= MIN_LATE and times[row] - own[SINCE] >= MIN_LASTED:
                    own[IS_TOLD], own[PROMPT] = 1, 0
                    found.append((flows[row], row, own[FIRST], False))
    return found
