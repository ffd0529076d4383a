# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""`matching.py`, compiled: one message after the other."""

from collections import deque
from hashlib import blake2b

cimport cython
from cpython.bytes cimport PyBytes_GET_SIZE
from libc.stdint cimport int64_t

from zmtpscope.dissect.findings import envelopes
from zmtpscope.diagnosis.observers import matching as twin
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


cdef enum:
    ORDER, CAPTURED, SIDE, KEY  # places in a `MessageRow`


@cython.wraparound(True)
def pair(waiting, messages, int asker, bint in_order):
    cdef list requests = [], replies = [], late = [], early = []
    cdef dict by_key = waiting.by_key
    cdef object rows = waiting.rows, again = waiting.anew, same, request, anew, number
    cdef int64_t count = waiting.count, newest = waiting.newest_captured, captured
    cdef object message
    cdef Py_ssize_t place
    for message in messages:
        key, captured = (<tuple>message)[KEY], (<tuple>message)[CAPTURED]
        same = by_key.get(key)
        if <int64_t>(<tuple>message)[SIDE] == asker:
            if same is None:
                same = by_key[key] = deque()
            elif not in_order and same[-1] not in again:
                again[same[-1]] = twin.Anew(message[CAPTURED], message[ORDER])
            same.append(count)
            rows[count] = message
            count += 1
            newest = captured
            continue
        if same is None:
            early.append(message)
            continue
        place = 0 if in_order else len(same) - 1
        if not in_order and <int64_t>(<tuple>rows[same[place]])[CAPTURED] > captured:
            place = waiting.last_before(same, message[CAPTURED])
        number = same[place]
        request = rows[number]
        anew = again.get(number)
        if <int64_t>(<tuple>request)[CAPTURED] > captured or (anew is not None and <int64_t>anew[0] <= captured):
            early.append(message)
            continue
        requests.append(request)
        replies.append(message)
        late.append(<int64_t>number != count - 1 and newest <= captured)
        del rows[number]
        del same[place]
        if not same:
            del by_key[key]
        if anew is not None:
            del again[number]
    waiting.count, waiting.newest_captured = count, newest
    return twin.Paired(requests, replies, late), early
