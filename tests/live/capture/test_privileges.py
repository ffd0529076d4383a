"""The rights to capture, errors without them, and that nothing of root remains."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.live.capture.namespaces import ROOT
from zmtpscope.live.capture.privileges import UnknownUser, User, become, invoking_user, missing_rights

NOBODY = 65534

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="capabilities are a thing of Linux")
as_root = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root can give rights up: run the tests with sudo"
)

MISSING = """
import sys
from zmtpscope.live.capture.privileges import missing_rights
namespace = sys.argv[1] if sys.argv[1:] else None
command = sys.argv[2] if sys.argv[2:] else "live"
missing = missing_rights(
    ["/opt/bin/zmtpscope", command, "-i", "eth0"], "eth0", namespace=namespace, filter_text="port 80"
)
print(missing and missing.sentence)
for command, meaning in missing.ways if missing else ():
    print(command, meaning, sep=" | ")
"""

BECOME = """
import os, socket
from zmtpscope.live.capture.privileges import become, invoking_user
packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
become(invoking_user(NAME, os.environ))
print(*os.getresuid(), *os.getresgid(), *os.getgroups())
print(*(line.split()[1] for line in open("/proc/self/status") if line.startswith("Cap") and "Bnd" not in line))
try:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
except PermissionError:
    print("no new sockets")
packets.setblocking(False)
try:
    packets.recv(1)
except BlockingIOError:
    print("the old one works")
"""


def run(program: str, *rights: str, arguments: tuple[str, ...] = (), **environment: str) -> list[str]:
    """The lines that a Python program prints with other rights, which options of setpriv(1) name."""
    command = [shutil.which("setpriv") or "setpriv", *rights] if rights else []
    done = subprocess.run(
        [*command, sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


as_nobody = (f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
with_net_raw = ("--inh-caps=-all,+net_raw", "--ambient-caps=-all,+net_raw")


@functools.cache
def readable_by_nobody() -> None:
    """Skip where others than root cannot read this Python and these sources."""
    done = subprocess.run(["setpriv", *as_nobody, sys.executable, "-c", "import zmtpscope"], cwd=ROOT)
    if done.returncode:
        pytest.skip("the user nobody cannot read the sources")


@as_root
def test_root_and_cap_net_raw_alone_may_capture() -> None:
    assert run(MISSING) == ["None"]
    readable_by_nobody()
    assert run(MISSING, *as_nobody, *with_net_raw) == ["None"]


@as_root
def test_a_user_who_may_not_capture_gets_the_commands_to_type() -> None:
    readable_by_nobody()
    sentence, sudo, setcap, tcpdump = run(MISSING, *as_nobody)
    assert sentence == "capture needs CAP_NET_RAW, which this user does not have"
    assert sudo.startswith("sudo /opt/bin/zmtpscope live -i eth0 | ")
    assert re.match(r"sudo setcap cap_net_raw\+eip /\S+/python\S* \| once;", setcap)  # the target of a link
    assert tcpdump.startswith("sudo tcpdump -U -w - -i eth0 'port 80' | /opt/bin/zmtpscope live - | ")


@as_root
def test_another_network_namespace_needs_more() -> None:
    readable_by_nobody()
    for namespace, enters in (
        ("lab", "ip netns exec lab"),
        ("4711", "nsenter -n -t 4711"),
        ("/run/netns/lab", "nsenter --net=/run/netns/lab"),
    ):
        sentence, sudo, tcpdump = run(MISSING, *as_nobody, *with_net_raw, arguments=(namespace,))
        assert sentence == "capture needs CAP_SYS_ADMIN, which this user does not have"
        assert sudo.startswith("sudo /opt/bin/zmtpscope live -i eth0 | ")
        assert tcpdump.startswith(f"sudo {enters} tcpdump -U -w - -i eth0 'port 80' | /opt/bin/zmtpscope live - | ")
        assert run(MISSING, arguments=(namespace,)) == ["None"]


@as_root
@pytest.mark.parametrize("command", ["top", "tui"])
def test_the_commands_to_type_have_the_options_of_the_command(command: str) -> None:
    readable_by_nobody()
    _, sudo, tcpdump = run(MISSING, *as_nobody, *with_net_raw, arguments=("lab", command))
    assert sudo.startswith(f"sudo /opt/bin/zmtpscope {command} -i eth0 | ")
    assert f" 'port 80' | /opt/bin/zmtpscope {command} --follow - | " in tcpdump


@as_root
def test_root_of_a_container_without_the_capability_is_not_sent_to_sudo() -> None:
    lines = run(MISSING, "--bounding-set=-net_raw")
    assert "container" in lines[0]
    assert lines[1].startswith("docker run --cap-add NET_RAW ... | ")
    assert "--netns PID" in lines[2]


@as_root
def test_root_becomes_the_user_of_sudo_and_keeps_only_the_socket() -> None:
    lines = run(BECOME.replace("NAME", "None"), SUDO_UID=str(NOBODY), SUDO_GID=str(NOBODY))
    assert lines == [" ".join([str(NOBODY)] * 7), " ".join(["0" * 16] * 4), "no new sockets", "the old one works"]


@as_root
def test_root_becomes_the_user_that_is_named_not_the_one_of_sudo() -> None:
    lines = run(BECOME.replace("NAME", "'nobody'"), SUDO_UID="12345", SUDO_GID="12345")
    assert lines[0].split()[:6] == [str(NOBODY)] * 6


@as_root
def test_a_user_without_an_entry_has_the_group_of_sudo_alone() -> None:
    assert run(BECOME.replace("NAME", "None"), SUDO_UID="54321", SUDO_GID="54322")[0] == (
        "54321 54321 54321 54322 54322 54322 54322"
    )


@as_root
def test_capabilities_of_other_users_than_root_are_given_up_too() -> None:
    readable_by_nobody()
    lines = run(BECOME.replace("NAME", "None"), *as_nobody, *with_net_raw)
    assert lines[1:] == [" ".join(["0" * 16] * 4), "no new sockets", "the old one works"]


@as_root
def test_root_that_cannot_change_its_user_goes_no_further() -> None:
    program = """
from zmtpscope.live.capture.privileges import RightsKept, User, become
try:
    become(User("nobody", 65534, 65534, (65534,)))
except RightsKept as error:
    print(error)
"""
    assert run(program, "--bounding-set=-setuid") == ["cannot switch to user nobody: Operation not permitted"]
    assert run(program, "--bounding-set=-setgid") == ["cannot switch to user nobody: Operation not permitted"]


@as_root
@pytest.mark.parametrize("environment", [{}, {"SUDO_UID": "0", "SUDO_GID": "0"}, {"SUDO_UID": "²", "SUDO_GID": "1"}])
def test_root_stays_root_without_sudo(environment: dict[str, str]) -> None:
    assert invoking_user(None, environment) is None
    become(None)
    assert os.geteuid() == 0


def test_a_user_that_is_none_is_named() -> None:
    with pytest.raises(UnknownUser, match="no user named nosuchuser on this machine"):
        invoking_user("nosuchuser", {})


def test_only_root_becomes_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 4321)
    with pytest.raises(UnknownUser, match="only root can switch to user root"):
        invoking_user("root", {})
    assert invoking_user(None, {"SUDO_UID": "1", "SUDO_GID": "1"}) is None


@as_root
def test_the_user_of_this_process_keeps_its_groups() -> None:
    root = invoking_user("root", {})
    assert isinstance(root, User)
    assert (root.uid, root.gid) == (0, 0)
    assert missing_rights(["zmtpscope"], "lo") is None
