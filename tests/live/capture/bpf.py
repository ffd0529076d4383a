"""Classic BPF run in Python, as the kernel runs it: Documentation/networking/filter.rst."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from zmtpscope.live.capture.packet_socket import HARDWARE_TYPE, NETWORK_HEADER
from zmtpscope.live.capture.settings import Instruction

WORD = 0xFFFFFFFF
SIZES = {0x00: 4, 0x08: 2, 0x10: 1}
OPERATIONS: dict[int, Callable[[int, int], int]] = {
    0x00: operator.add,
    0x10: operator.sub,
    0x20: operator.mul,
    0x30: operator.floordiv,
    0x40: operator.or_,
    0x50: operator.and_,
    0x60: operator.lshift,
    0x70: operator.rshift,
    0x80: lambda a, _: -a,
    0x90: operator.mod,
    0xA0: operator.xor,
}


def run(program: Sequence[Instruction], packet: bytes, hardware_type: int = 1, network_header: int = 14) -> int:
    """Run a program on a packet; return the number of octets to keep, 0 for none."""
    a = x = at = 0
    memory = [0] * 16
    while True:
        code, jt, jf, k = program[at]
        at += 1
        kind = code & 7
        if kind in (0, 1):  # loads
            mode, size = code & 0xE0, SIZES[code & 0x18]
            if mode == 0x00:
                value = k
            elif mode == 0x60:
                value = memory[k]
            elif mode == 0x80:
                value = len(packet)
            elif mode == 0x20 and k == HARDWARE_TYPE:
                value = hardware_type
            else:
                if k >= NETWORK_HEADER:
                    k += network_header - NETWORK_HEADER
                start = k + (x if mode == 0x40 else 0)
                if start + size > len(packet):
                    return 0
                value = int.from_bytes(packet[start : start + size])
                if mode == 0xA0:
                    value = 4 * (value & 0xF)
            a, x = (value, x) if kind == 0 else (a, value)
        elif kind in (2, 3):  # stores
            memory[k] = a if kind == 2 else x
        elif kind == 4:
            operand = x if code & 8 else k
            if code & 0xF0 in (0x30, 0x90) and not operand:
                return 0
            a = OPERATIONS[code & 0xF0](a, operand) & WORD
        elif kind == 5:
            operand = x if code & 8 else k
            how = code & 0xF0
            if how == 0:
                at += k
            else:
                met = {0x10: a == operand, 0x20: a > operand, 0x30: a >= operand, 0x40: bool(a & operand)}[how]
                at += jt if met else jf
        elif kind == 6:
            return a if code & 0x18 == 0x10 else k
        else:
            a, x = (a, a) if code == 0x07 else (x, x)
