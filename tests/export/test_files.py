"""Files that are complete or absent."""

from __future__ import annotations

import errno
import os
import pathlib
import stat
from collections.abc import Iterator

import pytest

from zmtpscope.export.files import OutputFile


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def mode(path: pathlib.Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_nothing_is_at_the_place_before_the_end(tmp_path: pathlib.Path, umask: None) -> None:
    target = tmp_path / "messages.csv"
    file = OutputFile(target)
    file.open()
    file.write(b"secret")
    [beside] = tmp_path.iterdir()
    assert beside.name.startswith(".messages.csv.")
    assert mode(beside) == 0o600
    file.finish()
    file.commit()
    assert list(tmp_path.iterdir()) == [target]
    assert (target.read_bytes(), file.octets, mode(target)) == (b"secret", 6, 0o640)
    file.discard()
    assert target.exists()


def test_a_discarded_file_leaves_the_existing_one(tmp_path: pathlib.Path) -> None:
    target = tmp_path / "messages.csv"
    target.write_bytes(b"old")
    file = OutputFile(target)
    file.open()
    file.write(b"new")
    file.discard()
    file.write(b"more of it")
    assert list(tmp_path.iterdir()) == [target]
    assert target.read_bytes() == b"old"


def test_errors_name_the_file_that_was_wanted(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        OutputFile(tmp_path / "nowhere" / "messages.csv").open()
    assert missing.value.filename == str(tmp_path / "nowhere" / "messages.csv")
    (tmp_path / "gaps.csv").mkdir()
    file = OutputFile(tmp_path / "gaps.csv")
    file.open()
    file.finish()
    with pytest.raises(OSError, match=r"gaps\.csv") as taken:
        file.commit()
    assert taken.value.errno in (errno.EISDIR, errno.ENOTEMPTY, errno.EEXIST)
    file.discard()
    assert [path.name for path in tmp_path.iterdir()] == ["gaps.csv"]
