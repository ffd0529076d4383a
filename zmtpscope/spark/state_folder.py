"""The folder in which a streaming query keeps what it needs from one micro-batch to the next: what each has taken, and
the state of each partition behind it.

Files are named by what they are of: what micro-batch 12 takes is in `12.json`, the state of partition 3 behind it in
`12-3.state`. So one that is done again begins with the same state, and what it writes takes the place of what it wrote
before. A file is whole or not there. A state is a pickle, and whoever can write one runs programs as we do: so files
and folder must belong to us, and nobody else may be able to write there.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import tempfile
from contextlib import suppress
from dataclasses import asdict

from zmtpscope.ownership import Exposed, exposed
from zmtpscope.spark.capture_folder import BatchFile, Capture, MicroBatch
from zmtpscope.spark.errors import SettingsError

BATCH = re.compile(r"(\d+)\.json")
STATE = re.compile(r"(\d+)-(\d+)\.state")
UNFINISHED = re.compile(r"\.(\d+)\b.*\.part")


class StateFolder:
    """What a query keeps below `location`, where each has a folder of its own, named by `query`."""

    def __init__(self, location: str, query: str) -> None:
        self.path = os.path.join(location, query)

    def create(self) -> None:
        """Make it, for nobody else to read. Raises `SettingsError`."""
        location = os.path.dirname(self.path)
        try:
            os.makedirs(location, mode=0o700, exist_ok=True)
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            for path in (location, self.path):
                _refuse(exposed(path, os.stat(path)))
        except OSError as error:
            raise _failed(self.path, error) from None

    def write_batch(self, batch: MicroBatch) -> None:
        """Keep what a micro-batch takes."""
        self._write(f"{batch.number}.json", json.dumps(asdict(batch)).encode())

    def batch(self, number: int) -> MicroBatch:
        """What a micro-batch takes. Raises `SettingsError` where that was not written here."""
        if number == 0:
            return MicroBatch()
        octets = self._read(f"{number}.json")
        if octets is None:
            raise SettingsError(
                f"option stateLocation: {self.path} does not have batch {number}, where the checkpoint goes on -> give "
                "the folder that the query began with, or begin anew with another checkpointLocation"
            )
        values = json.loads(octets)
        values["files"] = [BatchFile(*each) for each in values["files"]]
        values["seen"] = {name: Capture(*each) for name, each in values["seen"].items()}
        return MicroBatch(**values)

    def write_state(self, number: int, partition: int, state: bytes) -> None:
        """Keep the state of a partition behind a micro-batch."""
        self._write(f"{number}-{partition}.state", state)

    def state(self, number: int, partition: int) -> tuple[int, bytes | None]:
        """The latest state of a partition that is behind micro-batch `number` or one before, and behind which one it
        is; behind number 0 there is none."""
        kept = [behind for behind, each in self._states() if each == partition and behind <= number]
        for behind in sorted(kept, reverse=True):
            if (state := self._read(f"{behind}-{partition}.state")) is not None:
                return behind, state
        return 0, None

    def forget(self, batch: MicroBatch) -> None:
        """Remove what is needed no more once a micro-batch is done: of each partition states in front of the latest
        one, and what was taken up to there. Behind the last micro-batch no state is needed."""
        states = self._states()
        latest = [0] * batch.partitions
        for behind, partition in states:
            if behind <= batch.number:
                latest[partition] = max(latest[partition], behind)
        if batch.is_last:
            latest = [batch.number + 1] * batch.partitions
        old = [f"{behind}-{partition}.state" for behind, partition in states if behind < latest[partition]]
        for name in self._names():
            match = BATCH.fullmatch(name) or UNFINISHED.fullmatch(name)
            if match and int(match[1]) < batch.number and (match.re is UNFINISHED or int(match[1]) <= min(latest)):
                old.append(name)
        for name in old:
            with suppress(OSError):
                os.unlink(os.path.join(self.path, name))

    def _states(self) -> list[tuple[int, int]]:
        """Micro-batch and partition of each state."""
        return [(int(match[1]), int(match[2])) for name in self._names() if (match := STATE.fullmatch(name))]

    def _names(self) -> list[str]:
        try:
            return os.listdir(self.path)
        except OSError as error:
            raise _failed(self.path, error) from None

    def _write(self, name: str, octets: bytes) -> None:
        try:
            with tempfile.NamedTemporaryFile(dir=self.path, prefix=f".{name}.", suffix=".part", delete=False) as file:
                try:
                    file.write(octets)
                    file.flush()
                    os.fsync(file.fileno())
                    os.replace(file.name, os.path.join(self.path, name))
                except BaseException:
                    os.unlink(file.name)
                    raise
        except OSError as error:
            raise _failed(self.path, error) from None

    def _read(self, name: str) -> bytes | None:
        path = os.path.join(self.path, name)
        try:
            with open(path, "rb", opener=_open_no_link) as file:
                _refuse(exposed(path, os.fstat(file.fileno())))
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _failed(path, error) from None


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _refuse(found: Exposed | None) -> None:
    if found is None:
        return
    if found.is_of_another:
        raise SettingsError(
            f"option stateLocation: {found.path} belongs to another user, whose programs a state in it could run -> "
            "give a folder of your own"
        )
    raise SettingsError(
        f"option stateLocation: others than you may write to {found.path}, and a state in it could run their programs "
        f"-> give a folder of your own; if nobody has put anything there, chmod go-w {shlex.quote(found.path)} will do"
    )


def _failed(path: str, error: OSError) -> SettingsError:
    return SettingsError(
        f"option stateLocation: {path}: {error.strerror} -> give a folder that the driver and all workers can write to"
    )
