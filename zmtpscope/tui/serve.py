"""Serve the screen as a browser page on this machine, with a process for each open page.

A page can read the capture and write files as the user. So the server listens on the loopback address only, at an
unguessable path, and rejects other host names (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import html
import logging
import os
import secrets
import shlex
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Sequence
from contextlib import suppress

from aiohttp import web
from aiohttp.typedefs import Handler
from textual_serve.app_service import AppService
from textual_serve.server import Server, to_int

HOST = "127.0.0.1"
TOKEN_OCTETS = 24
HEARTBEAT_SECONDS = 15.0
"""A page that is silent for twice as long is closed."""
END_SECONDS = 5.0
FONT_SIZE = 16
MAX_PAGES = 16
"""Maximum open pages, each a process with its own capture."""
LARGEST = (1000, 500)
"""Maximum columns and lines drawn for any page."""

HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self' data:; connect-src 'self' ws://{host}; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""A page loads from this server only."""

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title} - zmtpscope</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{static}css/xterm.css">
<script src="{static}js/textual.js"></script>
<style>
  html, body {{ margin: 0; height: 100%; background: #121212; }}
  .textual-terminal {{ width: 100vw; height: 100vh; }}
  #closed {{ display: none; position: absolute; inset: 0; z-index: 10; background: #121212; color: #e0e0e0; }}
  #closed {{ font: 16px monospace; padding: 2em; }}
  body.-closed #closed {{ display: block; }}
  #closed a {{ color: inherit; }}
</style>
</head>
<body>
<div id="terminal" class="textual-terminal" data-session-websocket-url="{websocket}" data-font-size="{font_size}"></div>
<div id="closed">The session has ended. <a href="">Start again</a></div>
<script>
  // keys go to the terminal without a click, also after a change of window
  const focus = () => document.querySelector(".xterm-helper-textarea")?.focus();
  new MutationObserver(focus).observe(document.getElementById("terminal"), {{childList: true, subtree: true}});
  addEventListener("focus", focus);
</script>
</body>
</html>
"""
"""Replaces the page of the library, which loads a font from another host."""


class Page(AppService):
    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        self._process = process = await asyncio.create_subprocess_exec(
            *shlex.split(self.command),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._build_environment(width, height),
        )
        self._stdin = process.stdin
        return process

    async def set_terminal_size(self, width: int, height: int) -> None:
        """Set the size of the terminal of a page, within the limits of `LARGEST`."""
        await super().set_terminal_size(*_bounded(width, height))

    async def stop(self) -> None:
        """End the process of a page; kill it if it still runs after `END_SECONDS`."""
        process = self._process
        try:
            async with asyncio.timeout(END_SECONDS):
                await super().stop()
        except TimeoutError:
            pass
        finally:
            if process is not None and process.returncode is None:
                # asyncio would print a warning about the process that `process.kill` has collected
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
                await process.wait()


class PageServer(Server):
    def __init__(self, command: Sequence[str], listening: socket.socket, title: str) -> None:
        port = listening.getsockname()[1]
        super().__init__(shlex.join(command), HOST, port, title)
        self._listening = listening
        self._host = f"{HOST}:{port}"
        self._token = secrets.token_urlsafe(TOKEN_OCTETS)
        self._pages: set[asyncio.Task[object]] = set()
        self.address = f"{self.public_url}/{self._token}/"

    def run(self) -> None:
        """Serve pages until ctrl-c or a signal, then end all pages."""
        for name in ("textual-serve", "aiohttp.server"):
            logging.getLogger(name).disabled = True  # a page that sends invalid data is closed without a traceback
        web.run_app(
            self._make_app(),
            sock=self._listening,
            shutdown_timeout=END_SECONDS,
            access_log=None,
            print=None,
        )

    async def _make_app(self) -> web.Application:
        pages = await super()._make_app()
        whole = web.Application(middlewares=[self._check])
        whole.add_subapp(f"/{self._token}", pages)
        whole.on_response_prepare.append(self._add_headers)
        return whole

    async def on_startup(self, app: web.Application) -> None:
        """Print nothing: the address is already printed."""

    async def on_shutdown(self, app: web.Application) -> None:
        for page in self._pages:
            page.cancel()
        if self._pages:
            await asyncio.wait(self._pages, timeout=2 * END_SECONDS)

    async def handle_index(self, request: web.Request) -> web.Response:
        router, base = request.app.router, self.public_url
        page = PAGE.format(
            title=html.escape(self.title),
            static=base + str(router["static"].url_for(filename="/")).rstrip("/") + "/",
            websocket=base.replace("http", "ws", 1) + str(router["websocket"].url_for()),
            font_size=to_int(request.query.get("fontsize", ""), FONT_SIZE),
        )
        return web.Response(text=page, content_type="text/html")

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Run the process of a page until it closes."""
        task: asyncio.Task[object] | None = asyncio.current_task()
        assert task is not None
        if len(self._pages) >= MAX_PAGES:
            raise web.HTTPServiceUnavailable(text=f"{MAX_PAGES} pages are open: close one\n")
        self._pages.add(task)
        try:
            return await self._show_page(request)
        finally:
            self._pages.discard(task)

    async def _show_page(self, request: web.Request) -> web.WebSocketResponse:
        websocket = web.WebSocketResponse(heartbeat=HEARTBEAT_SECONDS)
        await websocket.prepare(request)

        async def close() -> None:
            await websocket.close()

        page = Page(
            self.command,
            write_bytes=websocket.send_bytes,
            write_str=websocket.send_str,
            close=close,
            download_manager=self.download_manager,
        )
        try:
            size = (to_int(request.query.get(name, ""), 0) for name in ("width", "height"))
            await page.start(*_bounded(*size))
            await self._process_messages(websocket, page)
        finally:
            await page.stop()
        return websocket

    @web.middleware
    async def _check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Reject other host names, other origins, and wrong paths."""
        if request.host != self._host:
            raise web.HTTPMisdirectedRequest(text=f"this is http://{self._host} and nothing else\n")
        if request.headers.get("Origin", self.public_url) != self.public_url:
            raise web.HTTPForbidden(text="other pages have no business here\n")
        token = request.path.removeprefix("/").partition("/")[0]  # the path of `OPTIONS *` has no slash
        if not secrets.compare_digest(token.encode(), self._token.encode()):
            raise web.HTTPNotFound(text="the address is longer than that: it was printed where this was started\n")
        return await handler(request)

    async def _add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(HEADERS)
        response.headers["Content-Security-Policy"] = POLICY.format(host=self._host)


def _bounded(width: int, height: int) -> tuple[int, int]:
    most_columns, most_lines = LARGEST
    return max(1, min(width, most_columns)), max(1, min(height, most_lines))


def listen(port: int) -> socket.socket:
    """Listen for pages; port 0 picks a free port. Raises `OSError` if the port is taken."""
    return socket.create_server((HOST, port))


def page_command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "zmtpscope", "tui", *arguments]
