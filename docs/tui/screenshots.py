"""Take the pictures of this directory from real captures: `python docs/tui/screenshots.py [NAME ...]`."""

from __future__ import annotations

import asyncio
import os
import pathlib
import re
import sys
import tempfile
from typing import NamedTuple

from zmtpscope.capture import open_captures
from zmtpscope.dissect import Options
from zmtpscope.payloads.registry import Registry
from zmtpscope.tui.worker.loading import Opened
from zmtpscope.tui.worker.process import start
from zmtpscope.tui.worker.run import run

HERE = pathlib.Path(__file__).parent
CAPTURES = HERE.parent.parent / "captures"
SIZES = ((200, 50), (80, 24))

ELSEWHERE = re.compile(r"@font-face\s*\{.*?\}\s*", re.DOTALL)
"""Fonts that a picture would load from the network; any monospaced one will do."""

SETTLED = 1.0
"""Seconds after keys until everything that follows them is drawn."""


class Picture(NamedTuple):
    """A screen: a capture and the keys to press."""

    name: str
    capture: str
    keys: tuple[str, ...] = ()


PICTURES = (
    Picture("messages", "patterns/pubsub.pcap", ("j", "j")),
    Picture("filter", "patterns/pubsub.pcap", ("slash", *"top")),
    Picture("octets", "patterns/pubsub.pcap", ("tab", "down", "down", "down", "down", "down", "down")),
    Picture("connections", "patterns/late-subscription.pcap", ("2",)),
    Picture("map", "patterns/pubsub.pcap", ("3",)),
    Picture("topics", "patterns/pubsub.pcap", ("4",)),
    Picture("subscriptions", "problems/subscription-lost-on-reconnect.pcap", ("5", "down", "right")),
    Picture("problems", "problems/subscription-lost-on-reconnect.pcap", ("6", "right", "down")),
    Picture("zre", "implementations/zre-zyre.pcap", ("7",)),
    Picture("statistics", "implementations/zre-zyre.pcap", ("8",)),
    Picture("peers", "problems/subscription-lost-on-reconnect.pcap", ("9", "down", "right")),
    Picture("requests", "problems/request-unanswered.pcap", ("0", "right", "down")),
    Picture("follow", "patterns/reqrep.pcap", ("o",)),
    Picture("keys", "patterns/pubsub.pcap", ("question_mark",)),
)


def take(picture: Picture, size: tuple[int, int]) -> str:
    """Return the picture as SVG, which loads nothing from elsewhere."""
    path = str(CAPTURES / picture.capture)

    def opened() -> tuple[Opened, Options]:
        return Opened((path,), lambda: open_captures([path])), Options(payloads=Registry(), index=True)

    worker = start(lambda end: run(end, opened))
    from zmtpscope.tui.app import Inspector

    async def look() -> str:
        app = Inspector(worker.socket, pathlib.Path(path).name)
        async with app.run_test(size=size) as pilot:
            while app.records.rows.current_row() is None:
                await pilot.pause(SETTLED)
            for key in picture.keys:
                await pilot.press(key)
                await pilot.pause(SETTLED / 2)  # a digit is no count of the next key then
            await pilot.pause(SETTLED)
            return app.export_screenshot(title=f"zmtpscope tui {pathlib.Path(path).name}")

    try:
        return ELSEWHERE.sub("", asyncio.run(look()))
    finally:
        worker.end()


def main() -> None:
    with tempfile.TemporaryDirectory() as nobody:
        os.environ["XDG_CONFIG_HOME"] = nobody  # no profile of whoever takes them
        os.environ["TEXTUAL_COLOR_SYSTEM"] = "truecolor"
        for picture in PICTURES:
            if picture.name in sys.argv[1:] or not sys.argv[1:]:
                for columns, lines in SIZES:
                    file = HERE / f"{picture.name}-{columns}x{lines}.svg"
                    file.write_text(take(picture, (columns, lines)), encoding="utf-8")


if __name__ == "__main__":
    main()
