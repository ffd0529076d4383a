"""Build Arrow arrays of numpy columns and Python values from buffers, which never imports pandas.

`pyarrow.array` and `pyarrow.scalar` import pandas if it is installed, which takes 0.3 s and 60 MB for nothing. pyarrow
tries it only once, so preventing it would also disable pandas for other users of pyarrow in the process.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


def column_array(values: NDArray[Any], mask: Mask | None = None) -> pa.Array:
    """Convert integers or booleans, null where `mask` is true. Integers are not copied."""
    if values.dtype == np.bool_:
        return pa.Array.from_buffers(pa.bool_(), len(values), [_validity(mask), _bits(values)])
    octets = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [_validity(mask), octets])


def value_array(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Convert int64, booleans, text, octets, and lists and structs of these; None is null.

    Raises `OverflowError` if an integer has more bits, and `UnicodeEncodeError` if text cannot be encoded.
    """
    missing = np.array([value is None for value in values], np.bool_) if None in values else None
    if pa.types.is_struct(type_):
        members = [value_array([value and value[member.name] for value in values], member.type) for member in type_]
        return pa.Array.from_buffers(type_, len(values), [_validity(missing)], children=members)
    if missing is not None:
        nothing = NOTHING.get(type_, ())
        values = [nothing if value is None else value for value in values]
    if type_ in NUMBERS:
        return column_array(np.array(values, NUMBERS[type_]), missing)
    if pa.types.is_list(type_):
        inside = value_array(list(chain.from_iterable(values)), type_.value_type)
        buffers = [_validity(missing), _ends(map(len, values), len(values), np.int32)]
        return pa.Array.from_buffers(type_, len(values), buffers, children=[inside])
    if type_ == pa.string():
        octets, sizes = _texts(values)
        ends = _ends(sizes, len(values), np.int32)
    else:
        octets, ends = b"".join(values), _ends(map(len, values), len(values), np.int64)
    return pa.Array.from_buffers(type_, len(values), [_validity(missing), ends, pa.py_buffer(octets)])


NUMBERS: dict[pa.DataType, type[np.generic]] = {pa.int64(): np.int64, pa.bool_(): np.bool_}

NOTHING: dict[pa.DataType, Any] = {pa.int64(): 0, pa.bool_(): False, pa.string(): "", pa.large_binary(): b""}
"""The value that stands for null."""


def _texts(values: Sequence[str]) -> tuple[bytes, Iterable[int]]:
    joined = "".join(values)
    if joined.isascii():
        return joined.encode(), map(len, values)
    encoded = [value.encode() for value in values]
    return b"".join(encoded), map(len, encoded)


def _ends(sizes: Iterable[int], count: int, type_: type[np.generic]) -> pa.Buffer:
    """Return 0 and the end of each value."""
    ends = np.zeros(count + 1, type_)
    np.cumsum(np.fromiter(sizes, np.int64, count), out=ends[1:])
    return pa.py_buffer(ends)


def _validity(mask: Mask | None) -> pa.Buffer | None:
    """Return a bitmap of the rows with a value; None if no value is null."""
    return None if mask is None else _bits(~mask)


def _bits(values: Mask) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))
