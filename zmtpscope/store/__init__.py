"""Store the records of a capture in little memory, and restore all details of each record on demand."""

from zmtpscope.store.files import OctetsError, Spool
from zmtpscope.store.store import Store

__all__ = ["OctetsError", "Spool", "Store"]
