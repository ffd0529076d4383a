"""The stored states of a stream are complete, private, and no larger than needed."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from zmtpscope.spark.capture_folder import BatchFile, Capture, MicroBatch
from zmtpscope.spark.settings import SettingsError
from zmtpscope.spark.state_folder import StateFolder

BATCH = MicroBatch(
    number=1,
    partitions=2,
    files=[BatchFile(0, "/captures/ä b", 7)],
    files_so_far=1,
    until=1 << 60,
    seen={"/captures/ä b": Capture("/captures/ä b.gz", 100, 1 << 60, 7)},
)


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    made = StateFolder(str(tmp_path / "states"), "stream")
    made.create()
    return made


def names(folder: StateFolder) -> set[str]:
    return set(os.listdir(folder.path))


def test_a_micro_batch_is_read_as_it_was_written(folder: StateFolder) -> None:
    folder.write_batch(BATCH)
    assert folder.batch(1) == BATCH
    assert folder.batch(0) == MicroBatch()
    with pytest.raises(SettingsError, match="stream does not have batch 2, where the checkpoint goes on -> give"):
        folder.batch(2)


def test_the_latest_state_counts_that_is_no_later_than_asked_for(folder: StateFolder) -> None:
    assert folder.state(9, 0) == (0, None)
    for batch in (2, 10, 11):
        folder.write_state(batch, 0, str(batch).encode())
    folder.write_state(3, 1, b"of another partition")
    assert folder.state(1, 0) == (0, None)
    assert folder.state(9, 0) == (2, b"2")
    assert folder.state(10, 0) == (10, b"10")


def test_no_other_user_can_read_the_state(folder: StateFolder, tmp_path: Path) -> None:
    folder.write_batch(BATCH)
    folder.write_state(1, 0, b"state")
    assert {path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_file()} == {0o600}


@pytest.mark.parametrize("name", ["..", "."])
def test_a_folder_that_others_may_write_to_is_refused(folder: StateFolder, name: str) -> None:
    os.chmod(os.path.join(folder.path, name), 0o770)
    with pytest.raises(SettingsError, match=r"option stateLocation: other users can write to .*, and a state"):
        folder.create()


def test_a_state_that_others_may_have_written_is_refused(folder: StateFolder) -> None:
    folder.write_state(1, 0, b"state")
    os.chmod(os.path.join(folder.path, "1-0.state"), 0o602)
    with pytest.raises(SettingsError, match=r"other users can write to .*1-0.state"):
        folder.state(1, 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_what_belongs_to_another_user_is_refused(folder: StateFolder) -> None:
    folder.write_state(1, 0, b"state")
    os.chown(os.path.join(folder.path, "1-0.state"), 12345, -1)
    with pytest.raises(SettingsError, match=r"1-0.state belongs to another user, and a state"):
        folder.state(1, 0)
    os.chown(folder.path, 12345, -1)
    with pytest.raises(SettingsError, match="stream belongs to another user"):
        folder.create()


def test_a_link_is_not_followed(folder: StateFolder, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"state")
    os.symlink(tmp_path / "elsewhere", os.path.join(folder.path, "1-0.state"))
    with pytest.raises(SettingsError, match="Too many levels of symbolic links"):
        folder.state(1, 0)


def test_a_state_is_whole_or_not_there(folder: StateFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    folder.write_state(1, 0, b"one")
    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(SettingsError, match="stream: No space left on device -> use a folder that"):
        folder.write_state(1, 0, b"two")
    assert names(folder) == {"1-0.state"}
    assert folder.state(1, 0) == (1, b"one")


def test_states_that_are_not_needed_are_removed(folder: StateFolder) -> None:
    for batch in (1, 2, 3):
        folder.write_batch(replace(BATCH, number=batch))
        for number in (0, 1):
            folder.write_state(batch, number, b"")
    Path(folder.path, ".1-0.state.abc.part").touch()
    folder.forget(replace(BATCH, number=2))
    assert names(folder) == {"2.json", "2-0.state", "2-1.state", "3.json", "3-0.state", "3-1.state"}


def test_micro_batches_are_kept_behind_the_last_state_that_is_there(folder: StateFolder) -> None:
    """Nothing read partition 1 to its end: its state is made again from batch 2 on."""
    for batch in (1, 2, 3):
        folder.write_batch(replace(BATCH, number=batch))
        folder.write_state(batch, 0, b"")
    folder.write_state(1, 1, b"")
    folder.forget(replace(BATCH, number=3))
    assert names(folder) == {"2.json", "3.json", "3-0.state", "1-1.state"}


def test_behind_the_end_no_state_is_left(folder: StateFolder) -> None:
    folder.write_state(1, 0, b"")
    folder.write_batch(replace(BATCH, number=2, is_last=True))
    folder.forget(replace(BATCH, number=2, is_last=True))
    assert names(folder) == {"2.json"}
