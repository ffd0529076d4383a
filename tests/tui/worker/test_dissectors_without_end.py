"""A dissector of another package that never returns is stopped and named, and all others continue."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.readings import CAPTURES
from tests.tui.workers import PATIENCE, Asker
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Options
from zmtpscope.option_texts import parse_decode_as
from zmtpscope.payloads import interrupting
from zmtpscope.payloads.registry import Registry
from zmtpscope.tui.requests import ListSpec, OpenList
from zmtpscope.tui.worker.loading import Opened
from zmtpscope.tui.worker.process import start
from zmtpscope.tui.worker.run import run

ENDLESS = """
from zmtpscope.payloads.api import Claim, Payload

def forever():
    while True:
        try:
            while True:
                pass
        except Exception:
            pass

class Endless(Payload):
    name = prefix = "endless"
    automatic = True

    def __init__(self, settings):
        {in_init}

    def claim(self, message, about):
        {in_claim}
        return Claim.YES if b"body" in b"".join(message.frames) else Claim.NO

    def dissect(self, message, reader):
        {in_dissect}
        return ""
"""

WHERE = ("in_init", "in_claim", "in_dissect")


@pytest.fixture
def endless(request: pytest.FixtureRequest, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with a dissector that never returns from one of its methods."""
    text = ENDLESS.format(**{where: "forever()" if where == request.param else "pass" for where in WHERE})
    module = f"endless_{request.param}"
    (tmp_path / f"{module}.py").write_text(text)
    information = tmp_path / "endless-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Name: endless\n")
    (information / "entry_points.txt").write_text(f"[zmtpscope.payloads]\nendless = {module}:Endless\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(interrupting, "SECONDS", 0.3)


@contextmanager
def forked_worker(path: pathlib.Path, options: Options) -> Iterator[Asker]:
    """Yield a worker in a process of its own, like the screen's."""
    opened = Opened((str(path),), lambda: open_captures([str(path)]))
    worker = start(lambda end: run(end, lambda: (opened, options)))
    worker.socket.settimeout(PATIENCE)
    try:
        yield Asker(worker.socket)
    finally:
        worker.end()


@pytest.mark.parametrize("endless", WHERE, indirect=True)
@pytest.mark.usefixtures("endless")
def test_the_rest_is_read_and_the_dissector_is_named() -> None:
    options = Options(index=True, payloads=Registry())
    with forked_worker(CAPTURES / "patterns" / "dealer-router-identities.pcap", options) as worker:
        progress = worker.wait_until_loaded()
        state = worker.ask(OpenList("messages", ListSpec()))
        assert state.found == progress.messages > 10
        failed = worker.ask(OpenList("failed", ListSpec(("finding",), "id == PAYLOAD-01")))
        assert failed.found <= 1
    (problem,) = progress.problems
    assert "the payload dissector endless cannot be used" in problem
    assert "took longer than" in problem


@pytest.mark.parametrize("endless", ["in_dissect"], indirect=True)
@pytest.mark.usefixtures("endless")
def test_a_dissector_that_the_user_named_is_stopped_too() -> None:
    rule = parse_decode_as("tcp.port==5600,zmtp:endless")
    options = Options(index=True, payloads=Registry(), decode_as=(rule,))
    with forked_worker(CAPTURES / "patterns" / "dealer-router-identities.pcap", options) as worker:
        progress = worker.wait_until_loaded()
        assert progress.messages > 10
        assert worker.ask(OpenList("failed", ListSpec(("finding",), "id == PAYLOAD-01"))).found == 1
