# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""`topics.py`, compiled: one message after the other."""

from libc.stdint cimport int64_t, uint8_t

import numpy as np

from zmtpscope.dissect.records import topic_words
from zmtpscope.diagnosis.observers import topics as twin
from zmtpscope.zmtp import events

cdef int64_t MARKED = events.MARKED, LONGEST_TOPIC = topic_words.LONGEST_TOPIC


def by_topic(run, int64_t latest):
    cdef const int64_t[:] firsts = run.first, lasts = run.last, bodies = run.bodies, sizes = run.sizes
    cdef const int64_t[:] flags = run.flags, times = run.times, topics
    cdef const uint8_t[:] complete = run.complete.view(np.uint8)
    cdef bytes data = <bytes?>run.data, topic
    cdef int64_t base = run.base, end = run.end, start, size, octets
    cdef Py_ssize_t count = firsts.shape[0], frames = sizes.shape[0], row, frame, group
    cdef bint has_topics = run.topics is not None, is_frame
    cdef dict single = {}, several = {}, known
    cdef list keys = [], found = []
    cdef object of_topic
    numbers, ordered = np.empty((4, count), np.int64), np.empty((2, count), np.int64)
    cdef int64_t[:, ::1] number = numbers  # group of each row; rows, octets, complete messages of each group
    cdef int64_t[:, ::1] places = ordered  # rows and times, by group
    if has_topics:
        topics = run.topics
    for row in range(count):
        size = topics[row] if has_topics else -1
        topic, is_frame = None, False
        if size >= 0:
            start = bodies[firsts[row]] - base + (1 if flags[firsts[row]] & MARKED else 0)
            topic, is_frame = data[start : start + min(size, LONGEST_TOPIC)], lasts[row] > firsts[row]
        known = several if is_frame else single
        of_topic = known.get(topic)
        if of_topic is None:
            group = len(keys)
            known[topic] = group
            keys.append(twin.TopicKey(topic, is_frame))
            number[1, group], number[2, group], number[3, group] = 0, 0, 0
        else:
            group = of_topic
        octets = 0
        for frame in range(firsts[row], lasts[row] + 1):
            size = sizes[frame]
            if frame == frames - 1:
                size = min(size, max(0, end - bodies[frame]))
            octets += size
        number[0, row] = group
        number[1, group] += 1
        number[2, group] += octets
        number[3, group] += complete[row]
    start = 0
    for group in range(len(keys)):
        size = number[1, group]
        rows, began = ordered[:, start : start + size]
        found.append(twin.TopicRows(keys[group], rows, number[2, group], number[3, group], began))
        number[1, group] = start  # index of its next row
        start += size
    for row in range(count):
        latest = max(latest, times[row])
        group = number[0, row]
        places[0, number[1, group]], places[1, number[1, group]] = row, latest
        number[1, group] += 1
    return found
