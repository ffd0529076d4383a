"""Captures that still grow: captures of this process, and files or pipes that another tool writes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from zmtpscope.live.capture.packet_copy import PacketCopy
from zmtpscope.live.capture.session import CaptureFile, CaptureSession
from zmtpscope.live.capture.settings import CaptureSettings
from zmtpscope.words import counted

if TYPE_CHECKING:
    from zmtpscope.capture import Captures, Polling

GRACE = 1.0
"""Seconds for a pipe to end after the first Ctrl-C, which its writer also receives."""


class OwnCapture:
    """A capture on interfaces, which starts before the modules that read it are loaded.

    `copy` receives the packets as they are written. Raises `CaptureRefused` when created.
    """

    def __init__(self, settings: CaptureSettings, copy: PacketCopy | None = None) -> None:
        self._copy = copy
        self._session = CaptureSession(settings)
        self._session.start()
        self._settings = settings
        self._status = self._session.status
        self.title = ", ".join(self._status.names)
        """Interfaces, a file, or "-" for standard input."""

    @cached_property
    def captures(self) -> Captures:
        """The packets of the capture in blocks, as `Captures`; iterate once, as long as the capture lasts."""
        from zmtpscope.capture import follow_captures  # loads numpy, so only after the capture has started
        from zmtpscope.live.capture.following import SessionFollow

        return follow_captures(SessionFollow(self._session, self._settings, self._copy))

    def stop(self) -> None:
        """Stop capturing. The iteration ends after the packets written so far. Signal handlers and other threads may
        call this."""
        self._session.stop()

    @property
    def dropped(self) -> int:
        """Number of packets known to be lost."""
        return self._status.kernel_drops + self._status.unread_drops

    @property
    def written_files(self) -> Sequence[CaptureFile]:
        """The files of the capture; the oldest ones may have been removed."""
        return tuple(self._status.files)

    @property
    def failure(self) -> str | None:
        """The reason why the capture ended early, or None."""
        return self._status.failure

    def opening_lines(self) -> list[str]:
        """Return lines for the user at the start: interfaces and engine, and whether a pipe still waits for
        its reader."""
        engine, others = self._status.engine, self._status.passed_over
        how = f" with {engine} ({'; '.join(others)})" if others else ""
        lines = [f"capturing on {self.title}{how}; Ctrl-C stops"]
        if self._copy is not None and self._copy.awaits_reader:
            lines.append(f"packets are buffered until a program reads {self._copy.name}")
        return lines

    def news(self) -> list[str]:
        """Return lines for the user about events since the last call, for example that an interface went down."""
        notices = self._status.notices
        return [notices.popleft() for _ in range(len(notices))]

    def closing_lines(self) -> list[str]:
        """Return lines for the user at the end: number of packets, losses, whether the reader of a pipe ended, and the
        `failure`."""
        packets, freezes = self.captures.statistics.packets, self._status.freezes
        full = f"; the kernel's buffer was full {counted(freezes, 'time')}" if freezes else ""
        lines = [*self.news(), f"{counted(packets, 'packet')} captured on {self.title}, {self.dropped} dropped{full}"]
        if self._copy is not None and self._copy.is_closed:
            lines.append(f"the program that read {self._copy.name} closed it, so the capture stopped")
        elif self._copy is not None and self._copy.awaits_reader:
            lines.append(f"no program read {self._copy.name}")
        return lines if self.failure is None else [*lines, self.failure]

    def close(self) -> None:
        """Remove the capture files, unless the user chose their name."""
        self._session.close()
        if self._copy is not None:
            self._copy.close()


class ForeignCapture:
    """A growing file or standard input ("-") that another tool writes. At most `packets` packets are read."""

    written_files: Sequence[CaptureFile] = ()
    failure: str | None = None

    def __init__(self, path: str, packets: int | None = None) -> None:
        from zmtpscope.capture import Polling, follow_captures

        self.title = path
        self._polling: Polling = Polling(path, grace=GRACE if path == "-" else 0)
        self.captures = follow_captures(self._polling, packet_limit=packets)

    def stop(self) -> None:
        self._polling.stop()

    @property
    def dropped(self) -> int:
        return sum(self.captures.statistics.dropped().values())

    def opening_lines(self) -> list[str]:
        """Return a line for the user if the file does not exist yet."""
        if self.title == "-" or os.path.exists(self.title):
            return []
        return [f"{self.title} does not exist yet; waiting for it, Ctrl-C stops"]

    def news(self) -> list[str]:
        """Return no lines: the other tool prints its own messages."""
        return []

    def closing_lines(self) -> list[str]:
        return []

    def close(self) -> None:
        """Do nothing: the file closes when it has been read."""


FollowedCapture = OwnCapture | ForeignCapture
"""Iterate over `captures`, and always call `close`."""
