"""The records of a capture at hand, cheap, and everything behind each of them again when somebody looks."""

from zmtpscope.store.spool import OctetsError, Spool
from zmtpscope.store.store import Store

__all__ = ["OctetsError", "Spool", "Store"]
