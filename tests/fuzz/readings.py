"""A case as a user would read it: its files on disk, and every output that checks ask for, each made once."""

from __future__ import annotations

import functools
import io
import resource
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tests.fuzz.cases import Case
from zmtpscope.capture import CaptureError, open_captures
from zmtpscope.cli import run
from zmtpscope.curve_keys import Keys
from zmtpscope.dissect import Analyser, Options
from zmtpscope.dissect.records.sink import Summary
from zmtpscope.export import json_lines
from zmtpscope.export.clock import Clock
from zmtpscope.export.summary import statistics_lines, summary_lines
from zmtpscope.export.text import Look, TextLines
from zmtpscope.payloads.registry import Registry

Record = dict[str, Any]

REGISTRY = Registry()
"""Looked up once, since finding entry points takes longer than reading a case."""


class Reading(NamedTuple):
    """The JSON lines of a run, and its counts."""

    lines: list[bytes]
    summary: Summary

    @property
    def records(self) -> list[Record]:
        return [orjson.loads(line) for line in self.lines]


class Subject:
    """A case with its files in `folder`. `readable` is false if a file is no capture."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.case = case
        self.folder = folder
        self.paths = [folder / f"{number}.capture" for number in range(len(case.files))]
        for path, octets in zip(self.paths, case.files, strict=True):
            path.write_bytes(octets)
        self.keys: Path | None = None
        if case.keys:
            self.keys = folder / "case.keys"
            self.keys.write_text(case.keys)
        try:
            open_captures(list(map(str, self.paths)))
            self.readable = True
        except CaptureError:
            self.readable = False

    def options(self, **more: Any) -> Options:
        keys = None if self.keys is None else Keys([self.keys])
        return Options(**{"payloads": REGISTRY, "keys": keys, **self.case.reading, **more})

    def read(self, paths: Sequence[Path] | None = None, block_size: int = 2 << 20, **more: Any) -> Reading:
        options = self.options(**more)
        analyser = Analyser(options)
        captures = open_captures([str(path) for path in paths or self.paths], block_size=block_size)
        lines = [line for batch in analyser.run(captures) for line in json_lines.lines(batch, options)]
        return Reading(lines, analyser.summary)

    @functools.cached_property
    def measured(self) -> tuple[Reading, float, int]:
        """`read --json`, the CPU time that it took in seconds, and by how many octets this process has outgrown its
        largest size."""
        before, largest = time.process_time(), largest_size()
        reading = self.read()
        return reading, time.process_time() - before, largest_size() - largest

    @property
    def reading(self) -> Reading:
        return self.measured[0]

    @functools.cached_property
    def records(self) -> list[Record]:
        return self.reading.records

    @functools.cached_property
    def text(self) -> str:
        """`read -V -x --frames --verbose --stats`, and the summary."""
        options = self.options(frames=True, details=True)
        analyser = Analyser(options)
        captures = open_captures(list(map(str, self.paths)))
        look = Look(Clock("ad", lambda: captures.statistics.first_time), chat=True, tree=True, hex=True)
        text = TextLines(look, options)
        lines = [line for batch in analyser.run(captures) for line in text.lines(batch)]
        ends = [
            *summary_lines(analyser.summary, captures.statistics, captures.problems, chat=True),
            *statistics_lines(analyser.summary, captures.statistics),
        ]
        return "".join([*lines, *(line + "\n" for line in ends)])

    def command(self, *arguments: str) -> tuple[int, bytes]:
        """Run `zmtpscope ARGUMENTS` on the files of the case; return the exit code and the output."""
        keys = [] if self.keys is None else ["--keys", str(self.keys)]
        output = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
        with redirect_stdout(output), redirect_stderr(output):
            code = run([*arguments, *keys, *map(str, self.paths)])
        return code, output.buffer.getvalue()  # type: ignore[attr-defined]


def largest_size() -> int:
    """Octets of memory that this process had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
