"""`read -w`: the packets of the records shown, as a new capture."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.captures import is_read_once
from zmtpscope.cli.messages import notify
from zmtpscope.export.words import size
from zmtpscope.words import counted

if TYPE_CHECKING:
    from zmtpscope.capture import Captures
    from zmtpscope.dissect import Batch, Options
    from zmtpscope.excerpt.wanted import WantedPackets


class Excerpt:
    """Collects the packets of records and writes them to a file.

    Raises `click.UsageError` if captures cannot be read twice or would be overwritten, and `OSError` if the file cannot
    be created.
    """

    wanted: WantedPackets

    def __init__(self, given: dict[str, Any], paths: Sequence[str]) -> None:
        self.target = Path(given["packets_to"])
        self.packet_limit: int | None = given["packets"]
        for path in paths:
            if is_read_once(path):
                name = "standard input" if path == "-" else path
                raise click.UsageError(
                    f"-w reads each capture twice, but {name} can be read only once: save it to a file first"
                )
            if self.target.exists() and os.path.exists(path) and os.path.samefile(self.target, path):
                raise click.UsageError(f"-w {self.target} is the capture being read: name another file")
        from zmtpscope.export.files import OutputFile

        file = OutputFile(self.target)
        file.open()  # fail now if it cannot be created, not after hours of reading
        file.discard()

    def begin(self, options: Options) -> Callable[[Batch], None]:
        """Return the function that takes all batches, read with these options."""
        from zmtpscope.excerpt.wanted import WantedPackets

        self.wanted = WantedPackets(options)
        return self.wanted.feed

    def write(self, captures: Captures, options: Options) -> None:
        """Write the excerpt. Raises `CaptureError` and `OSError`."""
        from zmtpscope.capture import open_captures
        from zmtpscope.dissect import Analyser
        from zmtpscope.excerpt.copying import copy_packets, shortcomings
        from zmtpscope.export.files import OutputFile

        paths = [path for path in captures.files if path is not None]
        wanted = self.wanted
        if wanted.references:
            for batch in Analyser(options).run(open_captures(paths, packet_limit=self.packet_limit)):
                wanted.find(batch)
        with OutputFile(self.target) as file:
            *_, count = copy_packets(paths, wanted, file)
        notify(f"zmtpscope: {self.target}: {counted(count, 'packet')}, {size(file.octets)}")
        for sentence in shortcomings(wanted, count):
            notify(f"zmtpscope: {self.target} {sentence}")
