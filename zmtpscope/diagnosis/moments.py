from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from zmtpscope.capture.segments import FILE_SHIFT, PACKET_MASK
from zmtpscope.dissect.records.batch import Record
from zmtpscope.dissect.records.tables import MessageTable


class Moment(NamedTuple):
    """The time (ns since 1970) of a packet, and the packet; its number counts from 1 in `file`."""

    ns: int
    file: str | None
    packet: int | None

    @classmethod
    def of(cls, values: dict[str, Any]) -> Moment:
        return cls(values["ts_ns"], values["file"], values["packet"])

    @classmethod
    def of_record(cls, record: Record) -> Moment:
        return cls(record.ts_ns, record.file, record.packet)

    @classmethod
    def of_row(cls, run: MessageTable, row: int, files: Sequence[str | None]) -> Moment:
        """Return the packet and time of a message's first octet."""
        return cls.of_packet(int(run.times[row]), int(run.packets[row]), files)

    @classmethod
    def of_packet(cls, ns: int, reference: int, files: Sequence[str | None]) -> Moment:
        return cls(ns, file_of(reference, files), reference & PACKET_MASK)


def file_of(reference: int, files: Sequence[str | None]) -> str | None:
    index = reference >> FILE_SHIFT
    return files[index] if index < len(files) else None
