"""The passive analyser: takes blocks of TCP segments, and returns batches of records."""

from zmtpscope.dissect.analyser import Analyser
from zmtpscope.dissect.options import Options
from zmtpscope.dissect.records.batch import Batch, Record
from zmtpscope.dissect.records.sink import Summary
from zmtpscope.dissect.records.tables import FrameTable, MessageTable
from zmtpscope.option_texts import DecodeAs

__all__ = ["Analyser", "Batch", "DecodeAs", "FrameTable", "MessageTable", "Options", "Record", "Summary"]
