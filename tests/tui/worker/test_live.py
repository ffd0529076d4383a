"""Live captures: stopping, and saving all packets."""

from __future__ import annotations

import pathlib
import shutil

import pytest

from tests.readings import CAPTURES, PUBSUB
from tests.tui.workers import worker_of, worker_with
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Options
from zmtpscope.live.capture.session import CaptureFile
from zmtpscope.live.followed_captures import ForeignCapture
from zmtpscope.tui.client import RequestFailed
from zmtpscope.tui.requests import (
    ListSpec,
    OpenList,
    Progress,
    Rows,
    SaveCapture,
    SavingState,
    StopCapture,
)
from zmtpscope.tui.worker.loading import Opened
from zmtpscope.tui.worker.saved_capture import save_files
from zmtpscope.tui.worker.saving import Saving

WITH_LINKS = CAPTURES / "network" / "pcapng-mixed-links.pcapng"


class OurCapture(ForeignCapture):
    """A file that another program writes, as if it were a capture of our own."""

    written_files: tuple[CaptureFile, ...] = ()


def packets_of(path: pathlib.Path) -> int:
    captures = open_captures([str(path)])
    list(captures)
    assert not captures.problems
    return captures.statistics.packets


def test_captured_records_stay_when_the_capture_stops() -> None:
    followed = ForeignCapture(str(PUBSUB))
    with worker_with(Opened((str(PUBSUB),), lambda: followed.captures, followed), Options(index=True)) as worker:
        before = worker.wait_for(Progress, lambda progress: progress.messages > 10)
        assert before.is_live
        worker.ask(StopCapture())
        after = worker.wait_for(Progress, lambda progress: progress.is_done)
        assert not after.is_live
        worker.ask(OpenList("messages", ListSpec()))
        assert worker.ask(Rows("messages", 0, 5)).rows


def test_all_packets_so_far_are_saved(tmp_path: pathlib.Path) -> None:
    followed = OurCapture(str(WITH_LINKS))
    followed.written_files = (CaptureFile(str(WITH_LINKS), WITH_LINKS.stat().st_size, True),)
    with worker_with(Opened((), lambda: followed.captures, followed), Options(index=True)) as worker:
        assert worker.ask(SaveCapture(str(tmp_path / "out.pcapng")))
        state = worker.wait_for(SavingState, lambda state: state.is_done)
        assert not state.has_failed
        assert not worker.ask(SaveCapture(str(tmp_path / "out.pcapng")))  # the file exists, and `force` is not set
        with pytest.raises(RequestFailed, match="its name ends in"):
            worker.ask(SaveCapture(str(tmp_path / "out.csv")))
        worker.ask(StopCapture())
    assert (tmp_path / "out.pcapng").read_bytes() == WITH_LINKS.read_bytes()


def test_a_lost_start_of_a_capture_is_reported(tmp_path: pathlib.Path) -> None:
    files = [CaptureFile(str(tmp_path / f"{number}"), WITH_LINKS.stat().st_size, True) for number in range(3)]
    for each in files[1:]:
        shutil.copy(WITH_LINKS, each.path)
    saving = Saving(tmp_path / "out.pcapng", 0, save_files(tmp_path / "out.pcapng", files))
    while not saving.state.is_done:
        saving.step()
    assert "it begins later than the capture, of which the first" in saving.state.text
    assert packets_of(tmp_path / "out.pcapng") == 2 * packets_of(WITH_LINKS)


def test_saving_a_file_reports_that_its_packets_are_saved_already(tmp_path: pathlib.Path) -> None:
    with (
        worker_of("patterns/pubsub.pcap") as worker,
        pytest.raises(RequestFailed, match=r"pubsub\.pcap already: save rows"),
    ):
        worker.ask(SaveCapture(str(tmp_path / "out.pcapng")))
