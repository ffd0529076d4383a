"""A packet socket (packet(7)) with the filter of a capture.

The socket is opened without a protocol, so it receives nothing before its filter is set and it is bound. For several
interfaces, one socket is bound to all, and its filter selects them, so that packets stay in order of arrival.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Protocol

from zmtpscope.live.capture.interfaces import ANY, ETHERNET, LINK_TYPES, RAW_IP, Interface, find_interface, interfaces
from zmtpscope.live.capture.settings import CaptureSettings, Instruction, Program

if TYPE_CHECKING:  # the socket opens before numpy is loaded
    import numpy as np
    from numpy.typing import NDArray

SOL_PACKET, SO_ATTACH_FILTER = 263, 26
PACKET_ADD_MEMBERSHIP, PACKET_STATISTICS, PACKET_MR_PROMISC, PACKET_OUTGOING = 1, 6, 1, 4  # <linux/if_packet.h>
ALL_PROTOCOLS = 3  # ETH_P_ALL

VLAN_VALID, VLAN_TYPE_VALID, DEFAULT_VLAN_TYPE = 1 << 4, 1 << 6, 0x8100
"""TP_STATUS_VLAN_VALID (the kernel removed a tag), TP_STATUS_VLAN_TPID_VALID (the type of the tag is known), and the
usual type."""
VLAN_TAG_AT, VLAN_TAG_OCTETS = 12, 4
"""Position (after the Ethernet addresses) and size of a VLAN tag."""

LOAD_WORD, LOAD_BYTE, JUMP_IF_EQUAL, JUMP, RETURN = 0x20, 0x30, 0x15, 0x05, 0x06  # <linux/bpf_common.h>
PACKET_TYPE, INTERFACE_INDEX, HARDWARE_TYPE = (0xFFFFF000 + offset for offset in (4, 8, 28))
"""Offsets by which filters load a packet's metadata: SKF_AD_OFF plus the field (<linux/filter.h>)."""
LOADS, OUT_OF_THE_PACKET = (0x00, 0x01), (0x20, 0x40, 0xA0)
"""Opcodes that load, and the modes that load from the packet: BPF_ABS, BPF_IND and BPF_MSH."""
NETWORK_HEADER = 0xFFF00000
"""SKF_NET_OFF: larger offsets are relative to the network header."""
REJECT = (RETURN, 0, 0, 0)
MAX_INTERFACES = 64
"""Maximum interfaces selected by name, since jumps of a filter skip at most 255 instructions."""


class CannotCapture(Exception):
    """A capture cannot start or continue. The text is the reason, `hint` the remedy."""

    def __init__(self, sentence: str, hint: str | None = None) -> None:
        super().__init__(sentence)
        self.hint = hint


class EngineRefused(Exception):
    """An engine does not work here, for example because a program is missing. The text is the reason."""


class CapturedInterface(NamedTuple):
    name: str
    link_type: int


class Batch(NamedTuple):
    """Packets as pcapng blocks, in order of arrival. `captured` is the number of captured octets of each."""

    blocks: list[bytes]
    captured: NDArray[np.int64]


class PacketSource(Protocol):
    """A source of packets: a packet socket, or a program that captures.

    `interfaces` are the interfaces with packets or requested by name, in the order of their numbers in the file.
    `counts` are the numbers of packets read from each.
    """

    delay: float
    """Seconds from the time stamp of a packet until `read` returns it."""
    has_read_all: bool
    """Whether `read` had returned all received packets when it last returned None."""

    @property
    def due(self) -> float:
        """Return when to call `read` next even if poll(2) reports no event, on the monotonic clock (s)."""

    @property
    def interfaces(self) -> list[CapturedInterface]: ...

    @property
    def counts(self) -> list[int]: ...

    def fileno(self) -> int: ...
    def read(self) -> Batch | None: ...
    def stop(self) -> None: ...
    def statistics(self) -> tuple[int, int, int]: ...
    def check(self) -> list[str]: ...
    def close(self) -> None: ...


class PacketSocket(ABC):
    """A packet socket that receives the packets of the interfaces in `settings`.

    With several interfaces, the first entry of `interfaces` stands for all and has no packets, since the kernel counts
    their drops together. Raises `CannotCapture` or `PermissionError`.
    """

    delay = 0.0
    has_read_all = True

    def __init__(self, settings: CaptureSettings) -> None:
        self.settings = settings
        self.interfaces: list[CapturedInterface] = []
        self.counts: list[int] = []
        self._numbers: dict[int, int] = {}
        known = interfaces()
        self._requested = [find_interface(name, known) for name in settings.interfaces]
        for each in self._requested:
            if not each.is_up:
                raise CannotCapture(f"{each.name} is down", f"ip link set {each.name} up")
        self._down: set[int] = set()
        self._is_any = ANY in (each.name for each in self._requested)
        if len(self._requested) > MAX_INTERFACES:
            raise CannotCapture(f"more than {MAX_INTERFACES} interfaces", f"capture from {ANY}")
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        loopback = next((each.index for each in known if each.is_loopback), 0)
        self._set_filter(self._filter(loopback))
        if self._is_any or len(self._requested) > 1:
            name = ANY if self._is_any else ", ".join(each.name for each in self._requested)
            self._add(CapturedInterface(name, LINK_TYPES.get(self._requested[0].hardware_type, ETHERNET)))
        if not self._is_any:
            for each in self._requested:
                self._number(each.index, each.hardware_type, each.name)

    def _bind(self) -> None:
        alone = self._requested[0].index if len(self._requested) == 1 else 0
        # Python's bind accepts only names, none of which means all interfaces; struct sockaddr_ll
        address = struct.pack("=HHiHBB8x", socket.AF_PACKET, socket.htons(ALL_PROTOCOLS), alone, 0, 0, 0)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.bind(self.socket.fileno(), address, len(address)):
            number = ctypes.get_errno()
            raise CannotCapture(f"{', '.join(self.settings.interfaces)}: {os.strerror(number)}")
        if self.settings.promiscuous:
            for each in self._requested:
                if each.index and not each.is_loopback:
                    self._set_promiscuous(each)

    def _set_promiscuous(self, interface: Interface) -> None:
        request = struct.pack("=iHH8x", interface.index, PACKET_MR_PROMISC, 0)  # struct packet_mreq
        try:
            self.socket.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, request)
        except OSError as error:
            sentence = f"{interface.name} refuses promiscuous mode: {error.strerror}"
            raise CannotCapture(sentence, "-p captures without it") from None

    def _filter(self, loopback: int) -> list[Instruction]:
        """Return the BPF program that selects the interfaces, and applies the filter of each link type.

        It rejects outgoing packets on loopback, since they are also received.
        """
        wanted = [each.index for each in self._requested]
        program: list[Instruction] = []
        if len(wanted) > 1 and not self._is_any:
            program.append((LOAD_WORD, 0, 0, INTERFACE_INDEX))
            program += [(JUMP_IF_EQUAL, len(wanted) - place, 0, index) for place, index in enumerate(wanted)]
            program.append(REJECT)
        if loopback:
            program += [
                (LOAD_WORD, 0, 0, INTERFACE_INDEX),
                (JUMP_IF_EQUAL, 0, 3, loopback),
                (LOAD_BYTE, 0, 0, PACKET_TYPE),
                (JUMP_IF_EQUAL, 0, 1, PACKET_OUTGOING),
                REJECT,
            ]
        if not self.settings.filter:
            return [*program, (RETURN, 0, 0, self.settings.snap_length)]
        return program + _by_link_type(self.settings.programs)

    def _set_filter(self, program: list[Instruction]) -> None:
        octets = b"".join([struct.pack("=HBBI", *instruction) for instruction in program])  # struct sock_filter
        buffer = ctypes.create_string_buffer(octets, len(octets))
        pointer = struct.pack("@HP", len(program), ctypes.addressof(buffer))  # struct sock_fprog
        self.socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, pointer)

    def _number(self, index: int, hardware_type: int, name: str | None = None) -> int:
        number = self._numbers.get(index)
        if number is None:
            number = self._numbers[index] = len(self.interfaces)
            if name is None:
                try:
                    name = socket.if_indextoname(index)
                except OSError:  # the interface was removed, but its packets are still queued
                    name = f"interface {index}"
            self._add(CapturedInterface(name, LINK_TYPES.get(hardware_type, RAW_IP)))
        return number

    @property
    def due(self) -> float:
        return inf

    @abstractmethod
    def read(self) -> Batch | None:
        """Return some of the available packets, or None."""

    def _add(self, interface: CapturedInterface) -> None:
        self.interfaces.append(interface)
        self.counts.append(0)

    def fileno(self) -> int:
        return self.socket.fileno()

    def stop(self) -> None:
        """Stop receiving packets. Packets received earlier can still be read."""
        self._set_filter([REJECT])

    def statistics(self) -> tuple[int, int, int]:
        """Return the kernel's counters since the last call: packets that passed the filter, how many of them were
        dropped, and how often the ring was full."""
        counts = self.socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 12)
        received, dropped, *freezes = struct.unpack(f"={len(counts) // 4}I", counts)
        return received, dropped, freezes[0] if freezes else 0

    def check(self) -> list[str]:
        """Return a sentence for each interface that went down, came up, or was deleted since the last call.

        Raises `CannotCapture` if no interface is left.
        """
        number = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number not in (0, errno.ENETDOWN):
            raise CannotCapture(f"{', '.join(self.settings.interfaces)}: {os.strerror(number)}")
        if self._is_any:
            return []
        news = []
        there = {each.index: each for each in interfaces()}
        for each in [*self._requested]:
            now = there.get(each.index)
            if now is None:
                self._requested.remove(each)
                self._down.discard(each.index)
                if not self._requested:
                    raise CannotCapture(f"{each.name} was removed")
                news.append(f"{each.name} was removed; the capture continues without it")
                continue
            if each.index not in self._down and (number or not now.is_up):
                self._down.add(each.index)
                news.append(f"{each.name} went down; the capture continues when it is up again")
            if each.index in self._down and now.is_up:
                self._down.remove(each.index)
                news.append(f"{each.name} is up again")
        return news

    def close(self) -> None:
        self.socket.close()


def _by_link_type(programs: Mapping[int, Program]) -> list[Instruction]:
    """Return a BPF program that runs the filter for the link type of a packet, and rejects packets of other link types.

    For an unknown link type, it runs the filter for raw IP at the network header.
    """
    joined: list[Instruction] = [REJECT]
    begins: dict[int, int] = {}
    for link_type, program in programs.items():
        begins[link_type] = len(joined)
        joined += program
    otherwise = len(joined) if RAW_IP in programs else 0
    joined += map(_from_network_header, programs.get(RAW_IP, ()))
    types = [(hardware_type, begins.get(link_type, 0)) for hardware_type, link_type in LINK_TYPES.items()]
    choice: list[Instruction] = [(LOAD_WORD, 0, 0, HARDWARE_TYPE)]
    for place, (hardware_type, begin) in enumerate(types):
        behind = 2 * (len(types) - place - 1) + 1  # remaining instructions of the selection
        choice += [(JUMP_IF_EQUAL, 0, 1, hardware_type), (JUMP, 0, 0, behind + begin)]
    return [*choice, (JUMP, 0, 0, otherwise), *joined]


def _from_network_header(instruction: Instruction) -> Instruction:
    code, jt, jf, k = instruction
    is_load = code & 0x07 in LOADS and code & 0xE0 in OUT_OF_THE_PACKET
    return code, jt, jf, k + NETWORK_HEADER if is_load and k < NETWORK_HEADER else k
