"""Users that can change a file or folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zmtpscope.ownership import Exposed, exposed, exposed_in

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "above" / "folder"
    made.mkdir(parents=True)
    return made


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o1777])
def test_a_file_that_others_may_write_is_exposed(folder: Path, mode: int) -> None:
    assert exposed(folder, folder.stat()) is None
    assert exposed_in(folder) is None
    folder.chmod(mode)
    assert exposed(folder, folder.stat()) == exposed_in(folder) == Exposed(str(folder), is_of_another=False)


def test_a_folder_below_one_that_others_can_write_is_exposed_unless_it_is_sticky(folder: Path) -> None:
    folder.parent.chmod(0o777)
    assert exposed_in(folder) == Exposed(str(folder.parent), is_of_another=False)
    folder.parent.chmod(0o1777)
    assert exposed_in(folder) is None


@needs_root
def test_what_belongs_to_another_user_is_exposed(folder: Path) -> None:
    for each in (folder.parent, folder):
        os.chown(each, 12345, -1)
        each.chmod(0o1777)
        assert exposed_in(folder) == Exposed(str(each), is_of_another=True)
