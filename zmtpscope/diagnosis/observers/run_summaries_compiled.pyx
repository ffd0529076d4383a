# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""`run_summaries.py`, compiled: one message after the other."""

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


def summary_of(run):
    cdef const int64_t[:] times = run.times, ends = run.time_ends, packets = run.packets
    cdef const int64_t[:] orders = run.orders, packet_ends = run.packet_ends
    cdef const int64_t[:] bodies = run.bodies, sizes = run.sizes, firsts = run.first, lasts = run.last
    cdef Py_ssize_t count = ends.shape[0], row, place = 0, begin
    cdef int64_t last[COLUMNS * ROOM]
    cdef int64_t pause = 0, second = 0, current
    cdef Py_ssize_t since = 0
    if not count:
        raise IndexError("a run without messages")
    for row in range(1, count):
        current = ends[row] - ends[row - 1]
        if current > pause:
            second, pause, since = pause, current, row - 1
        elif current > second:
            second = current
    for row in range(max(0, count - ROOM), count):
        last[place], last[place + 1] = times[row], packets[row]
        last[place + 2] = <int64_t>(<uint64_t>bodies[lasts[row]] + <uint64_t>sizes[lasts[row]])
        place += COLUMNS
    begin, row = firsts[count - 1], count - 1
    return new(
        twin.RunSummary,
        (
            count,
            times[0],
            ends[0],
            times[row],
            ends[row],
            orders[row],
            packets[0],
            packets[row],
            packet_ends[row],
            pause,
            second,
            since,
            largest(sizes, begin, sizes.shape[0]),
            largest(sizes, 0, begin),
            tuple([ends[row] for row in range(max(0, count - MAX_RECENT), count)]),
            PyBytes_FromStringAndSize(<char *>last, place * sizeof(int64_t)),
        ),
    )
