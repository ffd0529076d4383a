"""What a stream of captures is asked for, beside the options of a read."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zmtpscope.spark.errors import SettingsError
from zmtpscope.spark.paths import ANY_NAME, given_paths, local_path
from zmtpscope.spark.settings import ReadSettings

FILES_A_BATCH = 100
MOUNTED = "a stream needs folders that the driver and all workers mount, and takes their paths"


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """The options of a stream."""

    read: ReadSettings
    path: str
    """A folder, or a pattern of files."""
    state_location: str
    """The folder of states; driver and workers see the same one."""
    most_files: int = FILES_A_BATCH
    """Files that a batch takes at most."""
    growing: int = 1
    """How many files are being written at a time: so many of the newest ones are left alone."""
    finish: bool = False
    """Whether the capture is over: all files are complete, and what is left at the end is written."""
    skip_grown: bool = False
    """Whether what was added to a file after it was read is left out; otherwise such a file ends the query."""

    @property
    def partitions(self) -> int:
        """How many read the folder."""
        return 1 if self.read.needs_one_reader else self.read.partitions or 1

    @staticmethod
    def parse(options: Mapping[str, Any]) -> StreamSettings:
        """The settings that options ask for. Raises `SettingsError`."""
        given = {name.lower(): str(value) for name, value in options.items()}
        read = ReadSettings.parse(options, also=STREAM_OPTIONS)
        if read.lookup != ANY_NAME:
            raise SettingsError(
                "options recursiveFileLookup, pathGlobFilter and basePath: a stream reads one folder; name a pattern "
                'of files, load("/captures/*/eth0-*.pcapng")'
            )
        if read.per_file:
            raise SettingsError("option capture: the files of a stream are one capture; read them with spark.read")
        paths = given_paths(options)
        if not given.get("statelocation"):
            raise SettingsError(
                "option stateLocation is missing: name a folder of your own for what a query keeps from batch to batch"
            )
        return StreamSettings(
            read,
            local_path(paths[0], instead=MOUNTED),
            os.path.abspath(local_path(given["statelocation"], instead=MOUNTED)),
            _number(given, "maxFilesPerTrigger", FILES_A_BATCH, least=1),
            _number(given, "growing", 1, least=0),
            _truth(given, "finish"),
            _truth(given, "skipGrown"),
        )


STREAM_OPTIONS = ("stateLocation", "maxFilesPerTrigger", "growing", "finish", "skipGrown")


def are_of_a_stream(options: Mapping[str, Any]) -> bool:
    """Whether options have one that only a stream has; `stateLocation` each of them has."""
    return not {name.lower() for name in STREAM_OPTIONS}.isdisjoint(map(str.lower, options))


def _number(given: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    text = given.get(name.lower(), str(default))
    if re.fullmatch("[0-9]{1,9}", text) is None or int(text) < least:
        raise SettingsError(f"option {name}: {text!r} is no number of files; give {least} or more")
    return int(text)


def _truth(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name.lower(), "false").lower()
    if text not in ("true", "false"):
        raise SettingsError(f"option {name}: {text!r} is neither true nor false")
    return text == "true"
