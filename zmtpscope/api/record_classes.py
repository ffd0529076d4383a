"""The record classes. Type checkers and editors read `record_classes.pyi`, which `python docs/api/generate.py` writes
from the same schema."""

from __future__ import annotations

from zmtpscope.api.rows import class_of
from zmtpscope.records import RECORDS

CLASSES = {name: class_of(type_) for name, type_ in RECORDS.items()}
globals().update({class_.__name__: class_ for class_ in CLASSES.values()})
