"""Live captures: stopping, and saving all packets."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable
from typing import Any

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
from zmtpscope.tui.worker.loading import Loading, Opened
from zmtpscope.tui.worker.saved_capture import save_files
from zmtpscope.tui.worker.saving import Saving
from zmtpscope.tui.worker.views.derived import Derived

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


def test_a_search_does_not_wait_for_packets_before_each_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def noted(name: str, step: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda task: (done.append(name), step(task))[1]

    monkeypatch.setattr(Loading, "step", noted("read", Loading.step))
    monkeypatch.setattr(Derived, "work", noted("search", Derived.work))
    followed = ForeignCapture(str(PUBSUB))
    with worker_with(Opened((str(PUBSUB),), lambda: followed.captures, followed), Options(index=True)) as worker:
        worker.wait_for(Progress, lambda progress: progress.diagnoses is not None)
        worker.ask(StopCapture())
    during = done[done.index("search") : len(done) - done[::-1].index("search")]
    assert during.count("read") < during.count("search") / 4


def test_all_packets_so_far_are_saved(tmp_path: pathlib.Path) -> None:
    followed = OurCapture(str(WITH_LINKS))
    followed.written_files = (CaptureFile(str(WITH_LINKS), WITH_LINKS.stat().st_size, True),)
    with worker_with(Opened((), lambda: followed.captures, followed), Options(index=True)) as worker:
        assert worker.ask(SaveCapture(str(tmp_path / "out.pcapng")))
        state = worker.wait_for(SavingState, lambda state: state.is_done)
        assert not state.has_failed
        assert not worker.ask(SaveCapture(str(tmp_path / "out.pcapng")))  # the file exists, and `force` is not set
        with pytest.raises(RequestFailed, match="the ending of its name selects the format"):
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
