"""Root continues as a user who cannot read this Python or our sources, since all modules were loaded before."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

from tests.cli.live_runs import bodies, push
from tests.live.capture.namespaces import ROOT, in_namespace
from tests.live.capture.test_privileges import NOBODY, as_root
from zmtpscope.live.capture.loading import may_read
from zmtpscope.live.capture.privileges import User

USER = User("nobody", NOBODY, NOBODY, (NOBODY, 4321))


@as_root
@pytest.mark.parametrize(
    ("folder_mode", "file_mode", "owner", "group", "is_readable"),
    [
        (0o755, 0o644, 0, 0, True),
        (0o700, 0o644, 0, 0, False),
        (0o711, 0o644, 0, 0, True),
        (0o755, 0o600, 0, 0, False),
        (0o755, 0o640, 0, 4321, True),
        (0o755, 0o604, 0, 4321, False),
        (0o755, 0o600, NOBODY, 0, True),
        (0o755, 0o044, NOBODY, 0, False),
    ],
)
def test_mode_bits_of_a_file_and_its_folders_decide(
    tmp_path: pathlib.Path, folder_mode: int, file_mode: int, owner: int, group: int, is_readable: bool
) -> None:
    for folder in tmp_path.parents:  # pytest's own directories are private
        if folder.name.startswith(("pytest-", "popen-")):
            folder.chmod(0o755)
    tmp_path.chmod(0o755)
    folder = tmp_path / "folder"
    folder.mkdir()
    file = folder / "file"
    file.touch()
    os.chown(file, owner, group)
    file.chmod(file_mode)
    folder.chmod(folder_mode)
    assert may_read(USER, str(file)) == is_readable
    assert may_read(User("root", 0, 0, (0,)), str(file))


@pytest.mark.slow
@as_root
@pytest.mark.parametrize("form", ["--json", "-q"])
@in_namespace("ip link set lo up")
def test_a_user_without_access_to_the_sources_captures(tmp_path: pathlib.Path, form: str) -> None:
    shutil.copytree(ROOT / "zmtpscope", tmp_path / "zmtpscope")
    tmp_path.chmod(0o700)
    command = [sys.executable, "-m", "zmtpscope", "live", "-i", "lo", form, "--user", "nobody"]
    live = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
        env=os.environ | {"PYTHONPATH": str(tmp_path), "TMPDIR": "/var/tmp"},
    )
    assert live.stderr is not None
    assert live.stderr.readline() == "zmtpscope: capturing on lo; Ctrl-C stops\n"
    sent = push(50)
    live.send_signal(signal.SIGINT)
    out, err = live.communicate()
    assert (live.returncode, err.endswith("packets captured on lo, 0 dropped\n")) == (0, True), err
    if form == "--json":
        assert bodies(out.splitlines()) == sent
    else:
        assert "socket types     PULL: 1, PUSH: 1" in out
