# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""`request_rows.py`, compiled: the messages of a run with an envelope, one after the other."""

from hashlib import blake2b

from cpython.bytes cimport PyBytes_GET_SIZE
from libc.stdint cimport int64_t

from zmtpscope.dissect.findings import envelopes
from zmtpscope.diagnosis.observers import request_rows as twin
from zmtpscope.zmtp import events

cdef int64_t SPECIAL = events.SPECIAL, LARGEST_ENVELOPE = envelopes.LARGEST_ENVELOPE
cdef object new = tuple.__new__


cdef Py_ssize_t next_empty(const int64_t[:] sizes, Py_ssize_t first, Py_ssize_t last) except -1:
    while first < last and sizes[first]:
        first += 1
    return first


def enveloped(run, int side, int64_t captured, bint addressed):
    cdef const int64_t[:] offsets = run.offsets, bodies = run.bodies, sizes = run.sizes, flags = run.flags
    cdef const int64_t[:] firsts = run.first, lasts = run.last
    cdef const int64_t[:] orders = run.orders, times = run.times, packets = run.packets
    cdef bytes data = <bytes?>run.data
    cdef int64_t base = run.base, end = run.end, length = PyBytes_GET_SIZE(data), start, size, there, total, octets
    cdef Py_ssize_t row, first, last, delimiter, inner, frame
    cdef bint is_known
    cdef list found = []
    cdef object row_of = twin.MessageRow, envelope, source = run.source
    for row in range(firsts.shape[0]):
        first, last = firsts[row], lasts[row]
        delimiter = next_empty(sizes, first, last)
        if delimiter == last or flags[first] & SPECIAL or (addressed and delimiter == first):
            continue
        captured = max(captured, times[row])
        inner = next_empty(sizes, min(delimiter + 1, last), last)
        envelope, is_known, octets = (), True, 0
        if delimiter > first:
            addresses = []
            for frame in range(first, delimiter):
                start, size = bodies[frame] - base, sizes[frame]
                head = data[start : start + min(size, length - start)] if 0 <= start < length and size > 0 else b""
                is_known = is_known and len(head) == size
                octets += len(head)
                addresses.append(head)
            envelope = tuple(addresses)
            is_known = is_known and octets <= LARGEST_ENVELOPE
        there = total = 0
        for frame in range(first, last + 1):
            there = min(sizes[frame], max(end - bodies[frame], 0))
            total += there
        found.append(
            new(
                row_of,
                (
                    orders[row],
                    captured,
                    side,
                    envelope if is_known else None,
                    times[row],
                    packets[row],
                    offsets[first],
                    bodies[last] + there - offsets[first],
                    total,
                    source,
                    envelope,
                    delimiter + 1 < inner and inner < last,
                    run,
                    row,
                    0,
                ),
            )
        )
    return found


def content_of(run, Py_ssize_t row, bint is_work=False):
    cdef const int64_t[:] bodies = run.bodies, sizes = run.sizes
    cdef bytes data = <bytes?>run.data
    cdef int64_t base = run.base, length = PyBytes_GET_SIZE(data), start, size
    cdef Py_ssize_t frame, last = run.last[row], begin = next_empty(sizes, run.first[row], last) + 1
    cdef list pieces = []
    if is_work:
        begin = next_empty(sizes, begin, last) + 1
    for frame in range(begin, last + 1):
        start, size = bodies[frame] - base, sizes[frame]
        pieces.append((<object>size).to_bytes(8))
        if 0 <= start < length:
            pieces.append(data[start : start + min(size, length - start)])
    return int.from_bytes(blake2b(b"".join(pieces), digest_size=8).digest(), signed=True) or 1
