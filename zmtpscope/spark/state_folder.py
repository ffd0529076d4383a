"""The folder with the state of a streaming query: the input of each micro-batch, and the state of each partition after
it.

A repeated micro-batch starts from the same state and overwrites its earlier output. Files appear only when complete. A
state is a pickle, which can run programs as this user. So files and folder must belong to this user, and no other user
may be able to write to them.
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
from zmtpscope.spark.settings import SettingsError

BATCH = re.compile(r"(\d+)\.json")
STATE = re.compile(r"(\d+)-(\d+)\.state")
UNFINISHED = re.compile(r"\.(\d+)\b.*\.part")


class StateFolder:
    """The folder of one query, named by `query`, below `location`."""

    def __init__(self, location: str, query: str) -> None:
        self.path = os.path.join(location, query)

    def create(self) -> None:
        """Create the folder, readable only by this user. Raises `SettingsError`."""
        location = os.path.dirname(self.path)
        try:
            os.makedirs(location, mode=0o700, exist_ok=True)
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            for path in (location, self.path):
                _refuse(exposed(path, os.stat(path)))
        except OSError as error:
            raise _failed(self.path, error) from None

    def write_batch(self, batch: MicroBatch) -> None:
        self._write(f"{batch.number}.json", json.dumps(asdict(batch)).encode())

    def batch(self, number: int) -> MicroBatch:
        """Return the stored input of a micro-batch. Raises `SettingsError` if this folder does not contain it."""
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
        """Write a partition's state after a micro-batch."""
        self._write(f"{number}-{partition}.state", state)

    def state(self, number: int, partition: int) -> tuple[int, bytes | None]:
        """Return the latest stored state of a partition, after micro-batch `number` or an earlier one, with the number
        of that one.

        After number 0 there is no state (None).
        """
        kept = [behind for behind, each in self._states() if each == partition and behind <= number]
        for behind in sorted(kept, reverse=True):
            if (state := self._read(f"{behind}-{partition}.state")) is not None:
                return behind, state
        return 0, None

    def forget(self, batch: MicroBatch) -> None:
        """Remove data that is not needed after a micro-batch: older states of each partition, and the inputs before
        them. After the last micro-batch no state is needed."""
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
            f"option stateLocation: {found.path} belongs to another user, and a state in it could run that "
            "user's programs -> use a folder of your own"
        )
    raise SettingsError(
        f"option stateLocation: other users can write to {found.path}, and a state in it could run their programs "
        f"-> use a folder of your own, or chmod go-w {shlex.quote(found.path)} if nobody wrote to it"
    )


def _failed(path: str, error: OSError) -> SettingsError:
    return SettingsError(
        f"option stateLocation: {path}: {error.strerror} -> use a folder that the driver and all workers can write to"
    )
