"""`zmtpscope tui --serve`: the screen as a page, only for users with its address."""

from __future__ import annotations

import asyncio
import http.client
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from email.message import Message
from typing import NamedTuple, Self
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, WSServerHandshakeError, web

from tests.cli.running import COMMAND, ROOT
from tests.readings import PUBSUB
from tests.suites import some
from tests.tui.terminal import MARK, processes_marked
from tests.waiting import PATIENCE
from zmtpscope.cli.tui import split
from zmtpscope.tui.serve import PageServer, listen

TOPIC = b"a.topic"
STILL = 2.0
"""Seconds after which a page is idle."""


class Answer(NamedTuple):
    status: int
    headers: Message
    body: bytes


class Served:
    """A running server and everything that it started."""

    def __init__(self) -> None:
        self._mark = uuid4().hex
        self.process = subprocess.Popen(
            [*COMMAND, "tui", "--serve", str(PUBSUB)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT), MARK: self._mark},
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        parts = urlsplit(self.address)
        self.host, self.path = parts.netloc, parts.path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        for pid in self.processes:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    @property
    def processes(self) -> list[int]:
        """Return the server, and for each page a screen and its worker."""
        return list(processes_marked(self._mark))

    def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        with closing(http.client.HTTPConnection(self.host, timeout=PATIENCE)) as connection:
            connection.putrequest(method, path, skip_host="Host" in headers)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())

    def wait_for(self, processes: int) -> None:
        end = time.monotonic() + PATIENCE
        while len(self.processes) != processes:
            assert time.monotonic() < end, self.processes
            time.sleep(0.05)


@pytest.fixture
def served() -> Iterator[Served]:
    with Served() as server:
        yield server


def test_the_address_opens_a_page(served: Served) -> None:
    response = served.get(served.path)
    assert response.status == 200
    assert b"<title>pubsub.pcap - zmtpscope</title>" in response.body
    assert set(re.findall(rb"https?://[^/\"]*", response.body)) == {b"http://" + served.host.encode()}
    assert served.host.startswith("127.0.0.1:")
    assert len(served.path) > 30


def test_another_path_gets_nothing(served: Served) -> None:
    assert served.get("/").status == 404
    assert served.get("/ws").status == 404
    assert served.get(served.path[:-2] + "/").status == 404
    assert served.get("*", method="OPTIONS").status == 404


def test_the_number_of_open_pages_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page is a process, and users with the address may open any number."""
    monkeypatch.setattr("zmtpscope.tui.serve.MAX_PAGES", 2)
    asyncio.run(open_too_many_pages())


async def open_too_many_pages() -> None:
    listening = listen(0)
    server = PageServer([sys.executable, "-c", "import time; time.sleep(60)"], listening, "title")
    runner = web.AppRunner(await server._make_app())
    await runner.setup()
    await web.SockSite(runner, listening).start()
    address = f"{server.address.replace('http', 'ws', 1)}ws"
    async with ClientSession() as session:
        pages = [await session.ws_connect(address) for _ in range(2)]
        with pytest.raises(WSServerHandshakeError) as refused:
            await session.ws_connect(address)
        assert refused.value.status == 503
        await pages[0].close()
        while len(server._pages) > 1:
            await asyncio.sleep(0.01)
        await (await session.ws_connect(address)).close()
        await pages[1].close()
    await runner.cleanup()


def test_another_host_name_gets_nothing(served: Served) -> None:
    """A site whose name resolves to 127.0.0.1 would send its own name."""
    port = served.host.partition(":")[2]
    assert served.get(served.path, Host=f"evil.example:{port}").status == 421
    assert served.get(served.path, Host=f"localhost:{port}").status == 421


def test_pages_of_other_origins_get_nothing(served: Served) -> None:
    assert served.get(served.path + "ws", Origin="http://evil.example").status == 403
    assert served.get(served.path + "ws", Origin="null").status == 403


def test_only_files_of_the_page_are_served(served: Served) -> None:
    assert served.get(served.path + "static/js/textual.js").status == 200
    assert served.get(served.path + "static/../../../../../../../../etc/passwd").status == 404
    assert served.get(served.path + "static/%2e%2e/%2e%2e/%2e%2e/server.py").status == 404


def test_pages_load_nothing_from_elsewhere(served: Served) -> None:
    headers = served.get(served.path).headers
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'")
    assert headers["Referrer-Policy"] == "no-referrer"  # the path would be sent to linked sites


async def _shown(page: ClientWebSocketResponse) -> None:
    drawn = b""
    async with asyncio.timeout(PATIENCE):
        while TOPIC not in drawn:
            drawn += await page.receive_bytes()


async def _idle(page: ClientWebSocketResponse) -> None:
    """Wait until nothing is drawn: a page that draws would notice its closed browser by itself."""
    with suppress(TimeoutError):
        while True:
            await page.receive(STILL)


def test_a_page_shows_the_capture_and_its_processes_end_with_it(served: Served) -> None:
    async def look() -> None:
        async with ClientSession() as session, session.ws_connect(served.address + "ws?width=140&height=40") as page:
            await _shown(page)
            served.wait_for(3)
            await page.send_json(["resize", {"width": 1 << 30, "height": 1 << 30}])  # larger than can be drawn

    asyncio.run(look())
    served.wait_for(1)


def test_a_page_that_is_quit_prints_nothing_where_the_server_runs() -> None:
    async def quit_page(served: Served) -> None:
        async with ClientSession() as session, session.ws_connect(served.address + "ws?width=140&height=40") as page:
            await _shown(page)
            await page.send_json(["stdin", "q"])
            async for _ in page:
                pass

    with Served() as served:
        asyncio.run(quit_page(served))
        served.wait_for(1)
        served.process.terminate()
        out, errors = served.process.communicate(timeout=PATIENCE)
        assert (out, errors.count("\n")) == ("", 1), errors


@pytest.mark.parametrize("number", some([signal.SIGINT, signal.SIGTERM, signal.SIGKILL], 3))
def test_pages_end_with_the_server(served: Served, number: signal.Signals) -> None:
    async def look() -> None:
        async with ClientSession() as session, session.ws_connect(served.address + "ws?width=140&height=40") as page:
            await _shown(page)
            await _idle(page)
            served.process.send_signal(number)
            async for _ in page:
                pass
            await asyncio.to_thread(served.wait_for, 0)

    asyncio.run(look())
    _, printed = served.process.communicate()
    assert "Traceback" not in printed


def test_a_taken_port_is_an_error(served: Served) -> None:
    port = served.host.partition(":")[2]
    command = [*COMMAND, "tui", str(PUBSUB), "--serve", port]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"port {port}" in done.stderr
    assert "in use" in done.stderr


def test_a_missing_extra_is_named(tmp_path: os.PathLike[str]) -> None:
    code = "import sys; sys.modules['textual_serve'] = None; from zmtpscope.cli import main; main()"
    command = [sys.executable, "-c", code, "tui", "--serve", str(PUBSUB)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE)
    assert done.returncode == 1
    assert "pip install 'zmtpscope[serve]'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "whole", "page"),
    [
        (["a.pcap"], ["a.pcap"], ["a.pcap"]),
        (["--serve", "a.pcap"], ["--serve=0", "a.pcap"], ["a.pcap"]),
        (["--serve", "8000", "a.pcap"], ["--serve=8000", "a.pcap"], ["a.pcap"]),
        (["a.pcap", "--serve"], ["a.pcap", "--serve=0"], ["a.pcap"]),
        (["--serve=8000", "-Y", "conn == 1"], ["--serve=8000", "-Y", "conn == 1"], ["-Y", "conn == 1"]),
        (["--", "--serve"], ["--", "--serve"], ["--", "--serve"]),
    ],
)
def test_the_port_of_the_option_may_be_missing(arguments: list[str], whole: list[str], page: list[str]) -> None:
    assert split(arguments) == (whole, page)
