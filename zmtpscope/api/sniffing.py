"""`zmtpscope.sniff`: the records of what passes on network interfaces, as it happens."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, TypeVar, Unpack, overload

from zmtpscope.api.reading import Records
from zmtpscope.api.record_classes import Frame, Message
from zmtpscope.api.rows import Record, check_class
from zmtpscope.api.settings import Settings, analyser_options, names, packet_limit
from zmtpscope.dissect import Analyser, Batch, Options
from zmtpscope.filter import Filter
from zmtpscope.live.analysis import end, steps
from zmtpscope.live.capture.filters import programs
from zmtpscope.live.capture.settings import SNAP_LENGTH, CaptureSettings, Limits
from zmtpscope.live.own_capture import OwnCapture

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
    """The records of what passes on interfaces ("lo", or "any") from now on, as `zmtpscope.read` has those of files,
    until `stop`, so many `packets` or so many `seconds`. Only packets that `capture_filter` (pcap-filter(7)) lets
    through are captured.

    Raises `CaptureRefused` where nothing can be captured (docs/live.md has the rights), `CaptureFilterError`, and what
    `read` raises.
    """
    check_class(record)
    chosen = None if filter is None else Filter(filter)  # before anything is captured
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
    """Records as they happen. The capture ends with `stop`, with `close`, or where it is used in a `with` block with
    that."""

    def __init__(self, record: type[R], capture: OwnCapture, options: Options, filter: Filter | None) -> None:
        self._capture = capture
        super().__init__(record, capture.captures, _batches(capture, Analyser(options)), options, filter)

    def stop(self) -> None:
        """Capture no more; what came until now is still handed out. May be called from another thread."""
        self._capture.stop()

    def close(self) -> None:
        super().close()
        self._capture.close()

    def __del__(self) -> None:
        self._capture.close()


def _batches(capture: OwnCapture, analyser: Analyser) -> Generator[Batch]:
    """Batches, also empty ones: so whoever waits is asked again and again whether it still does."""
    for step in steps(analyser, capture.captures, capture):
        yield from step
        yield Batch([])
    yield from end(analyser, capture.captures)
