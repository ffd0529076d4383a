"""Send code to workers whose Python may lack zmtpscope, so that they report it in one sentence.

Objects of zmtpscope are pickled into octets, which are sent inside of a pickle that needs only the standard library.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    Stage = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class SentToWorkers:
    """Base of objects that are sent to workers. On a worker without zmtpscope, unpickling raises an error of one
    sentence."""

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes], dict[str, Any]]:
        return _create, (pickle.dumps(type(self)),), self.__dict__


def on_workers(stage: Stage) -> Stage:
    """Return a function for a Spark stage that calls `stage`, or raises an error of one sentence on a worker without
    zmtpscope."""
    octets = pickle.dumps(stage)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: Stage = _load(octets)
        return found(batches)

    return run


def numbers_in(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    """Yield the numbers in the rows of a stage: its tasks or partitions."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


def _load(octets: bytes) -> Any:
    """Unpickle on a worker, which may only have the standard library."""
    import os
    import pickle
    import sys

    try:
        return pickle.loads(octets)
    except ModuleNotFoundError as error:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        missing = (error.name or "zmtpscope").partition(".")[0]
        raise ModuleNotFoundError(
            f"the Python of this worker, {sys.executable}, has no {missing}: pip install 'zmtpscope[spark]' there, or "
            "set PYSPARK_PYTHON to a Python with it"
        ) from None


def _create(octets: bytes) -> Any:
    cls = _load(octets)
    return cls.__new__(cls)


_load.__module__ = _create.__module__ = "__main__"  # so that cloudpickle sends these functions, not their names
