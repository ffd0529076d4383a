"""A capture starts with the rights that it needs, continues without them, and its files belong to the user."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.capture.capturing import contents, ethernet, send, started, wait_for
from tests.live.capture.namespaces import ROOT, VETH, in_namespace, unshare
from tests.live.capture.test_privileges import NOBODY, as_root
from zmtpscope.live.capture.session import CaptureRefused

CAPTURE = """
import os, sys
from tests.live.capture.capturing import ethernet, send, started, wait_for
from zmtpscope.live.capture.session import CaptureRefused
try:
    with started(interfaces=("vb",), engine=sys.argv[1], write_to=sys.argv[2]) as session:
        send("va", [ethernet(1)])
        wait_for(session, lambda status: status.packets)
        print(session.status.engine)
except CaptureRefused as refused:
    print(refused)
"""


def effective(process: int) -> tuple[set[int], set[int]]:
    """The user ids of a process, and its effective capabilities as a number."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    words = {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}
    return {int(word) for word in words["Uid"]}, {int(words["CapEff"][0], 16), int(words["CapPrm"][0], 16)}


@as_root
@pytest.mark.parametrize("way", ["--user", "sudo"])
@in_namespace(*VETH)
def test_root_opens_the_sockets_and_the_user_writes_the_file(way: str, tmp_path: Path) -> None:
    tmp_path.parent.chmod(0o755)
    folder = tmp_path / "of the user"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    subprocess.run(["mount", "--bind", str(folder), "/mnt"], check=True)  # the path to it is for root only
    user = {"user": "nobody"} if way == "--user" else {}
    if not user:
        os.environ |= {"SUDO_UID": str(NOBODY), "SUDO_GID": str(NOBODY)}
    with started(interfaces=("vb",), write_to="/mnt/f", **user) as session:
        assert session._process is not None
        assert effective(session._process.pid) == ({NOBODY}, {0})
        send("va", [ethernet(1)])
        wait_for(session, lambda status: status.packets)
    about = os.stat("/mnt/f")
    assert (about.st_uid, about.st_mode & 0o777) == (NOBODY, 0o600)
    assert ethernet(1) in contents("/mnt/f").octets
    with pytest.raises(CaptureRefused, match="Permission denied"), started(write_to="/f", **user):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["ring", "socket"])
@pytest.mark.parametrize(("rights", "answer"), [("-all,+net_raw", ""), ("-all", "capture needs CAP_NET_RAW")])
def test_cap_net_raw_alone_is_enough(rights: str, answer: str, engine: str, tmp_path: Path) -> None:
    """All other rights of root are removed; another user could not read every Python."""
    with_rights = ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}"]
    command = shlex.join([*with_rights, sys.executable, "-c", CAPTURE, engine, f"{tmp_path}/f"])
    script = "\n".join(["set -e", *VETH, command])
    done = subprocess.run([*unshare(), "sh", "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.startswith(answer or engine), done.stderr
