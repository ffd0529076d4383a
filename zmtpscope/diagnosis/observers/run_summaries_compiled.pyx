# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""`run_summaries.py`, compiled: one message of a table after the other."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint64_t

from zmtpscope.diagnosis.observers import run_summaries as twin

cdef enum:
    COLUMNS = 3
    ROOM = 32

assert ROOM == twin.MAX_LAST
cdef Py_ssize_t MAX_RECENT = twin.MAX_RECENT
cdef object new = tuple.__new__


cdef int64_t largest(const int64_t[:] sizes, Py_ssize_t begin, Py_ssize_t end) except -1:
    cdef int64_t found = 0
    cdef Py_ssize_t frame
    for frame in range(begin, end):
        found = max(found, sizes[frame])
    return found


def summaries_of(table):
    cdef const int64_t[:] times = table.times, ends = table.time_ends, packets = table.packets
    cdef const int64_t[:] orders = table.orders, packet_ends = table.packet_ends
    cdef const int64_t[:] bodies = table.bodies, sizes = table.sizes, firsts = table.first, lasts = table.last
    cdef const int64_t[:] senders
    cdef bint has_senders = table.sender_of is not None
    cdef Py_ssize_t count = ends.shape[0], low = 0, high, row, place, begin, since
    cdef int64_t last[COLUMNS * ROOM]
    cdef int64_t pause, second, current
    cdef list found = []
    if has_senders:
        senders = table.sender_of
    while low < count:
        pause = second = since = 0
        high = low + 1
        while high < count and not (has_senders and senders[high] != senders[low]):
            current = ends[high] - ends[high - 1]
            if current > pause:
                second, pause, since = pause, current, high - 1 - low
            elif current > second:
                second = current
            high += 1
        place = 0
        for row in range(max(low, high - ROOM), high):
            last[place], last[place + 1] = times[row], packets[row]
            last[place + 2] = <int64_t>(<uint64_t>bodies[lasts[row]] + <uint64_t>sizes[lasts[row]])
            place += COLUMNS
        row = high - 1
        begin = firsts[row]
        found.append(
            new(
                twin.RunSummary,
                (
                    high - low,
                    times[low],
                    ends[low],
                    times[row],
                    ends[row],
                    orders[row],
                    packets[low],
                    packets[row],
                    packet_ends[row],
                    pause,
                    second,
                    since,
                    largest(sizes, begin, lasts[row] + 1),
                    largest(sizes, firsts[low], begin),
                    tuple([ends[row] for row in range(max(low, high - MAX_RECENT), high)]),
                    PyBytes_FromStringAndSize(<char *>last, place * sizeof(int64_t)),
                ),
            )
        )
        low = high
    return found


def turns_of(one, other):
    cdef const int64_t[:] orders_0 = one[0], orders_1 = other[0], ends_0 = one[1], ends_1 = other[1]
    cdef Py_ssize_t at_0 = 0, at_1 = 0, count_0 = orders_0.shape[0], count_1 = orders_1.shape[0], begin
    cdef bint second = orders_0[0] > orders_1[0]
    cdef list found = []
    while at_0 < count_0 or at_1 < count_1:
        if second:
            begin = at_1
            while at_1 < count_1 and (at_0 == count_0 or orders_1[at_1] < orders_0[at_0]):
                at_1 += 1
            found.append(new(twin.Turn, (1, begin, at_1, ends_1[begin], ends_1[at_1 - 1])))
        else:
            begin = at_0
            while at_0 < count_0 and (at_1 == count_1 or orders_0[at_0] <= orders_1[at_1]):
                at_0 += 1
            found.append(new(twin.Turn, (0, begin, at_0, ends_0[begin], ends_0[at_0 - 1])))
        second = not second
    return found
