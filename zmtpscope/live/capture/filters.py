"""Compiles capture filters (pcap-filter(7)) to instructions that the kernel runs on every packet.

The compiler is libpcap, loaded through scapy, or tcpdump if libpcap is missing.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from zmtpscope.live.capture.interfaces import CISCO_HDLC, ETHERNET, RAW_IP, interfaces


class Instruction(NamedTuple):
    """An instruction of classic BPF (struct sock_filter): code, instructions to skip if true and if false, and a
    number."""

    code: int
    jt: int
    jf: int
    k: int


Program = tuple[Instruction, ...]

RETURN = 0x06
MAX_INSTRUCTIONS = 4096 - 256
"""BPF_MAXINSNS of <linux/bpf_common.h>, less the instructions that select interfaces and link types."""

DLT_NAMES = {ETHERNET: "EN10MB", RAW_IP: "RAW", CISCO_HDLC: "C_HDLC"}
"""Names of link types for tcpdump."""
DLT_RAW = 12
"""Link type 101 in libpcap on Linux. All other DLT and LINKTYPE numbers are equal."""
NETMASK_UNKNOWN = -1
OPTIMIZE = 1
COMPILER_SECONDS = 60
"""Time in seconds to compile a filter: filters with host names wait for name servers."""

HOW_TO_GET_LIBPCAP = (
    "install libpcap (Debian: apt install libpcap0.8; Fedora: dnf install libpcap; "
    "Alpine: apk add libpcap; Windows: Npcap) or tcpdump"
)


class CaptureFilterError(ValueError):
    """A capture filter is invalid. `words` is the reason, mostly from libpcap.

    `column` is the position of the error in `text` (from 0), or None.
    """

    def __init__(self, text: str, words: str, column: int | None = None) -> None:
        super().__init__(words)
        self.text = text
        self.words = words
        self.column = column

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        if self.column is None:
            return [self.words]
        shown = "".join(each if each.isprintable() else " " for each in self.text)
        return [self.words, f"  {shown}", f"  {' ' * self.column}^"]


def compile_filter(text: str, link_type: int, snap_length: int) -> Program:
    """Return a BPF program that accepts `snap_length` octets of matching packets of `link_type`, and rejects others.

    An empty filter matches every packet. The kernel removes VLAN tags before filters see packets. So a filter with
    `vlan` is compiled for live capture on an Ethernet interface that is up, which needs privileges. Raises
    `CaptureFilterError`.
    """
    if not text.strip():
        return (Instruction(RETURN, 0, 0, snap_length),)
    if "\0" in text:
        raise CaptureFilterError(text, "a filter cannot contain a zero octet")
    interface = None
    if link_type == ETHERNET and re.search(r"\bvlan\b", text):
        interface = next((each.name for each in interfaces() if each.is_up and each.link_type == ETHERNET), None)
        if interface is None:
            raise CaptureFilterError(
                text, "`vlan` can only be compiled for an Ethernet interface that is up, and there is none"
            )
    try:
        with _compiler(link_type, snap_length, interface) as compile_text:
            try:
                program = compile_text(text)
            except _Refused as refused:
                raise CaptureFilterError(text, str(refused), _column(text, str(refused), compile_text)) from None
    except _Refused as refused:  # no compiler for this interface
        raise CaptureFilterError(text, str(refused)) from None
    _check_length(text, len(program))
    return program


def compile_filters(text: str, link_types: Iterable[int], snap_length: int) -> dict[int, Program]:
    """Compile a filter for each link type for which it makes sense; an Ethernet address makes none for a tunnel.

    Raises `CaptureFilterError` if no link type remains, or if the programs are too long for the kernel.
    """
    programs: dict[int, Program] = {}
    errors: list[CaptureFilterError] = []
    for link_type in link_types:
        try:
            programs[link_type] = compile_filter(text, link_type, snap_length)
        except CaptureFilterError as error:
            errors.append(error)
    if errors and not programs:
        raise errors[0]
    # raw IP occurs twice in the program, the second time for packets of unknown link types
    _check_length(text, sum(map(len, programs.values())) + len(programs.get(RAW_IP, ())))
    return programs


def programs(text: str, snap_length: int) -> dict[int, Program]:
    """Compile a filter for each link type that interfaces of this machine can have; return the programs by link type.

    An empty filter needs no programs. Raises `CaptureFilterError`.
    """
    return dict(compile_filters(text, (ETHERNET, RAW_IP), snap_length)) if text.strip() else {}


def _check_length(text: str, length: int) -> None:
    if length > MAX_INSTRUCTIONS:
        raise CaptureFilterError(
            text,
            f"the filter compiles to {length} instructions, but the kernel accepts about {MAX_INSTRUCTIONS} -> "
            "shorten it: `net` for many hosts, `portrange` for many ports",
        )


# Compilers for one link type and snapshot length


class _Refused(Exception):
    """A compiler reported an error in a filter; the text is its message."""


_Compile = Callable[[str], Program]


@contextmanager
def _compiler(link_type: int, snap_length: int, interface: str | None) -> Iterator[_Compile]:
    """Return in a context the compiler of libpcap, or else of tcpdump. With `interface`, it compiles for live capture
    there."""
    try:
        from scapy.libs import winpcapy as libpcap  # scapy's name for libpcap on every system
    except (ImportError, OSError):
        yield lambda text: _compile_by_tcpdump(link_type, snap_length, interface, text)
        return
    if interface is None:
        handle = libpcap.pcap_open_dead(DLT_RAW if link_type == RAW_IP else link_type, snap_length)
    else:
        handle = _open_live(libpcap, interface, snap_length)
    try:
        yield lambda text: _compile_by_libpcap(libpcap, handle, text)
    finally:
        libpcap.pcap_close(handle)


def _open_live(libpcap: Any, interface: str, snap_length: int) -> Any:
    words = ctypes.create_string_buffer(libpcap.PCAP_ERRBUF_SIZE)
    handle = libpcap.pcap_open_live(interface.encode(errors="surrogateescape"), snap_length, 0, 100, words)
    if not handle:
        raise _Refused(f"`vlan` cannot be compiled for {interface}: {words.value.decode(errors='replace')}")
    return handle


def _compile_by_libpcap(libpcap: Any, handle: Any, text: str) -> Program:
    program = libpcap.bpf_program()
    octets = text.encode(errors="surrogateescape")
    if libpcap.pcap_compile(handle, ctypes.byref(program), octets, OPTIMIZE, NETMASK_UNKNOWN):
        raise _Refused(libpcap.pcap_geterr(handle).decode(errors="replace"))
    try:
        instructions = (program.bf_insns[each] for each in range(program.bf_len))
        return tuple(Instruction(each.code, each.jt, each.jf, each.k & 0xFFFFFFFF) for each in instructions)
    finally:
        libpcap.pcap_freecode(ctypes.byref(program))


def _compile_by_tcpdump(link_type: int, snap_length: int, interface: str | None, text: str) -> Program:
    if interface is not None:
        where = ["-i", interface]
    elif link_type in DLT_NAMES:
        where = ["-y", DLT_NAMES[link_type]]
    else:
        raise CaptureFilterError(text, f"tcpdump compiles no filters for link type {link_type} -> {HOW_TO_GET_LIBPCAP}")
    command = ["tcpdump", "-ddd", *where, "-s", str(snap_length), "--", text]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=COMPILER_SECONDS)
    except OSError:
        raise CaptureFilterError(
            text, f"filters need libpcap, which is not installed -> {HOW_TO_GET_LIBPCAP}"
        ) from None
    except subprocess.TimeoutExpired:
        raise CaptureFilterError(text, f"tcpdump took over {COMPILER_SECONDS} s to compile this filter") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"tcpdump ended with exit code {done.returncode}"]
        raise _Refused(said[-1].removeprefix("tcpdump: "))
    _, *lines = done.stdout.splitlines()  # the first line is the number of instructions
    return tuple(Instruction(*map(int, line.split())) for line in lines)


# Compilers report no position, so it is found by compiling prefixes of the filter.

SYNTAX_ERROR = "syntax error"
TOKEN = re.compile(r"[\w.:/\\-]+|&&|\|\||[<>=!]=|<<|>>|[^\s\w]")
HOST_NAME = re.compile(r"\b(host|net|src|dst)\s+(?!(?:host|net|port|portrange|and|or|not|src|dst)\b)[A-Za-z_][\w.-]*")
"""Host names are replaced, since each compilation would look them up."""
CONTINUATIONS = (
    *("", " tcp", " 80", " = 1", " 1 = 1", "1] = 1", "] = 1", "0:1] = 1"),
    *(" 192.0.2.1", " 192.0.2.0/24", " 00:00:5e:00:53:01", " 1-2", " mgt"),
)
"""An operand, a comparison or closing brackets: one of them completes any valid prefix of a filter."""


def _column(text: str, words: str, compile_text: _Compile) -> int | None:
    """Return the position of the error with the message `words` in a filter; None if unknown.

    It is the first token after which every continuation causes this error, or, if something is missing at the end, the
    end of the last token.
    """
    quoted = re.search("'([^']+)'", words)
    if quoted is not None and quoted[1] in text:
        return text.index(quoted[1])
    tokens = [*TOKEN.finditer(text)]
    if not tokens:
        return None

    def is_wrong(number: int) -> bool:
        """Whether the filter is invalid with all tokens up to this number, whatever follows."""
        beginning = HOST_NAME.sub(r"\1 192.0.2.1", text[: tokens[number].end()])
        close = ")" * (beginning.count("(") - beginning.count(")"))
        errors = (_words(compile_text, beginning + each + close) for each in CONTINUATIONS)
        if SYNTAX_ERROR in words:
            return all(each is not None and SYNTAX_ERROR in each for each in errors)
        return any(each == words for each in errors)

    wrong = bisect_left(range(len(tokens)), True, key=is_wrong)
    if wrong < len(tokens):
        return tokens[wrong].start()
    return tokens[-1].end() if SYNTAX_ERROR in words else None


def _words(compile_text: _Compile, text: str) -> str | None:
    """Return the error message of the compiler for a filter, or None if the filter is valid."""
    try:
        compile_text(text)
    except _Refused as refused:
        return str(refused)
    return None
