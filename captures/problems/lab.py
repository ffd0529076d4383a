"""A network of several hosts on one Ethernet switch, programs with sockets on them, and a capture of all they say.

Every host is a network namespace; the switch is a bridge in the namespace of this process, where everything that
crosses it is captured. What programs send, receive and subscribe is logged as they do it: that is the truth.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import json
import multiprocessing
import os
import pathlib
import signal
import socket as sockets
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkProcess
from typing import Any, Literal

import zmq
from zmq.utils import z85
from zmq.utils.monitor import recv_monitor_message

from zmtpscope.records import to_text

SERVER, CLIENT, OTHER, THIRD = "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"
"""Hosts that run programs."""
SWITCH = "10.0.0.254"
"""Address of the switch; no program uses it."""
LONGEST_TEXT = 80
"""Octets of a message that a truth file contains in full; for longer ones it contains their digest."""
CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)

Frames = list[bytes]
Kind = Literal["sent", "received", "subscribe", "cancel"]


def octets(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def name_of(frames: Frames) -> list[str] | str:
    """Return a message as truth files contain it (captures/README.md)."""
    if sum(map(len, frames)) <= LONGEST_TEXT:
        return list(map(to_text, frames))
    digest = b"".join(len(frame).to_bytes(8, "big") + hashlib.sha256(frame).digest() for frame in frames)
    return "sha256 " + hashlib.sha256(digest).hexdigest()[:32]


class Socket:
    """A socket of libzmq on one of the hosts, which logs what its program does."""

    def __init__(self, lab: Lab, host: str, kind: int, **options: Any) -> None:
        self._lab, self._host = lab, host
        with lab.on(host):
            self.zmq = lab.context(host).socket(kind)
        self.zmq.linger = 0
        for name, value in options.items():
            setattr(self.zmq, name, value)
        self._events: zmq.Socket[bytes] | None = None

    def bind(self, port: int) -> Socket:
        with self._lab.on(self._host):
            self.zmq.bind(f"tcp://{self._host}:{port}")
        return self

    def connect(self, host: str, port: int) -> Socket:
        with self._lab.on(self._host):
            self.zmq.connect(f"tcp://{host}:{port}")
        return self

    def subscribe(self, *topics: str | bytes) -> Socket:
        for topic in topics:
            self._lab.log("subscribe", [octets(topic)])
            self.zmq.subscribe(topic)
        return self

    def cancel(self, topic: str | bytes) -> None:
        self._lab.log("cancel", [octets(topic)])
        self.zmq.unsubscribe(topic)

    def join(self, *groups: str) -> Socket:
        for group in groups:
            self.zmq.join(group)
        return self

    def send_to(self, group: str, body: str) -> None:
        """Send a message of a RADIO; the group is not part of it."""
        self.zmq.send(body.encode(), group=group)
        self._lab.log("sent", [body.encode()])

    def send(self, *frames: str | bytes, flags: int = 0) -> None:
        """Send a message; ROUTER removes the address in front, so it is not logged."""
        message = list(map(octets, frames))
        self.zmq.send_multipart(message, flags)
        self._lab.log("sent", message[1:] if self.zmq.socket_type == zmq.ROUTER else message)

    def receive(self, within: float = 2.0) -> Frames | None:
        """Return the next message as the program receives it; None if none arrives within this many seconds."""
        if not self.zmq.poll(int(within * 1000)):
            return None
        message = self.zmq.recv_multipart()
        logged = message[1:] if self.zmq.socket_type == zmq.ROUTER else message
        if self.zmq.socket_type != zmq.XPUB:
            self._lab.log("received", logged)
        return message

    def receive_all(self, quiet: float = 0.3) -> list[Frames]:
        """Return all messages until none has arrived for this many seconds."""
        messages = []
        while (message := self.receive(quiet)) is not None:
            messages.append(message)
        return messages

    def watch(self) -> Socket:
        """Keep the events of the socket for `events` from now on."""
        with self._lab.on(self._host):
            self._events = self.zmq.get_monitor_socket()
        return self

    def events(self, name: str, *, count: int, within: float = 10.0) -> int:
        """Wait for this many events of this name; return their number."""
        assert self._events is not None
        seen, end = 0, time.monotonic() + within
        while seen < count and (left := end - time.monotonic()) > 0:
            if self._events.poll(int(left * 1000)):
                seen += recv_monitor_message(self._events)["event"] == getattr(zmq.Event, name)
        return seen

    def close(self) -> None:
        self.zmq.close()


def wait_for_switch() -> None:
    """Wait until the switch forwards the packets of this host, some time after it was plugged in."""
    while True:
        with sockets.socket() as trial:
            trial.settimeout(0.1)
            if trial.connect_ex((SWITCH, 9)) == errno.ECONNREFUSED:
                return


class Lab:
    """The hosts and their programs. A process that is forked for a program has its own `Lab`, with the same hosts."""

    def __init__(self, log: pathlib.Path) -> None:
        self._log = log
        self._home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        self._hosts: dict[str, int] = {}
        self._contexts: dict[str, zmq.Context[zmq.Socket[bytes]]] = {}
        self._processes: list[ForkProcess] = []
        self._sockets: list[Socket] = []
        self._plain: list[sockets.socket] = []
        self.keys: list[str] = []

    # -- hosts --------------------------------------------------------------------------------------------------------

    def start_network(self) -> None:
        for command in ("link add switch type bridge", f"addr add {SWITCH}/24 dev switch", "link set switch up"):
            subprocess.run(["ip", *command.split()], check=True)
        for host in (SERVER, CLIENT, OTHER, THIRD):
            self.namespace(host)

    def namespace(self, host: str) -> int:
        """Return the network namespace of a host; the host is created if it does not exist."""
        if host not in self._hosts:
            number = int(host.rsplit(".", 1)[1])
            LIBC.unshare(CLONE_NEWNET)
            self._hosts[host] = namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
            LIBC.setns(self._home, CLONE_NEWNET)
            place = f"/proc/{os.getpid()}/fd/{namespace}"
            self.command(f"ip link add port{number} type veth peer name eth0 netns {place}")
            self.command(f"ip link set port{number} master switch up")
            with self.on(host):
                pathlib.Path("/proc/sys/net/ipv6/conf/all/disable_ipv6").write_text("1")
                self.command(f"ip addr add {host}/24 dev eth0")
                self.command("ip link set eth0 address 02:00:00:00:00:%02x up" % number)  # noqa: UP031
                self.command("ip link set lo up")
                wait_for_switch()
        return self._hosts[host]

    @contextlib.contextmanager
    def on(self, host: str) -> Iterator[None]:
        """Create everything in this block on the host."""
        namespace = self.namespace(host)
        LIBC.setns(namespace, CLONE_NEWNET)
        try:
            yield
        finally:
            LIBC.setns(self._home, CLONE_NEWNET)

    def command(self, command: str) -> None:
        subprocess.run(command.split(), check=True, pass_fds=list(self._hosts.values()))

    def unplug(self, host: str, *, plugged: bool = False) -> None:
        """Disconnect a host from the switch, or connect it again."""
        self.namespace(host)
        self.command(f"ip link set port{host.rsplit('.', 1)[1]} {'up' if plugged else 'down'}")

    def switch_off(self, host: str) -> None:
        """Turn a host off without a goodbye. The next program on it starts on a fresh host."""
        self.command(f"ip link del port{host.rsplit('.', 1)[1]}")
        os.close(self._hosts.pop(host))

    def forget(self, host: str, target: str) -> None:
        """Send what a host sends to `target` to an unused Ethernet address from now on."""
        with self.on(host):
            self.command(f"ip neigh replace {target} lladdr 02:00:00:00:00:ff dev eth0")

    def remember(self, host: str, target: str) -> None:
        """Undo `forget`."""
        with self.on(host):
            self.command(f"ip neigh del {target} dev eth0")

    # -- programs -----------------------------------------------------------------------------------------------------

    def context(self, host: str) -> zmq.Context[zmq.Socket[bytes]]:
        """Return the context of a host. Its threads start with the first socket, so create that `on` the host."""
        if host not in self._contexts:
            self._contexts[host] = zmq.Context()
        return self._contexts[host]

    def socket(self, host: str, kind: int, **options: Any) -> Socket:
        """Return a socket with these options of zmq_setsockopt, in lower case; it is open until the scenario ends."""
        self._sockets.append(Socket(self, host, kind, **options))
        return self._sockets[-1]

    def process(self, host: str, program: Callable[..., None], *arguments: Any, **options: Any) -> ForkProcess:
        """Run `program(lab, ...)` as a process. When it returns, its sockets stay open until the process is killed."""
        self.namespace(host)

        def run() -> None:
            self._contexts, self._processes, self._sockets = {}, [], []
            program(self, *arguments, **options)
            signal.pause()

        process = multiprocessing.get_context("fork").Process(target=run)
        process.start()
        self._processes.append(process)
        return process

    def kill(self, process: ForkProcess, with_signal: int = signal.SIGKILL) -> None:
        assert process.pid is not None
        os.kill(process.pid, with_signal)
        if with_signal == signal.SIGKILL:
            process.join()

    def listener(self, host: str, port: int) -> sockets.socket:
        """Return a listening TCP socket on a host, open until the scenario ends."""
        with self.on(host):
            self._plain.append(sockets.create_server((host, port)))
        return self._plain[-1]

    def accept(self, listener: sockets.socket) -> sockets.socket:
        """Return the next connection of a listener, open until the scenario ends."""
        self._plain.append(listener.accept()[0])
        return self._plain[-1]

    def connection(self, host: str, target: str, port: int) -> sockets.socket:
        """Return a TCP connection from a host to a port of another; reading gives up after 2 s."""
        with self.on(host):
            return sockets.create_connection((target, port), timeout=2.0)

    def thread(self, program: Callable[[], None]) -> None:
        threading.Thread(target=program, daemon=True).start()

    def logins(self, host: str, answer: Callable[[int], str]) -> None:
        """Run a ZAP handler (27/ZAP) on the host: `answer` returns the status codes of the first request, the second,
        ..."""
        with self.on(host):
            handler = self.context(host).socket(zmq.REP)
            handler.bind("inproc://zeromq.zap.01")

        def serve() -> None:
            number = 0
            while True:
                request = handler.recv_multipart()
                number += 1
                status = answer(number)
                user = b"user" if status == "200" else b""
                handler.send_multipart([b"1.0", request[1], status.encode(), b"", user, b""])

        self.thread(serve)

    def curve_server(self, host: str, kind: int, port: int) -> tuple[Socket, bytes]:
        """Return a CURVE server and its public key; write its long-term keys to the key log beside the capture."""
        public, secret = zmq.curve_keypair()
        server = self.socket(host, kind, curve_server=1, curve_publickey=public, curve_secretkey=secret)
        self.keys.append(f"CURVE_SERVER_LONGTERM {z85.decode(public).hex()} {z85.decode(secret).hex()}\n")
        return server.bind(port), public

    def log(self, kind: Kind, frames: Frames) -> None:
        with self._log.open("a") as log:
            log.write(json.dumps([kind, name_of(frames)]) + "\n")

    def logged(self) -> list[tuple[Kind, list[str] | str]]:
        if not self._log.exists():
            return []
        return [(kind, message) for kind, message in map(json.loads, self._log.read_text().splitlines())]

    def stop(self) -> None:
        """Stop all programs as they are, so that nothing is sent after the end of the capture."""
        for process in self._processes:
            if process.is_alive():
                self.kill(process, signal.SIGSTOP)

    def end(self) -> None:
        for process in self._processes:
            if process.is_alive():
                self.kill(process)


@contextlib.contextmanager
def captured(path: pathlib.Path) -> Iterator[None]:
    """Capture everything on the switch to `path`, except the traffic of the network itself."""
    options = ["-i", "switch", "--immediate-mode", "-U", "-Z", "root", "-w", str(path)]
    command = ["tcpdump", *options, f"ip and not igmp and not host {SWITCH}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tcpdump:
        assert tcpdump.stderr is not None
        while "listening on" not in tcpdump.stderr.readline():
            pass
        try:
            yield
            time.sleep(0.2)
        finally:
            tcpdump.send_signal(signal.SIGINT)
            tcpdump.communicate()
