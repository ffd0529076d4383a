"""Capture by libpcap through scapy, and write pcap to standard output until SIGTERM.

python -m zmtpscope.live.capture.scapy_engine INTERFACE SNAP_LENGTH PROMISCUOUS BUFFER_OCTETS FILTER USER

The last of the engines: it polls every 10 ms, and each packet takes about 10 us. At the end it prints the number of
packets that the kernel dropped to standard error, like tcpdump.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from struct import Struct
from types import FrameType
from typing import Any, BinaryIO, NoReturn

from zmtpscope.live.capture.privileges import RightsKept, become, invoking_user

MAGIC, MAJOR, MINOR = 0xA1B2C3D4, 2, 4
WAIT = 0.01
"""Seconds between looks while there are no packets."""
RETIRE = 10
"""Milliseconds after which the kernel hands over waiting packets."""
DLT_RAW, RAW_IP = (12, 14), 101
"""DLT numbers of raw IP on different systems, and its LINKTYPE in files."""

NAME = "scapy"
"""Prefix of lines on standard error."""

_file = Struct("=IHHiIII").pack
_record = Struct("=IIII").pack


class Refused(Exception):
    """libpcap failed; the text is its message."""


class Loop:
    """An interface that libpcap captures from. Raises `Refused`."""

    def __init__(self, libpcap: Any, interface: str, snap_length: int, promiscuous: int, buffer_octets: int) -> None:
        self.libpcap = libpcap
        self.snap_length = snap_length
        self.is_stopped = False
        self._words = ctypes.create_string_buffer(libpcap.PCAP_ERRBUF_SIZE)
        self._handle = libpcap.pcap_create(interface.encode(errors="surrogateescape"), self._words)
        if not self._handle:
            raise Refused(f"{interface}: {self._words.value.decode(errors='replace')}")
        libpcap.pcap_set_snaplen(self._handle, snap_length)
        libpcap.pcap_set_promisc(self._handle, promiscuous)
        libpcap.pcap_set_timeout(self._handle, RETIRE)
        libpcap.pcap_set_buffer_size(self._handle, buffer_octets)
        status = libpcap.pcap_activate(self._handle)
        if status < 0:
            raise Refused(f"{interface}: {self._error() or libpcap.pcap_statustostr(status).decode(errors='replace')}")
        libpcap.pcap_setnonblock(self._handle, 1, self._words)

    def set_filter(self, text: str) -> None:
        program = self.libpcap.bpf_program()
        octets = text.encode(errors="surrogateescape")
        if self.libpcap.pcap_compile(self._handle, ctypes.byref(program), octets, 1, -1) or self.libpcap.pcap_setfilter(
            self._handle, ctypes.byref(program)
        ):
            raise Refused(self._error())

    def copy(self, output: BinaryIO) -> None:
        """Write packets until the loop is stopped."""
        link_type = self.libpcap.pcap_datalink(self._handle)
        link_type = RAW_IP if link_type in DLT_RAW else link_type
        output.write(_file(MAGIC, MAJOR, MINOR, 0, 0, self.snap_length, link_type))
        output.flush()
        header = ctypes.POINTER(self.libpcap.pcap_pkthdr)()
        packet = ctypes.POINTER(ctypes.c_ubyte)()
        while not self.is_stopped:
            status = self.libpcap.pcap_next_ex(self._handle, ctypes.byref(header), ctypes.byref(packet))
            if status == 1:
                about = header.contents
                output.write(_record(about.ts.tv_sec, about.ts.tv_usec, about.caplen, about.len))
                output.write(ctypes.string_at(packet, about.caplen))
            elif status < 0:
                raise Refused(self._error())
            else:
                output.flush()
                time.sleep(WAIT)
        output.flush()

    def drops(self) -> int:
        statistics = self.libpcap.pcap_stat()
        self.libpcap.pcap_stats(self._handle, ctypes.byref(statistics))
        return int(statistics.ps_drop)

    def _error(self) -> str:
        return str(self.libpcap.pcap_geterr(self._handle).decode(errors="replace"))


def main() -> None:
    interface, snap_length, promiscuous, buffer_octets, filter_text, user = sys.argv[1:]
    try:
        from scapy.libs import winpcapy
    except (ImportError, OSError):
        refuse("libpcap is not installed")
    try:
        loop = Loop(winpcapy, interface, int(snap_length), int(promiscuous), int(buffer_octets))
        if filter_text:
            loop.set_filter(filter_text)
        become(invoking_user(user or None, os.environ))

        def stop(number: int, frame: FrameType | None) -> None:
            loop.is_stopped = True

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        loop.copy(sys.stdout.buffer)
    except (Refused, RightsKept) as refused:
        refuse(str(refused))
    print(f"{loop.drops()} packets dropped by kernel", file=sys.stderr)


def refuse(sentence: str) -> NoReturn:
    """Print an error in the format of tcpdump, and exit."""
    sys.exit(f"{NAME}: {sentence}")


if __name__ == "__main__":
    main()
