# cython: language_level=3
"""`matching.py`, compiled: one message after the other."""

from collections import deque

from libc.stdint cimport int64_t

from zmtpscope.diagnosis.observers import matching as twin


cdef enum:
    ORDER, CAPTURED, SIDE, KEY  # places in a `MessageRow`


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
