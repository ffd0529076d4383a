"""Enters a network namespace, such as a container's (setns(2), ip-netns(8))."""

from __future__ import annotations

import ctypes
import difflib
import errno
import os
import sys

NAMED = "/run/netns"
"""The folder of namespaces created by `ip netns add NAME`."""
CLONE_NEWNET = 0x40000000  # <linux/sched.h>


class NamespaceError(Exception):
    """A network namespace cannot be entered; the text is the reason."""


def enter(namespace: str) -> None:
    """Move this thread into a network namespace: a name, a process id, or an absolute path (/proc/PID/ns/net).

    Names take precedence over ids. Needs CAP_SYS_ADMIN, and access to the other user's process for its id. Raises
    `NamespaceError`.
    """
    if sys.platform != "linux":
        raise NamespaceError(f"network namespaces exist only on Linux, and this is {sys.platform}")
    path = _path(namespace)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _set_namespace(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise NamespaceError(_why(namespace, path, error)) from None


def _path(namespace: str) -> str:
    if os.path.isabs(namespace):
        return namespace
    try:
        names = sorted(os.listdir(NAMED))
    except OSError:  # none has been created yet
        names = []
    if namespace in names:
        return os.path.join(NAMED, namespace)
    if namespace.isascii() and namespace.isdecimal():
        return f"/proc/{namespace}/ns/net"
    nearest = difflib.get_close_matches(namespace, names, 1)
    meant = f"did you mean {nearest[0]}? " if nearest else ""
    there = f"use one of {', '.join(names)}" if names else "none has a name"
    raise NamespaceError(
        f"no network namespace named {namespace}: {meant}{there} (ip netns); for a container use the id "
        "of a process in it"
    )


def _set_namespace(descriptor: int) -> None:
    if sys.version_info >= (3, 12):
        os.setns(descriptor, CLONE_NEWNET)
    else:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(descriptor, CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def _why(namespace: str, path: str, error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return f"no network namespace {path}" if path == namespace else f"no process {namespace}"
    if error.errno in (errno.EPERM, errno.EACCES):
        return f"cannot enter network namespace {namespace}: this needs root (CAP_SYS_ADMIN)"
    if error.errno == errno.EINVAL:
        return f"{path} is not a network namespace"
    return f"cannot enter network namespace {namespace}: {error.strerror}"
