# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""`frame_ids.py`, compiled: one message after the other."""

from cpython.bytes cimport PyBytes_GET_SIZE
from libc.stdint cimport int64_t

from zmtpscope.diagnosis.observers import frame_ids as twin

cdef int64_t MAX_FRAMES = twin.MAX_FRAMES, MAX_ID = twin.MAX_ID, MAX_ENVELOPE = twin.MAX_ENVELOPE, HEAD = twin.HEAD
cdef object new = tuple.__new__


cdef object octets_of(bytes data, int64_t start, int64_t size, int64_t limit):
    cdef int64_t length = PyBytes_GET_SIZE(data)
    if start < 0 or (size and start >= length):
        return None
    return data[start : start + min(size, limit)]


def first_frames(run, Py_ssize_t begin, Py_ssize_t end):
    cdef const int64_t[:] bodies = run.bodies, sizes = run.sizes, firsts = run.first, lasts = run.last
    cdef const int64_t[:] times = run.times, packets = run.packets
    cdef bytes data = <bytes?>run.data
    cdef int64_t base = run.base
    cdef Py_ssize_t row, frame, first, last, body
    cdef list found = [], frames
    for row in range(begin, end):
        first, last = firsts[row], lasts[row]
        frames = []
        for frame in range(first, first + MAX_FRAMES):
            if frame <= last and sizes[frame] <= MAX_ID:
                frames.append(octets_of(data, bodies[frame] - base, sizes[frame], MAX_ID))
            else:
                frames.append(None)
        body = first
        for frame in range(first, min(first + MAX_ENVELOPE, last)):
            if sizes[frame] == 0:
                body = frame + 1
                break
        octets = octets_of(data, bodies[body] - base, sizes[body], HEAD) or b""
        found.append(new(twin.FirstFrames, (times[row], packets[row], octets, tuple(frames))))
    return found
