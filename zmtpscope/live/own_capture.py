"""Start our own capture before the modules that read it are loaded."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from zmtpscope.live.capture.packet_copy import PacketCopy
from zmtpscope.live.capture.session import CaptureFile, CaptureSession
from zmtpscope.live.capture.settings import CaptureSettings

if TYPE_CHECKING:
    from zmtpscope.capture import Captures
    from zmtpscope.live.capture.following import SessionFollow


class OwnCapture:
    """Our own capture of interfaces. Always call `close`. `copy` receives the packets as they are written.

    Raises `CaptureRefused` when created.
    """

    def __init__(self, settings: CaptureSettings, copy: PacketCopy | None = None) -> None:
        self._copy = copy
        self._session = CaptureSession(settings)
        self._session.start()
        self._settings = settings
        self.status = self._session.status

    @cached_property
    def captures(self) -> Captures:
        """The blocks of captured packets, for one iteration."""
        from zmtpscope.capture import follow_captures  # loads numpy, so only after the capture has started

        return follow_captures(self._follow)

    @cached_property
    def _follow(self) -> SessionFollow:
        from zmtpscope.live.capture.following import SessionFollow

        return SessionFollow(self._session, self._settings, self._copy)

    def stop(self) -> None:
        """End after the packets captured so far. A signal handler or another thread may call this."""
        self._session.stop()

    def known_until(self, latest: int, *, is_idle: bool) -> int:
        """Return the time up to which all packets have been read, as `analysis.Following` requires."""
        return max(latest, self.status.known_until) if is_idle else latest

    @property
    def unread(self) -> int:
        """Octets written but not read yet."""
        return self._follow.unread

    @property
    def written_files(self) -> Sequence[CaptureFile]:
        """All files written so far. Of a private capture, the oldest have been removed."""
        return tuple(self.status.files)

    @property
    def dropped(self) -> int:
        """Number of packets lost so far."""
        return self.status.kernel_drops + self.status.unread_drops

    def close(self) -> None:
        """End the capture, and remove its files unless the user asked for them."""
        self._session.close()
        if self._copy is not None:
            self._copy.close()
