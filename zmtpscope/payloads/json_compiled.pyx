# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""Compiled twin of `json.py`: the values that orjson parses from a frame."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Next
from cpython.float cimport PyFloat_AS_DOUBLE
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport uint8_t

from zmtpscope.payloads.json_compiled cimport LONGEST_PLAIN, is_empty_object, plain_json

import orjson

from zmtpscope.payloads import json as twin
from zmtpscope.payloads import values

cdef object loads = orjson.loads, dumps = orjson.dumps, JSONDecodeError = orjson.JSONDecodeError
cdef Py_ssize_t HEAD = twin.HEAD, MAX_FIELDS = twin.MAX_FIELDS
cdef Py_ssize_t LONGEST_SUMMARY = values.LONGEST_SUMMARY
cdef int DEEPEST = twin.DEEPEST
cdef double LEAST = twin.MIN_INTEGER, BEYOND = twin.BEYOND_INTEGERS


cdef bint is_one_line(const uint8_t *octets, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t place
    cdef uint8_t other = 0
    for place in range(size):  # no early exit: the compiler vectorises the loop
        other |= (octets[place] >= 0x80) | (octets[place] == 10) | (octets[place] == 13)
    return not other


cdef bint is_ordinary(object value, int level) except -1:
    """Whether `JsonText` would return the same value."""
    cdef Py_ssize_t place = 0
    cdef PyObject *key
    cdef PyObject *inner
    cdef double number
    if type(value) is float:
        number = PyFloat_AS_DOUBLE(value)
        return LEAST < number < BEYOND
    if type(value) is dict:
        if level == DEEPEST:
            return False
        while PyDict_Next(value, &place, &key, &inner):
            if not is_ordinary(<object>inner, level + 1):
                return False
    elif type(value) is list:
        if level == DEEPEST:
            return False
        for each in <list>value:
            if not is_ordinary(each, level + 1):
                return False
    return True


def ordinary(octets):
    cdef bytes text = <bytes?>octets
    cdef Py_ssize_t size = PyBytes_GET_SIZE(text)
    cdef const uint8_t *head = <const uint8_t *>PyBytes_AS_STRING(text)
    if not size or (head[size - 1] != c"}" and head[size - 1] != c"]"):
        return None
    if size > MAX_FIELDS:
        value = twin.loaded(text)
    else:
        try:
            value = loads(text)
        except JSONDecodeError:
            return None
    if (type(value) is not dict and type(value) is not list) or not is_ordinary(value, 0):
        return None
    if size > HEAD or (head[0] != c"{" and head[0] != c"[") or not is_one_line(head, size):
        return twin.summary_of(text), value
    return PyUnicode_DecodeASCII(<const char *>head, size, NULL), value


def summary_and_fields(octets):
    cdef bytes text = <bytes?>octets
    cdef const char *head = PyBytes_AS_STRING(text)
    cdef char plain[LONGEST_PLAIN]
    cdef Py_ssize_t size = PyBytes_GET_SIZE(text), written = plain_json(<const uint8_t *>head, size, plain)
    if written < 0:
        made = twin.dissected(text)
        return made.summary, None if made.fields is None else dumps(made.fields).decode()
    summary = PyUnicode_DecodeASCII(head, min(size, LONGEST_SUMMARY + 1), NULL)
    fields = None if is_empty_object(plain, written) else PyUnicode_DecodeASCII(plain, written, NULL)
    return values.shortened(summary), fields
