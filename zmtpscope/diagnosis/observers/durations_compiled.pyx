# cython: language_level=3
"""`durations.py`, compiled: one duration after the other."""

from libc.math cimport log2, rint

from zmtpscope.diagnosis.observers import durations as twin

cdef double EXACT = twin.EXACT


def logarithms(durations):
    cdef list found = []
    cdef double duration
    for each in durations:
        duration = each
        found.append(<long long>rint(log2(duration) * EXACT) if duration > 1 else 0)
    return found
