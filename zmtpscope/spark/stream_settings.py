"""Options of a stream of captures, in addition to the options of a read."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zmtpscope.spark.paths import ANY_NAME, given_paths, local_path
from zmtpscope.spark.settings import ReadSettings, SettingsError

FILES_A_BATCH = 100
MOUNTED = "a stream needs paths that the driver and all workers mount"


@dataclass(frozen=True, slots=True)
class StreamSettings:
    read: ReadSettings
    path: str
    """A folder, or a pattern of files."""
    state_location: str
    """Folder that driver and workers share."""
    most_files: int = FILES_A_BATCH
    growing: int = 1
    """Number of files written at a time; as many of the newest are left alone."""
    finish: bool = False
    """Whether the capture has ended: all files are complete, and the rest is written at the end."""
    skip_grown: bool = False
    """Whether to ignore data added to a file after it was read; otherwise such a file fails the query."""

    @property
    def partitions(self) -> int:
        return 1 if self.read.needs_one_reader else self.read.partitions or 1

    @staticmethod
    def parse(options: Mapping[str, Any]) -> StreamSettings:
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
                "option stateLocation is missing: name a folder of your own for the state of the query between batches"
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
    """Whether any of the options is only for streams. Each stream must have `stateLocation`."""
    return not {name.lower() for name in STREAM_OPTIONS}.isdisjoint(map(str.lower, options))


def _number(given: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    text = given.get(name.lower(), str(default))
    if re.fullmatch("[0-9]{1,9}", text) is None or int(text) < least:
        raise SettingsError(f"option {name}: {text!r} is not a number of files; use {least} or more")
    return int(text)


def _truth(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name.lower(), "false").lower()
    if text not in ("true", "false"):
        raise SettingsError(f"option {name}: {text!r} is neither true nor false")
    return text == "true"
