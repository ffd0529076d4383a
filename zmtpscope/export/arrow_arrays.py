"""Arrow arrays of numpy columns and of Python values, made of buffers.

`pyarrow.array` and `pyarrow.scalar` import pandas where it is installed, before the first value that they convert,
which is 0.3 s and 60 MB for nothing here. pyarrow tries that once: to keep pandas away then would also keep it away
from whoever uses both in the same process. Arrays of buffers never ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


def column_array(values: NDArray[Any], mask: Mask | None = None) -> pa.Array:
    """A numpy column of integers or booleans; null where `mask` says so. Integers are not copied."""
    if values.dtype == np.bool_:
        return pa.Array.from_buffers(pa.bool_(), len(values), [_validity(mask), _bits(values)])
    octets = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [_validity(mask), octets])


def value_array(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Python values of a type: int64, booleans, text, octets, and lists and structs of these; None is null.

    Raises `OverflowError` where an integer has more bits, and `UnicodeEncodeError` where text is no UTF-8.
    """
    known = np.array([value is not None for value in values], np.bool_)
    missing = None if known.all() else ~known
    if type_ == pa.int64():
        return column_array(np.array([value or 0 for value in values], np.int64), missing)
    if type_ == pa.bool_():
        return column_array(np.array([bool(value) for value in values], np.bool_), missing)
    if pa.types.is_struct(type_):
        members = [value_array([value and value[member.name] for value in values], member.type) for member in type_]
        return pa.Array.from_buffers(type_, len(values), [_validity(missing)], children=members)
    parts = [b"" if value is None else value.encode() if isinstance(value, str) else value for value in values]
    ends = np.zeros(len(parts) + 1, np.int64 if type_ == pa.large_binary() else np.int32)
    np.cumsum([len(part) for part in parts], out=ends[1:])
    if pa.types.is_list(type_):
        inside = value_array(list(chain.from_iterable(parts)), type_.value_type)
        return pa.Array.from_buffers(type_, len(values), [_validity(missing), pa.py_buffer(ends)], children=[inside])
    buffers = [_validity(missing), pa.py_buffer(ends), pa.py_buffer(b"".join(parts))]
    return pa.Array.from_buffers(type_, len(values), buffers)


def _validity(mask: Mask | None) -> pa.Buffer | None:
    """Which values are there."""
    return None if mask is None else _bits(~mask)


def _bits(values: Mask) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))
