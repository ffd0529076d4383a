"""The records of a capture in little memory, with access to all details of each record on demand."""

from zmtpscope.store.files import OctetsError, Spool
from zmtpscope.store.store import Store

__all__ = ["OctetsError", "Spool", "Store"]
