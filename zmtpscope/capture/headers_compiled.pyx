# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""Compiled twin of `headers.py`: plain packets are decoded here, all others by the decoder.

A plain packet is IPv4 without options or fragments, or IPv6 without extension headers, directly on a link layer of
`ip_header`; then TCP, or UDP to a port of no tunnel, with lengths that agree.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp

import numpy as np

from zmtpscope.capture import decoder as decoding, headers as twin, link as link_types, segments as flag_bits
from zmtpscope.capture.octets_compiled cimport number_at, short_at
from zmtpscope.capture.tunnels import ON_UDP

cdef int ETHERNET = link_types.ETHERNET, SLL = link_types.SLL, SLL2 = link_types.SLL2, FAMILY = link_types.NULL, LOOP = link_types.LOOP
cdef int IPV4 = link_types.IPV4, IPV6 = link_types.IPV6, TCP = decoding.TCP, UDP = decoding.UDP
cdef int SYN = flag_bits.SYN, RST = flag_bits.RST, ACK = flag_bits.ACK, CUT = flag_bits.CUT, CLOSED_WINDOW = flag_bits.CLOSED_WINDOW
cdef int64_t ORDINALS = flag_bits.ORDINALS

cdef enum:
    IPV4_HEADER = 20
    IPV6_HEADER = 40
    TCP_HEADER = 20
    UDP_HEADER = 8
    TAG = 4
    MAX_TAGS = 2
    MAX_RAW = 512  # link types above are not raw IP

cdef enum Kind:
    OTHER
    SEGMENT
    DATAGRAM

cdef struct Plain:
    int64_t key, key_size, start, stop, cut, sequence, acknowledgment
    int flags, hops

cdef uint8_t[MAX_RAW] is_raw  # link types without a header
cdef uint8_t[65536] is_special  # destination ports of UDP that the decoder looks at
cdef int each
for each in link_types.RAW_TYPES:
    is_raw[each] = True
for each in (0, *ON_UDP):
    is_special[each] = True


cdef inline int64_t ip_header(const uint8_t *octets, int64_t at, int64_t stop, int64_t link, int *version) noexcept nogil:
    """Return where the IP header begins, at most `stop`. Sets its version, 0 if unknown."""
    cdef int64_t header = 14 if link == ETHERNET else 16 if link == SLL else 20 if link == SLL2 else 4
    cdef int protocol, family, _
    version[0] = 0
    if 0 <= link < MAX_RAW and is_raw[link]:
        if at < stop:
            version[0] = 6 if octets[at] >> 4 == 6 else 4
        return at
    if stop - at < header:
        return at
    if link == FAMILY or link == LOOP:  # the family in either byte order
        family = 0
        if not (octets[at + 1] or octets[at + 2]):
            family = octets[at] if not octets[at + 3] else octets[at + 3] if not octets[at] else 0
        version[0] = 4 if family == 2 else 6 if family in (10, 23, 24, 28, 30) else 0
        return at + header
    if link not in (ETHERNET, SLL, SLL2):
        return at
    protocol = short_at(octets + (at if link == SLL2 else at + header - 2), False)
    at += header
    for _ in range(MAX_TAGS):
        if protocol not in (0x8100, 0x88A8, 0x9100, 0x9200) or link == SLL2 or stop - at < TAG:
            break
        protocol = short_at(octets + at + 2, False)
        at += TAG
    version[0] = 4 if protocol == IPV4 else 6 if protocol == IPV6 else 0
    return at


cdef inline Kind plain_packet(const uint8_t *octets, int64_t at, int64_t stop, int64_t link, Plain *found) noexcept nogil:
    """Decode the headers of a packet if it is plain."""
    cdef int version, protocol, hops, flags = 0
    cdef int64_t end, length
    at = ip_header(octets, at, stop, link, &version)
    if version == 4:
        if stop - at < IPV4_HEADER + UDP_HEADER or octets[at] != 0x45 or short_at(octets + at + 6, False) & 0x3FFF:
            return OTHER
        end, hops, protocol = at + short_at(octets + at + 2, False), octets[at + 8], octets[at + 9]
        found.key, found.key_size = at + 12, 12
        at += IPV4_HEADER
    elif version == 6:
        if stop - at < IPV6_HEADER + UDP_HEADER or octets[at] >> 4 != 6:
            return OTHER
        end, hops, protocol = at + IPV6_HEADER + short_at(octets + at + 4, False), octets[at + 7], octets[at + 6]
        found.key, found.key_size = at + 8, 36
        at += IPV6_HEADER
    else:
        return OTHER
    if protocol == TCP:
        if stop - at < TCP_HEADER or octets[at + 12] < 0x50:
            return OTHER
        found.start = at + (octets[at + 12] >> 4) * 4
        flags = octets[at + 13]
        if not short_at(octets + at + 14, False) and flags & (SYN | RST | ACK) == ACK:
            flags |= CLOSED_WINDOW
        found.hops = hops if flags & (SYN | RST) else 0
        found.sequence, found.acknowledgment = number_at(octets + at + 4, False), number_at(octets + at + 8, False)
    elif protocol == UDP:
        length = short_at(octets + at + 4, False)
        if is_special[short_at(octets + at + 2, False)] or 0 < length < UDP_HEADER:
            return OTHER
        found.start = at + UDP_HEADER
        if length and found.start <= end:
            end = min(end, at + length)
    else:
        return OTHER
    if found.start > end:
        return OTHER
    found.stop = min(end, stop)
    found.cut = end - max(found.start, found.stop)
    found.start = min(found.start, found.stop)
    if protocol == UDP:
        return DATAGRAM
    found.flags = flags | CUT if found.cut else flags
    return SEGMENT


def decode(packets, decoder, int64_t ordinal):
    cdef const uint8_t[::1] data = packets.data
    cdef const int64_t[:] links = packets.links, starts = packets.starts, stops = packets.stops
    cdef const int64_t[:] references = packets.references, times = packets.times
    cdef Py_ssize_t row, size = data.shape[0], room = links.shape[0], count = 0, datagram_count = 0
    cdef const uint8_t *octets = &data[0] if size else NULL
    cdef int64_t flow = 0, last = 0, last_size = 0
    cdef Plain found = Plain(0, 0, 0, 0, 0, 0, 0, 0, 0)
    cdef Kind kind
    cdef dict flows = {}, datagram_flows = {}, cut = {}, hops = {}
    of_segments, of_datagrams = np.empty((twin.SEGMENT_COLUMNS, room), np.int64), None
    cdef int64_t[:, ::1] segments = of_segments, datagrams = None
    for row in range(room):
        if not 0 <= starts[row] <= stops[row] <= size:
            raise IndexError("a packet that is not in its block")
        kind = plain_packet(octets, starts[row], stops[row], links[row], &found)
        if kind == OTHER:
            slow = decoder.packet(
                row, links[row], starts[row], stops[row], packets.missing[row], references[row], times[row]
            )
            if slow is None:
                continue
            key, found.key, found.key_size = slow.key, 0, 0
            found.start, found.stop, found.cut = slow.start, slow.stop, slow.cut
            kind = DATAGRAM
            if isinstance(slow, decoding.Segment):
                found.sequence, found.acknowledgment, found.flags, found.hops = slow[1], slow[2], slow[3], slow[7]
                kind = SEGMENT
        if kind == SEGMENT:
            if not found.key_size or found.key_size != last_size or memcmp(octets + found.key, octets + last, last_size):
                last, last_size = found.key, found.key_size
                if last_size:
                    key = octets[last : last + last_size]
                flow = flows.setdefault(key, len(flows))
            segments[0, count], segments[1, count] = flow, found.sequence
            segments[2, count], segments[3, count] = found.acknowledgment, found.flags
            segments[4, count], segments[5, count] = found.start, found.stop
            segments[6, count], segments[7, count] = references[row], times[row]
            if found.cut:
                cut[count] = found.cut
            if found.hops:
                hops[count] = found.hops
            count += 1
            continue
        if datagrams is None:
            of_datagrams = np.empty((twin.DATAGRAM_COLUMNS, room), np.int64)
            datagrams = of_datagrams
        if found.key_size:
            key = octets[found.key : found.key + found.key_size]
        datagrams[0, datagram_count] = datagram_flows.setdefault(key, len(datagram_flows))
        datagrams[1, datagram_count], datagrams[2, datagram_count] = found.start, found.stop
        datagrams[3, datagram_count] = found.cut
        datagrams[4, datagram_count], datagrams[5, datagram_count] = references[row], times[row]
        datagrams[6, datagram_count] = row
        datagrams[7, datagram_count] = ordinal + ORDINALS * (count - 1)
        datagram_count += 1
    if datagram_count:
        of_datagrams = of_datagrams[:, :datagram_count]
    return list(flows), of_segments[:, :count], cut, hops, list(datagram_flows), of_datagrams
