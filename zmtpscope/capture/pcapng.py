"""The pcapng container (draft-ietf-opsawg-pcapng): sections, interfaces, and the three kinds of packet block."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from zmtpscope.capture.errors import Damage
from zmtpscope.capture.packets import LARGEST_PACKET, LATEST, PacketRun
from zmtpscope.capture.source import Source

MAGIC = b"\x0a\x0d\x0d\x0a"
SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, PACKET = 0x0A0D0D0A, 1, 2, 3, 6
SMALLEST = {SECTION: 28, INTERFACE: 20, OLD_PACKET: 32, SIMPLE_PACKET: 16, PACKET: 32}
"""Octets of the blocks that are read when they are empty of options and packet data; all other blocks are skipped."""

LARGEST_BLOCK = LARGEST_PACKET + (1 << 20)
"""A block that is read and claims to be longer is taken for a lie; a skipped block may have any length."""

MOST_INTERFACES = 65_536
BYTE_ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
END_OF_OPTIONS, TIME_RESOLUTION, TIME_OFFSET = 0, 9, 14


class Interface(NamedTuple):
    """One interface of a section. A time stamp of `units` is `units * unit // divisor + offset` ns since the epoch."""

    link: int
    unit: int
    divisor: int
    offset: int
    snap_length: int


class Section:
    """The byte order and the interfaces of one section."""

    def __init__(self, order: str) -> None:
        self.order = order
        self.head = Struct(order + "II").unpack_from
        self.packet = Struct(order + "IIIIIII").unpack_from
        self.trailer = Struct(order + "I").unpack_from
        self.old_packet = Struct(order + "HHIIII").unpack_from
        self.interfaces: list[Interface] = []

    def interface(self, body: bytes) -> Interface:
        """Read the body of an Interface Description Block (section 4.2)."""
        link, snap_length = Struct(self.order + "HxxI").unpack_from(body)
        unit, divisor, offset = 1000, 1, 0
        option = Struct(self.order + "HH").unpack_from
        position = 8
        while position + 4 <= len(body):
            code, length = option(body, position)
            position += 4
            if code == END_OF_OPTIONS or position + length > len(body):
                break
            if code == TIME_RESOLUTION and length == 1:
                exponent = body[position]
                resolution = 2 ** (exponent & 0x7F) if exponent & 0x80 else 10**exponent
                unit, divisor = 1_000_000_000, resolution
                if unit % divisor == 0:
                    unit, divisor = unit // divisor, 1
            elif code == TIME_OFFSET and length == 8:
                offset = Struct(self.order + "q").unpack_from(body, position)[0] * 1_000_000_000
            position += length + (-length & 3)
        return Interface(link, unit, divisor, offset, snap_length)


def read_pcapng(source: Source, block_size: int) -> Iterator[list[PacketRun]]:
    """The packets of `source` (at its first octet), a list of runs for each block of about `block_size` octets.

    Runs of one list share their octets; a new run begins where the link type changes. Raises `Damage` behind the last
    packet that can be read.
    """
    reader = Reader(source)
    while reader.fill(block_size):
        runs = reader.runs()
        if runs:
            yield runs
        if reader.broken is not None:
            raise reader.broken
    reader.finish()


class Reader:
    """Reads whole blocks out of pieces of the file. `origin + position` is the octet of the file that is read next."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.data = b""
        self.position = 0
        self.origin = 0
        self.number = 1
        """The number of the first packet of `run`."""
        self.time = 0
        """The time of the packet before, for packets that have none."""
        self.section = Section("<")
        self.run = PacketRun(b"", -1, 1)
        self.done: list[PacketRun] = []
        self.broken: Damage | None = None
        self.skip = 0
        self.trailer = b""
        """While a long block is skipped: octets to pass, then the length that must stand behind them."""
        self.skipped_from = 0

    def fill(self, block_size: int) -> bool:
        """Keep what has not been read and add the next octets of the source; False at its end."""
        more = self.source.read(block_size)
        if not more:
            return False
        self.origin += self.position
        self.data = self.data[self.position :] + more
        self.position = 0
        return True

    def finish(self) -> None:
        """Raises `Damage` if the source ended inside a block."""
        rest = len(self.data) - self.position
        if self.trailer:
            raise Damage(self.number - 1, self.skipped_from, "the file ends inside a block")
        if rest:
            raise self.damage(f"the file ends inside a block, {rest} octets of it are there")

    def damage(self, text: str) -> Damage:
        return Damage(self.number - 1 + len(self.run), self.origin + self.position, text)

    def runs(self) -> list[PacketRun]:
        """The packets of all whole blocks in `data`; `broken` tells if the file cannot be read on behind them."""
        self.done = []
        self.run = PacketRun(self.data, -1, self.number)
        try:
            read_on = self.pass_over()
            while read_on:
                self.plain_packets()
                read_on = self.other_block()
        except Damage as damage:
            self.broken = damage
        self.begin(-1)
        return self.done

    def begin(self, link: int) -> PacketRun:
        """End the run and begin one of another link type."""
        if self.run.times:
            self.done.append(self.run)
            self.number += len(self.run)
            self.time = self.run.times[-1]
        self.run = PacketRun(self.data, link, self.number)
        return self.run

    def plain_packets(self) -> None:
        """Enhanced Packet Blocks (section 4.3) whose lengths agree, up to any other block."""
        data, end, position = self.data, len(self.data), self.position
        interfaces, run = self.section.interfaces, self.run
        unpack, trailer, largest = self.section.packet, self.section.trailer, LARGEST_PACKET
        current, unit, divisor, offset = -1, 0, 1, 0
        upper, base = 0, 0
        add_start, add_stop, add_time = run.starts.append, run.stops.append, run.times.append
        while position + 32 <= end:
            kind, length, interface, high, low, captured, original = unpack(data, position)
            stop = position + length
            start = position + 28
            if kind != PACKET or stop > end or start + captured + 4 > stop or length & 3 or captured > largest:
                break
            if trailer(data, stop - 4)[0] != length:
                break
            if interface != current:
                if interface >= len(interfaces):
                    break
                current = interface
                link, unit, divisor, offset, _ = interfaces[interface]
                if link != run.link:
                    run = self.begin(link)
                    add_start, add_stop, add_time = run.starts.append, run.stops.append, run.times.append
            if original > captured:
                run.missing[len(run.times)] = original - captured
            if high != upper:  # it seldom changes
                upper, base = high, high << 32
            time = (base + low) * unit
            if divisor != 1:
                time //= divisor
            time += offset
            add_start(start)
            add_stop(start + captured)
            add_time(time if 0 <= time <= LATEST else LATEST if time > 0 else 0)
            position = stop
        self.position = position

    def other_block(self) -> bool:
        """Any one block at `position`; False where its end must be waited for. Raises `Damage` where lengths lie."""
        data, position = self.data, self.position
        available = len(data) - position
        if available < 12:
            return False
        if data.startswith(MAGIC, position):
            order = BYTE_ORDERS.get(data[position + 8 : position + 12])
            if order is None:
                raise self.damage("a section header has no byte-order magic")
            self.section = Section(order)
        elif position + self.origin == 0:
            raise self.damage("the file does not begin with a section header")
        kind, length = self.section.head(data, position)
        least = SMALLEST.get(kind, 12)
        if length < least or length & 3 or (kind in SMALLEST and length > LARGEST_BLOCK):
            raise self.damage(f"a block of type {kind} claims a length of {length} octets")
        if available < length:
            if kind not in SMALLEST:
                self.trailer = data[position + 4 : position + 8]
                self.skip = length - 4 - available
                self.skipped_from = self.origin + position
                self.position = len(data)
                if self.skip < 0:
                    self.position += self.skip
                    self.skip = 0
            return False
        if data[position + length - 4 : position + length] != data[position + 4 : position + 8]:
            raise self.damage(f"the two lengths of a block of type {kind} differ")
        if kind == INTERFACE:
            if len(self.section.interfaces) == MOST_INTERFACES:
                raise self.damage(f"a section has more than {MOST_INTERFACES} interfaces")
            self.section.interfaces.append(self.section.interface(data[position + 8 : position + length - 4]))
        elif kind in SMALLEST and kind != SECTION:
            self.packet(kind, length)
        self.position = position + length
        return True

    def packet(self, kind: int, length: int) -> None:
        """A packet block that `plain_packets` did not take: sections 4.3 (odd lengths), 4.4 and appendix A."""
        data, position, section = self.data, self.position, self.section
        time: int | None = None
        start = position + 28
        if kind == PACKET:
            _, _, number, high, low, captured, original = section.packet(data, position)
            time = high << 32 | low
        elif kind == OLD_PACKET:
            number, _, high, low, captured, original = section.old_packet(data, position + 8)
            time = high << 32 | low
        else:
            number, start = 0, position + 12
            original = section.head(data, position + 8)[0]
        if number >= len(section.interfaces):
            raise self.damage(f"a packet names interface {number}, which its section does not describe")
        interface = section.interfaces[number]
        room = position + length - 4 - start
        if kind == SIMPLE_PACKET:
            captured = min(original, interface.snap_length or original, room)
        if captured > room or captured > LARGEST_PACKET:
            raise self.damage(f"a packet claims {captured} octets in a block that has room for {room}")
        run = self.run if self.run.link == interface.link else self.begin(interface.link)
        if original > captured:
            run.missing[len(run)] = original - captured
        if time is None:
            nanoseconds = run.times[-1] if run.times else self.time
        else:
            nanoseconds = min(max(time * interface.unit // interface.divisor + interface.offset, 0), LATEST)
        run.starts.append(start)
        run.stops.append(start + captured)
        run.times.append(nanoseconds)

    def pass_over(self) -> bool:
        """Go on skipping a block that is longer than what was there; False while its end has not come."""
        if not self.trailer:
            return True
        available = len(self.data) - self.position
        step = min(self.skip, available)
        self.position += step
        self.skip -= step
        if available - step < 4:
            return False
        if self.data[self.position : self.position + 4] != self.trailer:
            raise Damage(self.number - 1, self.skipped_from, "the two lengths of a block differ")
        self.position += 4
        self.trailer = b""
        return True
