# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""Compiled version of `acknowledgment_times.py`: one loop over the segments of a block."""

from libc.stdint cimport int32_t, int64_t, uint32_t

from zmtpscope.capture import segments as flag_bits
from zmtpscope.dissect.tcp import acknowledgment_times as twin

cdef int64_t ACK = flag_bits.ACK, RST = flag_bits.RST, SYN = flag_bits.SYN
cdef int64_t FIN_OR_RST = flag_bits.FIN | flag_bits.RST
cdef int64_t RESETS = flag_bits.SYN | flag_bits.FIN | flag_bits.RST | flag_bits.CUT
cdef int64_t AT_ONCE = twin.AT_ONCE, EARLIEST = twin.EARLIEST, LATEST = twin.LATEST
cdef int64_t MIN_AT_ONCE = twin.MIN_AT_ONCE, MIN_LATE = twin.MIN_LATE, MIN_LASTED = twin.MIN_LASTED
cdef int64_t MAX_AHEAD = twin.MAX_AHEAD

cdef enum:
    END
    TIME
    PROMPT
    LATE_ONES
    SINCE
    FIRST
    IS_LATE
    NEXT
    ACKNOWLEDGED
    IS_DONE
    FIELDS

cdef enum:
    LATE
    PROMPTLY
    EARLY


cdef inline void forget_timing(int64_t *direction) noexcept nogil:
    cdef int field
    for field in range(NEXT):
        direction[field] = 0


cdef inline int32_t distance(int64_t position, int64_t before) noexcept nogil:
    return <int32_t>(<uint32_t>position - <uint32_t>before)


def acknowledgment_changes(
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
    cdef int64_t place, octets, took, flag, sequence, end, begin, ahead
    cdef bint is_early
    cdef int64_t *own
    cdef int64_t *other
    found = []
    for row in range(flows.shape[0]):
        place, octets, flag, sequence = places[flows[row]], stops[row] - starts[row], flags[row], sequences[row]
        own, other = &state[place, 0], &state[place ^ 1, 0]
        end = (sequence + octets) & <int64_t>0xFFFFFFFF
        if flag & SYN:
            ahead = distance(own[NEXT] - 1, end + 1)
            if not own[NEXT] or ahead < 0 or ahead >= MAX_AHEAD:
                own[NEXT], own[ACKNOWLEDGED], own[IS_DONE] = end + 2, 0, 0
                ahead = distance(other[ACKNOWLEDGED] - 1, end + 1)
                if not flag & ACK and (ahead < 0 or ahead >= MAX_AHEAD):
                    other[NEXT] = other[ACKNOWLEDGED] = other[IS_DONE] = 0
        elif own[NEXT] and distance(end, own[NEXT] - 1) > 0:
            begin = sequence if distance(sequence, own[NEXT] - 1) > 0 else own[NEXT] - 1
            is_early = other[ACKNOWLEDGED] and distance(other[ACKNOWLEDGED] - 1, begin) > 0
            if is_early and octets > 0 and not own[IS_DONE]:
                own[IS_DONE] = other[IS_DONE] = 1
                found.append((flows[row], row, packets[row], EARLY))
            own[NEXT] = end + 1
        if flag & FIN_OR_RST:
            own[IS_DONE] = 1
            if flag & RST:
                other[IS_DONE] = 1
        if flag & (ACK | RST) == ACK and (
            not own[ACKNOWLEDGED] or distance(acknowledgments[row], own[ACKNOWLEDGED] - 1) > 0
        ):
            own[ACKNOWLEDGED] = acknowledgments[row] + 1
        if flag & RESETS:
            forget_timing(own)
            forget_timing(other)
        elif octets > 0:
            forget_timing(own)
            own[END], own[TIME] = end, times[row]
        elif flag == ACK and other[TIME] and other[END] == acknowledgments[row]:
            took = times[row] - other[TIME]
            other[TIME] = 0
            if took < AT_ONCE:
                own[PROMPT] += 1
                own[LATE_ONES] = 0
                if own[IS_LATE] and own[PROMPT] == 1:
                    own[FIRST] = packets[row]
                if own[IS_LATE] and own[PROMPT] == MIN_AT_ONCE:
                    own[IS_LATE] = 0
                    found.append((flows[row], row, own[FIRST], PROMPTLY))
            elif own[IS_LATE]:
                own[PROMPT] = 0
            elif took < EARLIEST or took > LATEST:
                own[LATE_ONES] = 0
            elif own[PROMPT] >= MIN_AT_ONCE:
                if not own[LATE_ONES]:
                    own[SINCE], own[FIRST] = times[row], packets[row]
                own[LATE_ONES] += 1
                if own[LATE_ONES] >= MIN_LATE and times[row] - own[SINCE] >= MIN_LASTED:
                    own[IS_LATE], own[PROMPT] = 1, 0
                    found.append((flows[row], row, own[FIRST], LATE))
    return found
