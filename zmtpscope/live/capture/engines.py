"""The capture engines, in the order in which they are tried."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from zmtpscope.live.capture.interfaces import find_interface, interfaces
from zmtpscope.live.capture.namespaces import NamespaceError, enter
from zmtpscope.live.capture.packet_socket import CannotCapture, EngineRefused, PacketSource
from zmtpscope.live.capture.privileges import missing_rights
from zmtpscope.live.capture.ring import RingSocket
from zmtpscope.live.capture.settings import CaptureSettings


def _message_socket(settings: CaptureSettings) -> PacketSource:
    from zmtpscope.live.capture.socket import MessageSocket  # loads numpy, which the ring does not need to open

    return MessageSocket(settings)


SOCKETS: dict[str, Callable[[CaptureSettings], PacketSource]] = {"ring": RingSocket, "socket": _message_socket}
TOOLS = ("dumpcap", "tcpdump")
ON_REQUEST = ("scapy",)
ENGINES = (*SOCKETS, *TOOLS, *ON_REQUEST)


class OpenSource(NamedTuple):
    """An open source of packets: the name of its engine, and the reasons why earlier engines did not work."""

    engine: str
    source: PacketSource
    passed_over: list[str]


def enter_namespace(settings: CaptureSettings) -> None:
    """Move this process into the network namespace of the settings, if they name one. Raises `CannotCapture`."""
    if settings.netns is None:
        return
    try:
        enter(settings.netns)
    except NamespaceError as error:
        raise _without_rights(settings, str(error)) or CannotCapture(str(error)) from None


def with_interface_names(settings: CaptureSettings) -> CaptureSettings:
    """Replace interface numbers by names. Raises `UnknownInterface`."""
    known = interfaces()
    return replace(settings, interfaces=tuple(find_interface(name, known).name for name in settings.interfaces))


def open_source(settings: CaptureSettings) -> OpenSource:
    """Start the requested engine, or the first that works.

    Raises `CannotCapture`, or `UnknownInterface` if an interface was removed meanwhile.
    """
    engines = (*SOCKETS, *TOOLS) if settings.engine is None else (settings.engine,)
    passed_over: list[str] = []
    for name in engines:
        try:
            return OpenSource(name, _open(name, settings), passed_over)
        except EngineRefused as refusal:
            passed_over.append(f"{name}: {refusal}")
    why = "; ".join(passed_over)
    raise _without_rights(settings, why) or CannotCapture(f"cannot capture packets: {why}")


def _open(name: str, settings: CaptureSettings) -> PacketSource:
    if name not in ENGINES:
        raise CannotCapture(f"no engine named {name}", f"use one of {', '.join(ENGINES)}")
    if name not in SOCKETS:
        from zmtpscope.live.capture import tools

        return tools.TOOLS[name](settings)
    if not hasattr(socket, "AF_PACKET"):
        raise EngineRefused("this system has no packet sockets")
    try:
        return SOCKETS[name](settings)
    except PermissionError:
        raise EngineRefused("this user may not open packet sockets") from None
    except OSError as error:  # the kernel has no ring, or no memory for one
        raise EngineRefused(error.strerror or str(error)) from None


def _without_rights(settings: CaptureSettings, why: str) -> CannotCapture | None:
    """Return the error if the process lacks privileges, otherwise None. Its hint has one shell command per line.

    If the user selected an engine, the error contains the reason `why` of that engine.
    """
    missing = missing_rights(
        settings.command,
        settings.interfaces[0],
        namespace=settings.netns,
        filter_text=settings.filter,
    )
    if missing is None:
        return None
    from zmtpscope.live.capture.tools import group_of_dumpcap

    ways = [*missing.ways]
    group = group_of_dumpcap()
    if group is not None and settings.netns is None:
        add_to_group = f'sudo usermod -a -G {group} "$USER"'
        ways.insert(1, (add_to_group, "once, and log in again: members of this group can capture with dumpcap"))
    sentence = missing.sentence if settings.engine is None else f"{missing.sentence} ({why})"
    return CannotCapture(sentence, "\n".join(f"{command}  ({meaning})" for command, meaning in ways))
