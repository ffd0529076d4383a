"""The files of a recording: other users cannot read keys, nothing is overwritten, errors name the file."""

from __future__ import annotations

import os
import pathlib
import stat

import pytest

from tests.curve import CurvePeers, keys
from tests.live.recordings import NOW
from zmtpscope.curve_keys import CLIENT_TRANSIENT, SERVER_LONGTERM, KeyLine, Keys
from zmtpscope.export.pcapng import packet_block
from zmtpscope.live.keys.key_log import HEADER, KeyLog, KeyLogError
from zmtpscope.live.recording.recording import CaptureFile

PEERS = CurvePeers()
CLIENT_LINE = KeyLine(CLIENT_TRANSIENT, PEERS.C_transient, PEERS.c_transient, PEERS.S)
SERVER_LINE = KeyLine(SERVER_LONGTERM, PEERS.S, PEERS.s)


@pytest.fixture
def capture(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "out.pcapng"


def mode(path: pathlib.Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class TestCapture:
    @pytest.mark.parametrize("force", [False, True])
    def test_its_owner_alone_can_read_it(self, capture: pathlib.Path, force: bool) -> None:
        """This includes replacing a file that others could read."""
        if force:
            capture.write_text("old")
            capture.chmod(0o777)
        before = os.umask(0)
        try:
            CaptureFile(capture, "", force=force).close()
        finally:
            os.umask(before)
        assert mode(capture) == 0o600

    def test_an_existing_file_is_refused(self, capture: pathlib.Path) -> None:
        capture.write_text("precious")
        with pytest.raises(FileExistsError) as error:
            CaptureFile(capture, "")
        assert error.value.filename == str(capture)
        assert capture.read_text() == "precious"

    def test_written_packets_can_be_read_at_once(self, capture: pathlib.Path) -> None:
        file = CaptureFile(capture, "")
        header = capture.read_bytes()
        file.write(NOW, [b"one", b"two"])
        assert capture.read_bytes() == header + b"".join(packet_block(0, NOW, each, 3) for each in (b"one", b"two"))
        file.close()

    def test_force_makes_it_anew(self, capture: pathlib.Path) -> None:
        capture.write_text("old")
        CaptureFile(capture, "", force=True).close()
        assert capture.read_bytes().startswith(b"\x0a\x0d\x0d\x0a")
        CaptureFile(capture.with_name("new"), "", force=True).close()

    def test_force_spares_what_is_no_plain_file(self, capture: pathlib.Path) -> None:
        target = capture.with_name("target")
        target.write_text("precious")
        capture.symlink_to(target)
        os.mkfifo(fifo := capture.with_name("fifo"))
        for path in (capture, fifo):
            with pytest.raises(FileExistsError):
                CaptureFile(path, "", force=True)
        assert target.read_text() == "precious"
        assert fifo.is_fifo()

    @pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="needs a device that is always full")
    def test_a_full_disk_names_the_file(self, capture: pathlib.Path) -> None:
        file = CaptureFile(capture, "")
        with open("/dev/full", "wb") as full:
            os.dup2(full.fileno(), file._file.fileno())
        for act in (lambda: file.write(NOW, [b"packet"]), file.close):
            with pytest.raises(OSError, match="No space left") as error:
                act()
            assert error.value.filename == str(capture)


class TestKeyLog:
    def test_the_key_log_is_beside_the_capture_and_private(self, capture: pathlib.Path) -> None:
        before = os.umask(0)
        try:
            log = KeyLog.beside(capture)
        finally:
            os.umask(before)
        log.close()
        assert log.path == capture.with_name("out.keys")
        assert mode(log.path) == 0o600
        assert log.path.read_bytes() == HEADER

    def test_a_written_key_is_read_at_once(self, capture: pathlib.Path) -> None:
        log = KeyLog.beside(capture)
        found = Keys([log.path])
        log.add(SERVER_LINE)
        log.add(CLIENT_LINE)
        found.refresh()
        assert [line for _, line in found.lines()] == [SERVER_LINE, CLIENT_LINE]
        assert found.problems == []
        assert found.readable_by_others == []
        log.close()

    def test_existing_lines_stay_in_front(self, tmp_path: pathlib.Path) -> None:
        others = keys(tmp_path, CurvePeers(1).lines("SHARED").rstrip())
        log = KeyLog(tmp_path / "test.keys")
        log.add(CLIENT_LINE)
        log.close()
        others.refresh()
        assert [line.public for _, line in others.lines()] == [CurvePeers(1).C_transient, PEERS.C_transient]

    def test_a_key_log_that_others_may_read_is_refused_and_unchanged(self, capture: pathlib.Path) -> None:
        path = capture.with_name("out.keys")
        path.write_text("mine")
        path.chmod(0o640)
        with pytest.raises(KeyLogError, match=r"other users can read it.*chmod 600"):
            KeyLog.beside(capture)
        assert path.read_text() == "mine"

    def test_a_link_is_not_followed(self, capture: pathlib.Path) -> None:
        target = capture.with_name("target")
        capture.with_name("out.keys").symlink_to(target)
        with pytest.raises(KeyLogError, match="it is a symbolic link"):
            KeyLog.beside(capture)
        assert not target.exists()

    def test_a_capture_named_like_a_key_log_has_none(self, tmp_path: pathlib.Path) -> None:
        with pytest.raises(KeyLogError, match="would have the same name"):
            KeyLog.beside(tmp_path / "out.keys")

    @pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="needs a device that is always full")
    def test_a_full_disk_names_the_file(self, capture: pathlib.Path) -> None:
        log = KeyLog.beside(capture)
        with open("/dev/full", "wb") as full:
            os.dup2(full.fileno(), log._file.fileno())
        with pytest.raises(OSError, match="No space left") as error:
            log.add(CLIENT_LINE)
        assert error.value.filename == str(log.path)
        log.close()
