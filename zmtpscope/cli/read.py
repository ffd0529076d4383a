"""`zmtpscope read`: print the events in captures."""

from __future__ import annotations

import os
import stat
import sys
from typing import Any

from zmtpscope.cli.captures import named_captures, reading
from zmtpscope.cli.commands import command, options
from zmtpscope.cli.output import RECORD_LINES, check_output, record_writer, wants_records, write_end
from zmtpscope.cli.parameters import PACKETS_TO, READ_FILES


@command(short_help="Print every event in capture files, one per line.")
@options(*READ_FILES, PACKETS_TO, *RECORD_LINES)
def read(**given: Any) -> int:
    """Find ZMTP in capture FILEs and print every event of every connection, one per line. FILE is a pcap or pcapng
    file, compressed or not, a directory to search, or - for standard input."""
    paths = named_captures(given)
    check_output(given)
    excerpt = None
    if given["packets_to"] is not None:
        from zmtpscope.cli.excerpt import Excerpt

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
    """Whether all packets are in a file. In a pipe they may arrive live, and output must not wait."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode if path == "-" else os.stat(path).st_mode
    except (OSError, ValueError):  # reported when it is read
        return False
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)
