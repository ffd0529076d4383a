"""Write the bodies of a conversation to files: one per message in a folder, or all joined in one file.

A separate index has a JSON line for each message, with its sender and the sizes of its frames.
"""

from __future__ import annotations

import os
import secrets
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from zmtpscope.export.files import OutputFile

INDEX = "index.jsonl"
ABOUT = (
    "conn",
    "side",
    "packet",
    "ts_ns",
    "src_ip",
    "src_port",
    "dst_ip",
    "dst_port",
    "topic",
    "complete",
    "bodies_kept",
)
MAX_FILES = 1_000_000
"""Files; for more messages users need a joined file."""

Values = dict[str, Any]


class TooManyFiles(Exception):
    """Error: the conversation has more than `MAX_FILES` messages."""


class BodyFiles(ABC):
    def written(self, records: Iterable[tuple[Values, bool]]) -> Iterator[tuple[Values, bool]]:
        """Write the bodies of the messages among `records`, and yield all records unchanged."""
        for values, is_told in records:
            if is_told and values["record"] == "message" and values["kind"] != "encrypted":
                self._write(values)
            yield values, is_told

    @abstractmethod
    def _write(self, values: Values) -> None: ...

    @abstractmethod
    def commit(self) -> None:
        """Move the finished files to their final names."""

    @abstractmethod
    def discard(self) -> None:
        """Remove files that were not committed."""


class JoinedBodies(BodyFiles):
    """Writes all bodies into one file, with the index `FILE.index.jsonl`."""

    def __init__(self, target: Path) -> None:
        self._files = [OutputFile(target), OutputFile(target.with_name(f"{target.name}.{INDEX}"))]
        try:
            for file in self._files:
                file.open()
        except OSError:
            self.discard()
            raise

    def _write(self, values: Values) -> None:
        bodies, index = self._files
        index.write(_line(values, {"offset": bodies.octets}))
        for body in values["bodies"] or ():
            bodies.write(body)

    def commit(self) -> None:
        for file in self._files:
            file.finish()
        for file in self._files:
            file.commit()

    def discard(self) -> None:
        for file in self._files:
            file.discard()


class BodyFolder(BodyFiles):
    """Writes one file per message into a new or empty folder, with the index `index.jsonl`."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self._folder = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
        self._count = 0
        os.mkdir(self._folder, 0o700)
        self._index: BinaryIO = open(self._folder / INDEX, "wb")  # noqa: SIM115

    def _write(self, values: Values) -> None:
        self._count += 1
        if self._count > MAX_FILES:
            raise TooManyFiles(
                f"more than {MAX_FILES:,} messages: name a single file, which receives all of them joined"
            )
        name = f"{self._count:07}-c{values['conn'] or 0}-{values['side'] or 0}.bin"
        with open(self._folder / name, "wb") as file:
            file.writelines(values["bodies"] or ())
        self._index.write(_line(values, {"file": name}))

    def commit(self) -> None:
        self._index.close()
        umask = os.umask(0o077)
        os.umask(umask)
        os.chmod(self._folder, 0o777 & ~umask)
        os.rename(self._folder, self.target)  # target is absent or an empty folder

    def discard(self) -> None:
        self._index.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def open_body_files(target: Path, *, is_folder: bool, force: bool) -> BodyFiles:
    """Return the writer for bodies to a file or a folder.

    Raises `FileExistsError` if the folder is not empty, or the file exists and `force` is false.
    """
    if is_folder:
        if target.exists() and any(target.iterdir()):
            raise FileExistsError(f"{target}: folder is not empty; name a new one")
        return BodyFolder(target)
    if target.exists() and not force:
        raise FileExistsError(f"{target} exists; use --force to overwrite it")
    return JoinedBodies(target)


def _line(values: Values, where: dict[str, Any]) -> bytes:
    kept = [len(body) for body in values["bodies"] or ()]
    about = {name: values.get(name) for name in ABOUT}
    return orjson.dumps({**where, **about, "sizes": values["sizes"], "kept": kept}, option=orjson.OPT_APPEND_NEWLINE)
