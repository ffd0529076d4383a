"""A capture of real peers without the right to listen on an interface: they talk through a relay that takes notes."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

from scapy.layers.inet import IP, TCP

from tests.capture.containers import Packet, pcap
from tests.traffic import Conversation

RAW_IP = 101


class Relay:
    """Passes the octets of TCP connections to its `port` on to another port of this machine, in both directions."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.talks: list[Conversation] = []
        self.lock = threading.Lock()
        self.threads: list[threading.Thread] = []
        self.sockets: list[socket.socket] = []

    def accept(self, count: int) -> None:
        with self.listener:
            for _ in range(count):
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
                talk = Conversation(ports=(50_000 + len(self.talks), 5555))
                self.talks.append(talk)
                self.sockets += near, far
                for side, (source, sink) in enumerate(((near, far), (far, near))):
                    self.threads.append(threading.Thread(target=self.pump, args=(talk, side, source, sink)))
                    self.threads[-1].start()

    def pump(self, talk: Conversation, side: int, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while octets := source.recv(1 << 16):
                with self.lock:
                    talk.send(side, octets)
                sink.sendall(octets)
            sink.shutdown(socket.SHUT_WR)

    def capture(self) -> bytes:
        """A pcap of all that went through, once both ends of every connection have closed."""
        for thread in self.threads:
            thread.join(10)
        for each in self.sockets:
            each.close()
        for talk in self.talks:
            talk.close()
        return pcap([packet for talk in self.talks for packet in packets_of(talk)])


def packets_of(talk: Conversation) -> Iterator[Packet]:
    """Yield the packets of a conversation on the wire."""
    for packet in talk.packets:
        ports = packet.ports if packet.side == 0 else packet.ports[::-1]
        hosts = packet.hosts if packet.side == 0 else packet.hosts[::-1]
        source, target = (".".join(map(str, host)) for host in hosts)
        tcp = TCP(sport=ports[0], dport=ports[1], seq=packet.sequence, ack=packet.acknowledgment, flags=packet.flags)
        yield Packet(bytes(IP(src=source, dst=target) / tcp / packet.payload), packet.time, RAW_IP)
