from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

from zmtpscope.records import SECOND

FORMS = {
    "r": "seconds since the first packet",
    "a": "time of day",
    "ad": "date and time of day",
    "adoy": "year, day of the year and time of day",
    "d": "seconds since the line above",
    "dd": "the same",
    "e": "seconds since 1970-01-01 UTC",
    "u": "time of day, UTC",
    "ud": "date and time of day, UTC",
    "udoy": "year, day of the year and time of day, UTC",
}

_PATTERNS = {"": "%H:%M:%S", "d": "%Y-%m-%d %H:%M:%S", "doy": "%Y/%j %H:%M:%S"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock:
    """Formats nanoseconds since the epoch like tshark's `-t`, to six decimals.

    `start` returns the time of the first packet.
    """

    def __init__(self, form: str, start: Callable[[], int | None]) -> None:
        self.form = form
        self.moves = form in ("d", "dd")
        """Whether a time depends on the previous line."""
        self._start = start
        self._first: int | None = None
        self._above: int | None = None
        self._zone: tzinfo | None = UTC if form.startswith("u") else None
        self._pattern = _PATTERNS.get(form[1:], "")

    @property
    def origin(self) -> int | None:
        """The time from which seconds count; None before the first line, and in formats that print no relative time."""
        return self._first

    def __call__(self, time: int) -> str:
        if self.form == "r":
            if self._first is None:
                start = self._start()
                self._first = time if start is None else start
            return _seconds(time - self._first).rjust(10)
        if self.moves:
            above, self._above = self._above, time
            return _seconds(0 if above is None else time - above).rjust(10)
        if self.form == "e":
            return _seconds(time)
        seconds, nanoseconds = divmod(time, SECOND)
        return f"{_day(seconds, self._pattern, self._zone)}.{nanoseconds // 1000:06}"


def _seconds(time: int) -> str:
    seconds, microseconds = divmod(abs(time) // 1000, 1_000_000)
    return f"{'-' if time < 0 else ''}{seconds}.{microseconds:06}"


@lru_cache(maxsize=16)
def _day(seconds: int, pattern: str, zone: tzinfo | None) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).astimezone(zone).strftime(pattern)


def span(first: int, last: int) -> str:
    """Describe a time span: `12.345 s from 2026-11-27 10:00:00 UTC`."""
    began = datetime.fromtimestamp(first // SECOND, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{(last - first) / SECOND:.3f} s from {began}"


def timestamp(time: int) -> str:
    seconds, nanoseconds = divmod(time, SECOND)
    return f"{rfc_3339(seconds).decode()}.{nanoseconds:09}Z"


@lru_cache(maxsize=64)
def rfc_3339(seconds: int) -> bytes:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S").encode()
