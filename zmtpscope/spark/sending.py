"""Send code to workers whose Python may lack zmtpscope.

Our pickle is inside another one, which needs none of our modules.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    Stage = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class SentToWorkers:
    """Base of objects that are sent to workers. On a worker without zmtpscope their arrival raises an error of one
    sentence."""

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes], dict[str, Any]]:
        return _create, (pickle.dumps(type(self)),), self.__dict__


def on_workers(stage: Stage) -> Stage:
    """Return an equivalent function that raises one sentence on a worker without zmtpscope."""
    octets = pickle.dumps(stage)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: Stage = _load(octets)
        return found(batches)

    return run


def numbers_in(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    """Yield the rows of a stage, which are numbers of tasks or partitions."""
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
