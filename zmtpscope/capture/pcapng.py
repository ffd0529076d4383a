"""Read pcapng files (draft-ietf-opsawg-pcapng)."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zmtpscope import compiled
from zmtpscope.capture.errors import TOO_MANY_RECORDS, CutShort, Damage
from zmtpscope.capture.packets import LARGEST_PACKET, LATEST, PacketBlock, no_packets
from zmtpscope.capture.source import Source
from zmtpscope.capture.statistics import FileStatistics, InterfaceStatistics

MAGIC = b"\x0a\x0d\x0d\x0a"
SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, STATISTICS, PACKET = 0x0A0D0D0A, 1, 2, 3, 5, 6
SMALLEST = {SECTION: 28, INTERFACE: 20, OLD_PACKET: 32, SIMPLE_PACKET: 16, PACKET: 32}
"""Minimum octets of a block by type, without options and packet data.

An invalid statistics block is ignored; other block types are skipped.
"""
LARGEST_STATISTICS = 1 << 16
"""Octets of a statistics block; larger ones, which no tool writes, are skipped."""

LARGEST_BLOCK = LARGEST_PACKET + (1 << 20)
"""Octets of a block that is read; larger lengths are invalid. A skipped block may have any length."""

MAX_INTERFACES = 65_536
LONGEST_NAME = 64
COLUMNS = 6
"""Number of columns: link types, starts, stops, missing octets, times, interfaces."""
BYTE_ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
LENGTHS_DIFFER = "the two lengths of a block of type {} differ"
END_OF_OPTIONS, NAME, TIME_RESOLUTION, TIME_OFFSET = 0, 2, 9, 14
DROP_COUNT = 4
"""Option of a packet: packets lost since the interface's previous packet."""
DROP_COUNT_SIZE, OPTION = 8, 4
"""Octets of the value of `DROP_COUNT`, and of an option header."""
MAX_OPTIONS = 8
"""Options of a packet to read. Tools write one or two."""
STATISTICS_HEADER = 12
START_TIME, END_TIME = 2, 3
MICROSECOND = 1000
COUNTS = {4: "received", 5: "dropped_by_interface", 7: "dropped_by_system", 8: "delivered"}
"""Statistics options as fields of `InterfaceStatistics`: isb_ifrecv, isb_ifdrop, isb_osdrop, isb_usrdeliv."""


class Interface(NamedTuple):
    """An interface of the file. A tick of its clock is `unit / divisor` nanoseconds."""

    link: int
    unit: int
    divisor: int
    offset: int
    snap_length: int
    name: str = ""

    def time(self, ticks: int) -> int:
        """Convert a time stamp of this interface to nanoseconds since the epoch."""
        return min(max(ticks * self.unit // self.divisor + self.offset, 0), LATEST)

    def end_time(self, ticks: int, last: int) -> int | None:
        """Convert the time stamp of an isb_endtime option to nanoseconds since the epoch.

        None if it is before `last`, the time of the previous packet. dumpcap writes microseconds there, regardless of
        the interface's clock.
        """
        times = self.time(ticks), ticks * MICROSECOND + self.offset
        return next((time for time in times if last <= time < LATEST), None)


class Section:
    def __init__(self, order: str, number: int = 0) -> None:
        self.order = order
        self.number = number
        self.first_interface = number * MAX_INTERFACES
        """All interfaces of a file have different numbers."""
        self.head = Struct(order + "II").unpack_from
        self.packet = Struct(order + "IIIIIII").unpack_from
        self.old_packet = Struct(order + "HHIIII").unpack_from
        self.interfaces: list[Interface] = []
        self.links = array("q")
        self.units = array("q")
        """`links` and `units` by interface: link type, and nanoseconds per tick (0: an offset or a fractional unit)."""

    def add(self, interface: Interface) -> None:
        self.interfaces.append(interface)
        self.links.append(interface.link)
        self.units.append(interface.unit if interface.divisor == 1 and not interface.offset else 0)

    def interface(self, body: bytes) -> Interface:
        """Parse an Interface Description Block (section 4.2)."""
        link, snap_length = Struct(self.order + "HxxI").unpack_from(body)
        unit, divisor, offset, name = 1000, 1, 0, ""
        for code, value in self.options(body, 8):
            if code == TIME_RESOLUTION and len(value) == 1:
                exponent = value[0]
                resolution = 2 ** (exponent & 0x7F) if exponent & 0x80 else 10**exponent
                unit, divisor = 1_000_000_000, resolution
                if unit % divisor == 0:
                    unit, divisor = unit // divisor, 1
            elif code == TIME_OFFSET and len(value) == 8:
                offset = Struct(self.order + "q").unpack(value)[0] * 1_000_000_000
            elif code == NAME:
                name = value[:LONGEST_NAME].rstrip(b"\0").decode("utf-8", "backslashreplace")
        return Interface(link, unit, divisor, offset, snap_length, name)

    def options(self, body: bytes, position: int) -> Iterator[tuple[int, bytes]]:
        """Yield code and value of each valid option in a block body from index `position` on (section 3.5)."""
        option = Struct(self.order + "HH").unpack_from
        while position + 4 <= len(body):
            code, length = option(body, position)
            position += 4
            if code == END_OF_OPTIONS or position + length > len(body):
                break
            yield code, body[position : position + length]
            position += length + (-length & 3)

    def statistics(self, body: bytes, file: FileStatistics, last: int) -> None:
        """Add the counts of an Interface Statistics Block (section 4.6) to `file`.

        A block for an undescribed interface is ignored. `last` is the time of the previous packet.
        """
        if len(body) < STATISTICS_HEADER:
            return
        number = Struct(self.order + "I").unpack_from(body)[0]
        if number >= len(self.interfaces):
            return
        name = self.interfaces[number].name
        found = InterfaceStatistics(name, file.file)
        for code, value in self.options(body, STATISTICS_HEADER):
            if code == START_TIME and len(value) == 8:
                high, low = Struct(self.order + "II").unpack(value)
                found.start = high << 32 | low
            elif code == END_TIME and len(value) == 8:
                high, low = Struct(self.order + "II").unpack(value)
                found.end = self.interfaces[number].end_time(high << 32 | low, last)
            elif code in COUNTS and len(value) == 8:
                setattr(found, COUNTS[code], Struct(self.order + "Q").unpack(value)[0])
        file.interface(self.number, number, name).update(found)


def read_pcapng(source: Source, block_size: int, statistics: FileStatistics) -> Iterator[PacketBlock]:
    """Yield the packets of `source`, in blocks of about `block_size` octets.

    Blocks are empty only if the source is growing and has no new octets. Interfaces are added to `statistics`. Raises
    `Damage` after the last readable packet.
    """
    reader = Reader(source, statistics)
    while reader.fill(block_size):
        packets = reader.packets()
        if packets is not None:
            yield packets
        elif source.is_growing:
            yield no_packets()
        if reader.broken is not None:
            raise reader.broken
    reader.finish()


class Reader:
    """Reads the blocks of a pcapng file. The next octet to parse is at `origin + position` in the file."""

    def __init__(self, source: Source, statistics: FileStatistics) -> None:
        self.source = source
        self.statistics = statistics
        self.data = b""
        self.position = 0
        self.origin = 0
        self.count = 0
        self.blocks = 0
        self.sections = 0
        self.time = 0
        """Time of the previous packet; packets without a time get it."""
        self.section = Section("<")
        self.parts: list[NDArray[np.int64]] = []
        self.single_packets: list[tuple[int, ...]] = []
        """Packets read one by one since the last part. They follow `parts`."""
        self.broken: Damage | None = None
        self.skip = 0
        self.trailer = b""
        """While a long block is skipped: the length field expected after the remaining `skip` octets."""
        self.skipped_from = self.skipped_type = 0

    def fill(self, block_size: int) -> bool:
        """Read about `block_size` octets and append them to the unparsed ones; return False at the end."""
        more = self.source.read(block_size)
        if not more:
            return self.source.is_growing
        self.origin += self.position
        self.data = self.data[self.position :] + more
        self.position = 0
        return True

    def finish(self) -> None:
        rest = len(self.data) - self.position
        if self.trailer:
            raise CutShort(self.count, self.skipped_from, "the file ends inside a block")
        if rest:
            at = self.origin + self.position
            raise CutShort(self.count, at, f"the file ends inside a block, after {rest} octets of it")

    def damage(self, text: str) -> Damage:
        return Damage(self.count, self.origin + self.position, text)

    def packets(self) -> PacketBlock | None:
        """Return the packets of all complete blocks. Sets `broken` if the file cannot be read further."""
        first = self.count + 1
        self.parts = []
        try:
            read_on = self.pass_over()
            while read_on:
                self.packet_blocks()
                read_on = self.other_block()
        except Damage as damage:
            self.broken = damage
        self.end_single_packets()
        if not self.parts:
            return None
        links, starts, stops, missing, times, interfaces = np.concatenate(self.parts, axis=1)
        numbers, offsets = np.arange(first, self.count + 1), self.source.offsets(starts, self.origin)
        return PacketBlock(self.data, links, starts, stops, missing, times, numbers, offsets, interfaces)

    def end_single_packets(self) -> None:
        if self.single_packets:
            self.parts.append(np.array(self.single_packets, np.int64).T.copy())
            self.single_packets = []

    def packet_blocks(self) -> None:
        """Parse plain Enhanced Packet Blocks up to the next block of another kind."""
        section, room = self.section, self.source.most_records - self.blocks
        known = section.links, section.units, section.first_interface
        columns, self.position = packet_blocks(self.data, self.position, section.order, *known, room)
        count = columns.shape[1]
        if not count:
            return
        self.end_single_packets()
        self.parts.append(columns)
        self.blocks += count
        self.count += count
        self.time = int(columns[4, -1])
        numbers, counts = np.unique(columns[5] - section.first_interface, return_counts=True)
        for number, packets in zip(numbers.tolist(), counts.tolist(), strict=True):
            self.count_packets(number, packets)

    def count_packets(self, number: int, count: int) -> None:
        section = self.section
        self.statistics.interface(section.number, number, section.interfaces[number].name).packets += count

    def other_block(self) -> bool:
        """Parse one block of any kind; return False if it is incomplete. Raises `Damage` if its length is invalid."""
        data, position = self.data, self.position
        available = len(data) - position
        if available < 12:
            return False
        if self.blocks >= self.source.most_records:
            raise self.damage(TOO_MANY_RECORDS)
        if data.startswith(MAGIC, position):
            order = BYTE_ORDERS.get(data[position + 8 : position + 12])
            if order is None:
                raise self.damage("a section header has no byte-order magic")
            self.section = Section(order, self.sections)
        elif position + self.origin == 0:
            raise self.damage("the file does not begin with a section header")
        kind, length = self.section.head(data, position)
        least = SMALLEST.get(kind, 12)
        if length < least or length & 3 or (kind in SMALLEST and length > LARGEST_BLOCK):
            raise self.damage(f"a block of type {kind} claims a length of {length} octets")
        if available < length:
            if kind not in SMALLEST and not (kind == STATISTICS and length <= LARGEST_STATISTICS):
                self.trailer = data[position + 4 : position + 8]
                self.skip = length - 4 - available
                self.skipped_from, self.skipped_type = self.origin + position, kind
                self.position = len(data)
                if self.skip < 0:
                    self.position += self.skip
                    self.skip = 0
            return False
        if data[position + length - 4 : position + length] != data[position + 4 : position + 8]:
            raise self.damage(LENGTHS_DIFFER.format(kind))
        if kind == INTERFACE:
            if len(self.section.interfaces) == MAX_INTERFACES:
                raise self.damage(f"a section has more than {MAX_INTERFACES} interfaces")
            self.section.add(self.section.interface(data[position + 8 : position + length - 4]))
        elif kind == STATISTICS:
            self.section.statistics(
                data[position + 8 : position + length - 4][:LARGEST_STATISTICS], self.statistics, self.time
            )
        elif kind in SMALLEST and kind != SECTION:
            self.packet(kind, length)
        self.position = position + length
        self.blocks += 1
        self.sections += kind == SECTION
        return True

    def packet(self, kind: int, length: int) -> None:
        """Parse a packet block that is not plain (sections 4.3, 4.4, appendix A).

        `kind` is the block type, `length` its size in octets.
        """
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
        if time is not None:
            self.time = interface.time(time)
        missing, place = max(original - captured, 0), section.first_interface + number
        self.single_packets.append((interface.link, start, start + captured, missing, self.time, place))
        self.count += 1
        self.count_packets(number, 1)
        at = drop_count(data, start + captured + (-captured & 3), position + length - 4, section.order)
        if kind == PACKET and at is not None:
            lost = self.statistics.interface(section.number, number, interface.name)
            lost.dropped_between += Struct(section.order + "Q").unpack_from(data, at)[0]

    def pass_over(self) -> bool:
        """Skip the available octets of a long block; return False if its end is not available."""
        if not self.trailer:
            return True
        available = len(self.data) - self.position
        step = min(self.skip, available)
        self.position += step
        self.skip -= step
        if available - step < 4:
            return False
        if self.data[self.position : self.position + 4] != self.trailer:
            raise Damage(self.count, self.skipped_from, LENGTHS_DIFFER.format(self.skipped_type))
        self.position += 4
        self.trailer = b""
        return True


@compiled.where_possible
def packet_blocks(
    data: bytes, position: int, order: str, links: Sequence[int], units: Sequence[int], first_interface: int, room: int
) -> tuple[NDArray[np.int64], int]:
    """Return at most `room` plain Enhanced Packet Blocks as columns, and the index of the next block.

    Reads from index `position` on. A plain block is complete, has valid lengths, an interface whose clock is in
    `units`, and reports no lost packets. `links` and `units` are link type and clock unit of each interface of the
    section; `first_interface` is the index of its first interface in the file.
    """
    read, least = Struct(order + "IIIIIII").unpack_from, SMALLEST[PACKET]
    found: list[tuple[int, ...]] = []
    while len(found) < room and position + least <= len(data):
        kind, length, interface, high, low, captured, original = read(data, position)
        start, end, ticks = position + 28, position + length, high << 32 | low
        if kind != PACKET or length & 3 or end > len(data) or length > LARGEST_BLOCK:
            break
        if captured > min(length - least, LARGEST_PACKET) or data[end - 4 : end] != data[position + 4 : position + 8]:
            break
        if interface >= len(units) or not units[interface] or ticks > LATEST // units[interface]:
            break
        if drop_count(data, start + captured + (-captured & 3), end - 4, order) is not None:
            break
        missing, time = max(original - captured, 0), ticks * units[interface]
        found.append((links[interface], start, start + captured, missing, time, first_interface + interface))
        position = end
    return np.array(found, np.int64).reshape(-1, COLUMNS).T.copy(), position


def drop_count(data: bytes, at: int, end: int, order: str) -> int | None:
    """Return the index at which the options `data[at:end]` have the number of lost packets, or None."""
    option = Struct(order + "HH").unpack_from
    for _ in range(MAX_OPTIONS):
        if end - at < OPTION + DROP_COUNT_SIZE:
            break
        code, length = option(data, at)
        if code == DROP_COUNT and length == DROP_COUNT_SIZE:
            return at + OPTION
        if code == END_OF_OPTIONS:
            break
        at += OPTION + length + (-length & 3)
    return None
