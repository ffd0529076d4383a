"""`zmtpscope.sniff`: yield records from network interfaces, as traffic arrives."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, TypeVar, Unpack, overload

from zmtpscope.api.reading import Records
from zmtpscope.api.record_classes import Frame, Message
from zmtpscope.api.rows import Record, check_class
from zmtpscope.api.settings import Settings, analyser_options, names, packet_limit
from zmtpscope.dissect import Analyser, Batch, Options
from zmtpscope.filter import Filter
from zmtpscope.live.capture.filters import programs
from zmtpscope.live.capture.settings import SNAP_LENGTH, CaptureSettings, Limits
from zmtpscope.live.followed_captures import OwnCapture

R = TypeVar("R", bound=Record)


@overload
def sniff(
    interfaces: str | Iterable[str],
    *,
    capture_filter: str = ...,
    filter: str | None = ...,
    packets: int | None = ...,
    seconds: float | None = ...,
    **settings: Unpack[Settings],
) -> Sniffer[Message]: ...


@overload
def sniff(
    interfaces: str | Iterable[str],
    record: type[R],
    *,
    capture_filter: str = ...,
    filter: str | None = ...,
    packets: int | None = ...,
    seconds: float | None = ...,
    **settings: Unpack[Settings],
) -> Sniffer[R]: ...


def sniff(
    interfaces: str | Iterable[str],
    record: type[Record] = Message,
    *,
    capture_filter: str = "",
    filter: str | None = None,
    packets: int | None = None,
    seconds: float | None = None,
    **settings: Unpack[Settings],
) -> Sniffer[Any]:
    """Capture on interfaces ("lo", or "any") and return the records. For other arguments see `zmtpscope.read`.

    Ends at `stop`, or after `packets` packets or `seconds` seconds. `capture_filter` (pcap-filter(7)) selects the
    packets to capture. Raises `CaptureRefused` if capturing is impossible (docs/live.md explains the rights),
    `CaptureFilterError`, and the errors of `read`.
    """
    check_class(record)
    chosen = None if filter is None else Filter(filter)
    options = analyser_options(settings, frames=record is Frame)
    capture = OwnCapture(
        CaptureSettings(
            interfaces=tuple(names(interfaces)),
            filter=capture_filter,
            programs=programs(capture_filter, SNAP_LENGTH),
            stop_after=Limits(duration=seconds, packets=packet_limit(packets)),
        )
    )
    return Sniffer(record, capture, options, chosen)


class Sniffer(Records[R]):
    """The records of a live capture, to iterate over.

    The capture ends at `stop`, at `close`, or at the end of a `with` block.
    """

    def __init__(self, record: type[R], capture: OwnCapture, options: Options, filter: Filter | None) -> None:
        self._capture = capture
        super().__init__(record, capture.captures, _batches(capture, Analyser(options)), options, filter)

    def stop(self) -> None:
        """Stop the capture; other threads may call this. Records captured so far are still returned."""
        self._capture.stop()

    def close(self) -> None:
        super().close()
        self._capture.close()

    def __del__(self) -> None:
        self._capture.close()


def _batches(capture: OwnCapture, analyser: Analyser) -> Generator[Batch]:
    """Yield the batches of a live capture; empty ones while no traffic arrives, so that the caller can check whether to
    stop."""
    for step in analyser.steps(capture.captures):
        yield from step
        yield Batch([])
    yield from analyser.finish_captures(capture.captures)
