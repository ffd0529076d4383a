"""`zmtpscope read`: print the events in captures."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.captures import is_read_once, named_captures, reading
from zmtpscope.cli.output import RECORD_LINES, check_output, record_writer, wants_records, write_end
from zmtpscope.cli.parameters import PACKETS_TO, READ_FILES, command, options
from zmtpscope.cli.terminal import notify
from zmtpscope.words import counted

if TYPE_CHECKING:
    from zmtpscope.capture import Captures
    from zmtpscope.dissect import Batch, Options
    from zmtpscope.excerpt.wanted import WantedPackets


@command(short_help="Print every event in capture files, one per line.")
@options(*READ_FILES, PACKETS_TO, *RECORD_LINES)
def read(**given: Any) -> int:
    """Find ZMTP in capture FILEs and print every event of every connection, one per line. FILE is a pcap or pcapng
    file, compressed or not, a directory to search, or - for standard input."""
    paths = named_captures(given)
    check_output(given)
    excerpt = None
    if given["packets_to"] is not None:
        excerpt = Excerpt(given, paths)
    wanted = {"records": wants_records(given), "frames": given["frames"]}
    with reading(given, **wanted, details=given["tree"] or given["hex_dump"] or excerpt is not None) as run:
        with run.progress(shown=given["quiet"] or not sys.stdout.isatty()):
            also = None if excerpt is None else excerpt.begin(run.options)
            writer = record_writer(given, run, waits=all(map(_is_file, paths)), also=also)
            try:
                for batch in run.batches():
                    writer.write(batch)
            except KeyboardInterrupt:  # show everything read, including records waiting for earlier ones
                writer.finish()
                raise
            writer.finish()
        write_end(run, given)
        if excerpt is not None:
            excerpt.write(run.captures, run.options)
    return run.exit_code()


def _is_file(path: str) -> bool:
    """Whether the capture is a regular file. From a pipe, packets may arrive live, so lines must not wait for later
    ones."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode if path == "-" else os.stat(path).st_mode
    except (OSError, ValueError):  # reported when it is read
        return False
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


class Excerpt:
    """Collects the packets of printed records, and writes them to the file of `-w`.

    Raises `click.UsageError` if captures cannot be read twice or would be overwritten, and `OSError` if the file cannot
    be created.
    """

    wanted: WantedPackets

    def __init__(self, given: dict[str, Any], paths: Sequence[str]) -> None:
        from pathlib import Path

        from zmtpscope.export.files import OutputFile

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
        file = OutputFile(self.target)
        file.open()  # fail now if it cannot be created, not after hours of reading
        file.discard()

    def begin(self, options: Options) -> Callable[[Batch], None]:
        """Return a function that must be called with all batches; `options` are the options of their analyser."""
        from zmtpscope.excerpt.wanted import WantedPackets

        self.wanted = WantedPackets(options)
        return self.wanted.feed

    def write(self, captures: Captures, options: Options) -> None:
        """Copy the collected packets from the captures to the file. Raises `CaptureError` and `OSError`."""
        from zmtpscope.capture import open_captures
        from zmtpscope.dissect import Analyser
        from zmtpscope.excerpt.copying import copy_packets, shortcomings
        from zmtpscope.export.files import OutputFile
        from zmtpscope.export.words import size

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
