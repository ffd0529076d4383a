"""The privileges that capturing needs on Linux (capabilities(7)): how to get them, and how to drop them.

A running capture needs none, so a process that root started continues as the user who ran sudo.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

CAP_NET_RAW, CAP_SYS_ADMIN = 13, 21
NAMES = {CAP_NET_RAW: "CAP_NET_RAW", CAP_SYS_ADMIN: "CAP_SYS_ADMIN"}

FOLLOWING = {"top": "top --follow", "tui": "tui --follow"}
"""Commands that need another option to read a capture from a pipe; others need only `-`."""
CAPABILITY_VERSION_3 = 0x20080522  # <linux/capability.h>


class MissingRights(NamedTuple):
    """The reason why this process cannot capture, and shell commands that help, each with its effect."""

    sentence: str
    ways: tuple[tuple[str, str], ...]


class User(NamedTuple):
    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]


class UnknownUser(Exception):
    """The user does not exist, or only root can switch to it; the text is the reason."""


class RightsKept(Exception):
    """Privileges could not be dropped, so the process must end. The text is the reason."""


def missing_rights(
    command: Sequence[str], interface: str, *, namespace: str | None = None, filter_text: str = ""
) -> MissingRights | None:
    """Return the privileges that this process lacks; None if it lacks none, or if the system has no packet sockets.

    `command` is the command line with the program, for the hints; `interface`, `namespace` and `filter_text` are its
    arguments.
    """
    if not hasattr(socket, "AF_PACKET"):
        return None
    needed = [CAP_NET_RAW, *([] if namespace is None else [CAP_SYS_ADMIN])]
    missing = [NAMES[each] for each in needed if not _effective_capabilities() >> each & 1]
    if not missing and (namespace is not None or _may_open_a_packet_socket()):
        return None
    what = " and ".join(missing)
    program, *arguments = command
    subcommand = arguments[0] if arguments else "live"
    if not missing:
        return MissingRights(
            "the kernel refuses packet sockets, though this process has CAP_NET_RAW: its network belongs to another "
            "user namespace, or a policy forbids them (seccomp, SELinux, AppArmor)",
            (),
        )
    if os.geteuid() == 0:
        options = " ".join(f"--cap-add {each.removeprefix('CAP_')}" for each in missing)
        return MissingRights(
            f"capture needs {what}, which root does not have here: the container was probably started without it",
            (
                (f"docker run {options} ...", "starts the container with this capability"),
                (
                    f"sudo zmtpscope {subcommand} --netns PID",
                    "on the host captures without changes; PID is a process in the container",
                ),
            ),
        )
    path, name = os.path.abspath(shutil.which(program) or program), os.path.basename(program)
    # sudo has its own PATH, so the program's full path is needed
    ways = [(shlex.join(["sudo", path, *arguments]), "root opens the sockets, then continues as your user")]
    if namespace is None:
        setcap = f"sudo setcap cap_net_raw+eip {shlex.quote(os.path.realpath(sys.executable))}"
        ways.append(
            (setcap, "once; every user who can run this Python can then capture and forge packets with any program")
        )
    tcpdump = [*_in_namespace(namespace), "tcpdump", "-U", "-w", "-", "-i", interface]
    reader = shlex.quote(name if shutil.which(name) == path else path)
    filter_words = [filter_text] if filter_text else []
    follow = FOLLOWING.get(subcommand, subcommand)
    ways.append((f"{shlex.join(['sudo', *tcpdump, *filter_words])} | {reader} {follow} -", "only tcpdump runs as root"))
    return MissingRights(f"capture needs {what}, which this user does not have", tuple(ways))


def _in_namespace(namespace: str | None) -> list[str]:
    if namespace is None:
        return []
    if os.path.isabs(namespace):
        return ["nsenter", f"--net={namespace}"]
    return ["nsenter", "-n", "-t", namespace] if namespace.isdecimal() else ["ip", "netns", "exec", namespace]


def _may_open_a_packet_socket() -> bool:
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()  # protocol 0: receives no packets
    except PermissionError:
        return False
    return True


def _effective_capabilities() -> int:
    """Return the effective capabilities of this process as bits; all bits are set if /proc is missing."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            return next((int(line.split()[1], 16) for line in file if line.startswith("CapEff:")), -1)
    except OSError:
        return -1


def invoking_user(name: str | None, environment: Mapping[str, str]) -> User | None:
    """Return the user to which root should switch: `name`, or else the user who ran sudo. None: do not switch.

    Raises `UnknownUser`.
    """
    if sys.platform == "win32":
        return None
    if name is not None:
        user = _user_named(name)
        if os.geteuid() not in (0, user.uid):
            raise UnknownUser(f"only root can switch to user {name}: leave out --user, or use sudo")
        return user
    if os.geteuid() != 0:
        return None
    uid, gid = environment.get("SUDO_UID", ""), environment.get("SUDO_GID", "")
    if not (uid.isascii() and uid.isdecimal() and gid.isascii() and gid.isdecimal()) or not int(uid):
        return None
    return _user_numbered(int(uid), int(gid))


def _user_named(name: str) -> User:
    import pwd

    try:
        entry = pwd.getpwnam(name)
    except (KeyError, ValueError):
        raise UnknownUser(f"no user named {name} on this machine") from None
    return User(name, entry.pw_uid, entry.pw_gid, tuple(os.getgrouplist(name, entry.pw_gid)))


def _user_numbered(uid: int, gid: int) -> User:
    import pwd

    try:
        name = pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):  # a user of a directory service that is not available here
        return User(str(uid), uid, gid, (gid,))
    return User(name, uid, gid, tuple(os.getgrouplist(name, gid)))


def become(user: User | None) -> None:
    """Drop root and all capabilities permanently, and continue as `user`, or as the current user if None.

    Without a user root keeps its capabilities. The process must have one thread, its sockets open, and must not have
    read from them. Raises `RightsKept`.
    """
    if sys.platform == "win32":
        return
    if user is not None and os.geteuid() == 0:
        try:
            os.setgroups(user.groups)
            os.setgid(user.gid)  # for root these two set the real, effective and saved id
            os.setuid(user.uid)
        except (OSError, OverflowError) as error:
            why = error.strerror if isinstance(error, OSError) else "no such id"
            raise RightsKept(f"cannot switch to user {user.name}: {why}") from None
    uid = os.geteuid()
    if uid == 0 and (user is None or user.uid == 0):
        return
    if sys.platform == "linux":
        _clear_capabilities()
        given_up = os.getresuid() == (uid,) * 3 and os.getresgid() == (os.getegid(),) * 3
    else:
        given_up = os.getuid() == uid and os.getgid() == os.getegid()
    if user is not None:
        given_up = (
            given_up and (uid, os.getegid()) == (user.uid, user.gid) and {*os.getgroups()} <= {*user.groups, user.gid}
        )
    if not given_up or _may_become_root():
        raise RightsKept("privileges were dropped, but the system still grants them")


def _may_become_root() -> bool:
    try:
        os.setuid(0)
    except PermissionError:
        return False
    return True


def _clear_capabilities() -> None:
    """Remove all capabilities of this thread, inheritable ones too, and check that none are left."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, the lower 32 bits and then the upper
    if libc.capset(header, sets):
        raise RightsKept(f"cannot drop capabilities: {os.strerror(ctypes.get_errno())}")
    if libc.capget(header, sets) or any(sets):
        raise RightsKept("capabilities were dropped, but are still present")
