from __future__ import annotations

from zmtpscope.capture import FollowedFile
from zmtpscope.live.capture.packet_copy import PATIENCE, PacketCopy
from zmtpscope.live.capture.session import CaptureSession
from zmtpscope.live.capture.settings import CaptureSettings


class SessionFollow:
    """Reads the files of a capture session in order, while they grow. Packets have the file names of `settings`.

    Files of a private capture have no name; their packets are numbered consecutively. All written octets also go to
    `copy`. When the program that reads the copy closes its pipe, the session stops.
    """

    def __init__(self, session: CaptureSession, settings: CaptureSettings, copy: PacketCopy | None = None) -> None:
        self._session = session
        self._settings = settings
        self._copy = copy
        self._consumed = 0
        self._consumed_of: dict[int, int] = {}
        self.files: list[FollowedFile] = []
        self._update()

    def wait(self, seconds: float) -> bool:
        goes_on = self._session.wait(seconds)
        self._update()
        if self._copy is not None:
            self._copy_on(self._copy, is_last=not goes_on)
        return goes_on

    def consumed(self, file: int, octets: int) -> None:
        self._consumed += octets - self._consumed_of.get(file, 0)
        self._consumed_of[file] = octets
        self._release(file)

    def _copy_on(self, copy: PacketCopy, *, is_last: bool) -> None:
        before = copy.file
        copy.copy(self._session.status.files, None if is_last else PATIENCE)
        for file in range(before, min(copy.file + 1, len(self.files))):
            self._release(file)
        if copy.is_closed:
            self._session.stop()

    def _release(self, file: int) -> None:
        """Report to the capture process how much of a file was read and copied, so that it can remove the file."""
        octets = self._consumed_of.get(file, 0)
        if self._copy is not None and not self._copy.is_closed:
            octets = min(octets, self._copy.copied(file))
        self._session.consumed(file, octets)

    @property
    def known_until(self) -> int:
        return self._session.status.known_until

    @property
    def unread(self) -> int:
        return sum(file.octets for file in self._session.status.files) - self._consumed

    def _update(self) -> None:
        files = self._session.status.files
        first = next((number for number, file in enumerate(self.files) if not file.is_complete), len(self.files))
        self.files[first:] = [
            FollowedFile(file.path, self._name(file.path), file.is_complete) for file in files[first:]
        ]

    def _name(self, path: str) -> str | None:
        settings = self._settings
        if settings.write_to is None:
            return None
        return settings.write_to if settings.ring is None else path
