"""The whole way on a real interface: stock pyzmq peers, one of them recorded, captured, and read in clear."""

from __future__ import annotations

import base64
import json
import pathlib
import shutil
import subprocess
import sys

import pytest
import zmq

from tests.readings import run

SECONDS = 30

SERVER_PUBLIC, SERVER_SECRET = zmq.curve_keypair()
CLIENT_PUBLIC, CLIENT_SECRET = zmq.curve_keypair()

PROGRAM = {
    "server": f"""
import zmq
socket = zmq.Context().socket(zmq.XPUB)
socket.rcvtimeo = {SECONDS * 1000}
socket.curve_server, socket.curve_secretkey = True, {SERVER_SECRET!r}
socket.bind("tcp://127.0.0.1:5555")
assert socket.recv() == b"\\1weather"
socket.send_multipart([b"weather", b"rain", bytes(300)])
socket.recv()  # the cancel, when the client goes
""",
    "client": f"""
import zmq
socket = zmq.Context().socket(zmq.SUB)
socket.rcvtimeo = {SECONDS * 1000}
socket.curve_serverkey, socket.curve_publickey, socket.curve_secretkey = {SERVER_PUBLIC, CLIENT_PUBLIC, CLIENT_SECRET!r}
socket.connect("tcp://127.0.0.1:5555")
socket.subscribe("weather")
print(socket.recv_multipart())
""",
}

HOST = """
import fcntl, json, socket, struct, subprocess, sys, threading, time
capture, seconds, commands = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
with socket.socket() as control:  # ip link set lo up
    fcntl.ioctl(control, 0x8914, struct.pack("16sh", b"lo", 0x41))
sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
sniffer.bind(("lo", 0))
sniffer.settimeout(1)
processes = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
with open(capture, "wb") as file:
    file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
    until = time.time() + seconds
    while time.time() < until:
        try:
            packet, address = sniffer.recvfrom(262144)
        except TimeoutError:
            if all(process.poll() is not None for process in processes):
                break
            continue
        if address[2] == socket.PACKET_OUTGOING:  # loopback shows each packet twice
            now = time.time_ns() // 1000
            file.write(struct.pack("<IIII", now // 10**6, now % 10**6, len(packet), len(packet)) + packet)
for process in processes:
    process.kill()
    process.wait()
sys.exit(max(process.returncode for process in processes))
"""
"""Runs commands on a separate host with loopback only, and captures the traffic."""


def has_namespaces() -> bool:
    """Whether we may make network namespaces, and listen on an interface in them."""
    unshare = shutil.which("unshare")
    return unshare is not None and subprocess.run([unshare, "--net", "true"], capture_output=True).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not has_namespaces(), reason="captures in a network namespace, which takes root")
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("recorded", ["server", "client"])
def test_messages_of_unmodified_programs_are_read_in_clear(recorded: str, tmp_path: pathlib.Path) -> None:
    capture, key_log = tmp_path / "loopback.pcap", tmp_path / "loopback.keys"
    recorder = [sys.executable, "-c", "from zmtpscope.cli import main; main()", "keys", "record", "-o", str(key_log)]
    commands = {name: [sys.executable, "-c", program] for name, program in PROGRAM.items()}
    commands[recorded] = [*recorder, "--", *commands[recorded]]
    host = [sys.executable, "-c", HOST, str(capture), str(SECONDS), json.dumps(list(commands.values()))]
    done = subprocess.run(["unshare", "--net", *host], capture_output=True, text=True, timeout=2 * SECONDS)
    assert done.returncode == 0, done.stderr

    done_reading = run("read", "--json", "--keys", str(key_log), str(capture))
    records = [json.loads(line) for line in done_reading.stdout.splitlines()]
    message = next(each for each in records if each["record"] == "message")
    assert [base64.b64decode(body) for body in message["bodies"]] == [b"weather", b"rain", bytes(300)]
    assert (message["decrypted"], message["topic"], message["socket_type"]) == (True, "weather", "XPUB")
    by_name = {each["name"]: each for each in records if each["record"] == "command"}
    assert by_name["SUBSCRIBE"]["topic"] == "weather"
    assert by_name["INITIATE"]["client_longterm_key"] == CLIENT_PUBLIC.decode()
    assert not [each for each in records if each["record"] == "finding" and each["severity"] in ("warn", "error")]
