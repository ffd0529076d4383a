"""Captures as Spark tables. Rows equal the rows of `zmtpscope export`, field by field.

Names of this module are loaded on first use, so that a worker loads only the modules that it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zmtpscope.spark.ingestion import ingest, tables
    from zmtpscope.spark.reading import read, skipped
    from zmtpscope.spark.schemas import schema
    from zmtpscope.spark.sessions import register, session

__all__ = ["ingest", "read", "register", "schema", "session", "skipped", "tables"]

_MODULES = {
    "ingest": "ingestion",
    "read": "reading",
    "register": "sessions",
    "schema": "schemas",
    "session": "sessions",
    "skipped": "reading",
    "tables": "ingestion",
}
"""Modules by public name. No module has the name of a function, because an attribute of the package would then be
the module."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("zmtpscope"):
            raise
        missing = error.name.partition(".")[0]
        raise ModuleNotFoundError(
            f"zmtpscope.spark needs {missing}, of the extra spark: pip install 'zmtpscope[spark]'", name=missing
        ) from None
