"""The records of a capture at hand, cheap, and everything behind each of them again when somebody looks."""

from zmtpscope.store.spool import Spool, SpoolError
from zmtpscope.store.store import Store

__all__ = ["Spool", "SpoolError", "Store"]
