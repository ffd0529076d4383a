"""Record keys from programs with a stock libzmq, and decrypt their traffic with these keys only."""

from __future__ import annotations

import json
import os
import pathlib
import platform
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
import pytest
import zmq
from nacl.bindings import crypto_box_open_afternm
from zmq.utils import z85

from zmtpscope.cli.keys import record
from zmtpscope.live.keys.recorder import KeyRecording, KeyRecordingError

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="keys are recorded on Linux only"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
]

RECORD = [sys.executable, "-c", "from zmtpscope.cli import main; main()", "keys", "record"]
SECONDS = 30
NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return a cache that all tests share, so that the library is compiled once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _cache(compiled: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(compiled))


@pytest.fixture
def key_log(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "zmtpscope.keys"


def recorded(key_log: pathlib.Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program with the recorder; return the output of both."""
    return subprocess.run(
        [*RECORD, "-o", str(key_log), "--", *command],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=os.environ | environment,
    )


def python(program: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", program, *arguments]


def keys_in(key_log: pathlib.Path) -> list[tuple[bytes, bytes]]:
    """Return C' and k of each line of a key log."""
    lines = [line.split() for line in key_log.read_text().splitlines() if not line.startswith("#")]
    assert {label for label, *_ in lines} <= {"CURVE_SHARED"}
    return [(bytes.fromhex(client_key), bytes.fromhex(shared_key)) for _, client_key, shared_key in lines]


# Conversations over CURVE, through a relay that keeps the octets.

SERVER_PUBLIC, SERVER_SECRET = zmq.curve_keypair()
CLIENT_PUBLIC, CLIENT_SECRET = zmq.curve_keypair()

SERVER = f"""
import sys, zmq
server = zmq.Context().socket(zmq.ROUTER)
server.rcvtimeo = {SECONDS * 1000}
server.curve_server, server.curve_secretkey = True, {SERVER_SECRET!r}
print(server.bind_to_random_port("tcp://127.0.0.1"), flush=True)
for _ in range(int(sys.argv[1])):
    identity, *parts = server.recv_multipart()
    server.send_multipart([identity, b"answer to", *parts])
"""

CLIENT = f"""
import sys, zmq
client = zmq.Context().socket(zmq.DEALER)
client.rcvtimeo = {SECONDS * 1000}
client.curve_serverkey, client.curve_publickey, client.curve_secretkey = {SERVER_PUBLIC, CLIENT_PUBLIC, CLIENT_SECRET!r}
client.connect("tcp://127.0.0.1:" + sys.argv[1])
for word in sys.argv[2:]:
    client.send_multipart([word.encode(), bytes(300)])
    print(client.recv_multipart())
"""


class Relay:
    """A port on loopback that forwards to another; `talks` contains the octets from and to the opener of each
    connection."""

    def __init__(self, target: int) -> None:
        self.talks: list[tuple[bytearray, bytearray]] = []
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                opener, _ = self._listener.accept()
            except OSError:
                return
            other = socket.create_connection(("127.0.0.1", self._target))
            self.talks.append((bytearray(), bytearray()))
            ends = ((opener, other), (other, opener))
            for (source, sink), kept in zip(ends, self.talks[-1], strict=True):
                threading.Thread(target=self._copy, args=(source, sink, kept), daemon=True).start()

    @staticmethod
    def _copy(source: socket.socket, sink: socket.socket, kept: bytearray) -> None:
        with source:
            while True:
                try:
                    octets = source.recv(65536)
                    kept += octets
                    sink.sendall(octets)
                except OSError:
                    return
                if not octets:
                    return


@contextmanager
def relay(target: int) -> Iterator[Relay]:
    made = Relay(target)
    try:
        yield made
    finally:
        made.close()


def bodies(stream: bytes) -> list[bytes]:
    """Return the bodies of all frames after the greeting of 64 octets."""
    found, position = [], 64
    while position < len(stream):
        form = ">Q" if stream[position] & 2 else ">B"
        (size,) = struct.unpack_from(form, stream, position + 1)
        start = position + 1 + struct.calcsize(form)
        position = start + size
        found.append(bytes(stream[start:position]))
    return found


def opened(talk: tuple[bytearray, bytearray], keys: dict[bytes, bytes]) -> tuple[list[bytes], list[bytes]]:
    """Decrypt the octets of client and server of a connection, from READY to the last message, with a line of the
    key log."""
    from_client, from_server = map(bodies, talk)
    hello = from_client[0]
    key = keys[hello[80:112]]
    assert hello.startswith(b"\x05HELLO")
    assert crypto_box_open_afternm(from_server[1][14:], b"CurveZMQREADY---" + from_server[1][6:14], key)
    sent = []
    for side, frames in ((b"C", from_client[2:]), (b"S", from_server[2:])):
        boxes = [frame for frame in frames if frame.startswith(b"\x07MESSAGE")]
        assert boxes == frames
        plain = [crypto_box_open_afternm(box[16:], b"CurveZMQMESSAGE" + side + box[8:16], key) for box in boxes]
        sent.append([message[1:] for message in plain])
    return sent[0], sent[1]


@contextmanager
def server_here(answers: int) -> Iterator[int]:
    """Run a CURVE server in this process, without the recorder; yield its port."""
    context = zmq.Context()
    server = context.socket(zmq.ROUTER)
    server.rcvtimeo = SECONDS * 1000
    server.curve_server, server.curve_secretkey = True, SERVER_SECRET
    port = server.bind_to_random_port("tcp://127.0.0.1")

    def answer() -> None:
        with server:
            for _ in range(answers):
                identity, *parts = server.recv_multipart()
                server.send_multipart([identity, b"answer to", *parts])

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield port
    finally:
        thread.join()
        context.term()


def ask(port: int, word: bytes) -> list[bytes]:
    """Send one request from a CURVE client in this process, without the recorder, on a new connection."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as client:
        client.rcvtimeo = SECONDS * 1000
        client.curve_serverkey, client.curve_publickey, client.curve_secretkey = (
            SERVER_PUBLIC,
            CLIENT_PUBLIC,
            CLIENT_SECRET,
        )
        client.connect(f"tcp://127.0.0.1:{port}")
        client.send(word)
        return client.recv_multipart()


def test_a_recorded_client_opens_what_both_sides_sent(key_log: pathlib.Path) -> None:
    with server_here(answers=2) as port, relay(port) as between:
        done = recorded(key_log, *python(CLIENT, str(between.port), "one", "two"))
    assert (done.returncode, done.stdout.count("answer to")) == (0, 2), done.stderr
    assert opened(between.talks[0], dict(keys_in(key_log))) == (
        [b"one", bytes(300), b"two", bytes(300)],
        [b"answer to", b"one", bytes(300), b"answer to", b"two", bytes(300)],
    )
    assert done.stderr.splitlines() == [
        f"zmtpscope: recording CURVE keys to {key_log}",
        f"zmtpscope: {key_log}: the keys of 1 connection recorded -> zmtpscope read --keys {key_log} CAPTURE",
    ]


def test_a_recorded_server_opens_every_connection(key_log: pathlib.Path) -> None:
    words = [b"word %d" % number for number in range(8)]
    command = [*RECORD, "-o", str(key_log), "--", *python(SERVER, str(len(words)))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        with relay(int(process.stdout.readline())) as between:
            threads = [threading.Thread(target=ask, args=(between.port, word)) for word in words]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        _, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, f"the keys of {len(words)} connections recorded" in err) == (0, True)
    keys = dict(keys_in(key_log))
    talks = [opened(talk, keys) for talk in between.talks]
    assert sorted(talks) == [([word], [b"answer to", word]) for word in words]


def test_one_line_opens_one_connection_and_no_other(key_log: pathlib.Path) -> None:
    with server_here(answers=2) as port, relay(port) as between:
        recorded(key_log, *python(CLIENT, str(between.port), "one"))
        ask(between.port, b"not recorded")
    recorded_talk, other_talk = between.talks
    ((client_key, shared_key),) = keys_in(key_log)
    assert bodies(recorded_talk[0])[0][80:112] == client_key
    with pytest.raises(KeyError):
        opened(other_talk, {client_key: shared_key})


def test_long_term_keys_are_never_written(key_log: pathlib.Path) -> None:
    with server_here(answers=1) as port:
        recorded(key_log, *python(CLIENT, str(port), "one"))
    written = {key for line in keys_in(key_log) for key in line}
    pairs = (SERVER_PUBLIC, SERVER_SECRET, CLIENT_PUBLIC, CLIENT_SECRET)
    assert len(written) == 2
    assert written.isdisjoint({z85.decode(key) for key in pairs})

    made = python("import zmq; print(zmq.curve_keypair(), zmq.curve_public(zmq.curve_keypair()[1]))")
    key_log.unlink()
    assert recorded(key_log, *made).returncode == 0
    assert keys_in(key_log) == []


def test_programs_that_the_program_runs_share_the_file(key_log: pathlib.Path) -> None:
    count = 4
    with server_here(answers=count) as port:
        client = '"$0" -c "$1" "$2" one & '
        done = recorded(key_log, "sh", "-c", client * count + "wait", sys.executable, CLIENT, str(port))
    assert f"the keys of {count} connections recorded" in done.stderr
    assert len(dict(keys_in(key_log))) == count


def test_a_connection_recorded_at_both_ends_counts_once(key_log: pathlib.Path) -> None:
    both = f"""
import subprocess, sys
server = subprocess.Popen([sys.executable, "-c", {SERVER!r}, "1"], stdout=subprocess.PIPE, text=True)
subprocess.run([sys.executable, "-c", {CLIENT!r}, server.stdout.readline().strip(), "one"])
server.wait()
"""
    done = recorded(key_log, *python(both))
    assert "the keys of 1 connection recorded" in done.stderr
    first, second = keys_in(key_log)
    assert first == second


def test_without_curve_the_likely_reason_is_reported(key_log: pathlib.Path) -> None:
    done = recorded(key_log, "sh", "-c", "echo hello; exit 3")
    assert (done.returncode, done.stdout) == (3, "hello\n")
    assert "no keys were recorded -> if the program opened CURVE connections, its keys cannot" in done.stderr
    assert keys_in(key_log) == []


def test_other_uses_of_the_same_functions_work_as_ever_and_are_not_written(key_log: pathlib.Path) -> None:
    """PyNaCl contains a libsodium, which also finds the library."""
    program = """
from nacl.bindings import crypto_box, crypto_box_beforenm, crypto_box_keypair, crypto_box_open
(public, secret), (other_public, other_secret) = crypto_box_keypair(), crypto_box_keypair()
assert crypto_box_beforenm(public, other_secret) == crypto_box_beforenm(other_public, secret)
assert crypto_box_open(crypto_box(b"text", bytes(24), public, other_secret), bytes(24), other_public, secret) == b"text"
crypto_box_beforenm(other_public, secret)
"""
    done = recorded(key_log, *python(program))
    assert done.returncode == 0, done.stderr
    assert keys_in(key_log) == []


# The library alone, with a fake libsodium that computes plain values and can be linked in any way.

SODIUM = """
#include <errno.h>
typedef unsigned char octet;
int crypto_box_open(octet *m, const octet *c, unsigned long long size, const octet *n, const octet *p, const octet *s)
{ for (int i = 0; i < size; i++) m[i] = c[i]; errno = 17; return c[0] ? -1 : 0; }
int crypto_box_beforenm(octet *k, const octet *p, const octet *s)
{ for (int i = 0; i < 32; i++) k[i] = p[i] ^ s[i]; errno = 18; return 0; }
int crypto_scalarmult_base(octet *p, const octet *s)
{ for (int i = 0; i < 32; i++) p[i] = s[i] + 1; errno = 19; return 0; }
"""
USER = """
typedef unsigned char octet;
int crypto_box_open(octet *, const octet *, unsigned long long, const octet *, const octet *, const octet *);
int crypto_box_beforenm(octet *, const octet *, const octet *);
int open_box(octet *m, const octet *c, unsigned long long size, const octet *n, const octet *p, const octet *s)
{ WAY int result = crypto_box_open(m, c, size, n, p, s); return result; }
int beforenm(octet *k, const octet *p, const octet *s)
{ WAY int result = crypto_box_beforenm(k, p, s); return result; }
"""
DRIVER = """
import ctypes, json, os, resource, signal, sys
library, steps = sys.argv[1], json.loads(sys.argv[2])
user = ctypes.CDLL(library, use_errno=True)
keys = {name: ctypes.create_string_buffer(bytes([ord(name)] * 32), 32) for name in "pqst"}
for what, *step in steps:
    if what == "chmod":
        os.chmod(os.environ["ZMTPSCOPE_KEY_LOG"], 0o640)
    elif what == "cut":
        with open(os.environ["ZMTPSCOPE_KEY_LOG"], "a") as file:
            file.write("CURVE_SHARED 00")
    elif what == "limit":
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it
        size = os.path.getsize(os.environ["ZMTPSCOPE_KEY_LOG"]) + int(step[0])
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    elif what == "pending":
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGXFSZ])
        signal.raise_signal(signal.SIGXFSZ)
    elif what == "still-pending":
        assert signal.sigpending() == {signal.SIGXFSZ}
    elif what == "beforenm":
        shared = ctypes.create_string_buffer(32)
        public, secret = (keys[name] for name in step)
        assert user.beforenm(shared, public, secret) == 0
        assert ctypes.get_errno() == 18
        assert shared.raw == bytes(a ^ b for a, b in zip(public.raw, secret.raw))
    else:
        nonce, public, secret = step
        damaged = what == "damaged"
        nonce = nonce.encode().ljust(24, b"n")
        message, box = ctypes.create_string_buffer(64), bytes([damaged]) + bytes(31) + b"q" * 32
        assert user.open_box(message, box, 64, nonce, keys[public], keys[secret]) == -damaged
        assert ctypes.get_errno() == 17
"""


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    folder = tmp_path_factory.mktemp("built")

    def build(name: str, source: str, *options: str) -> str:
        path = str(folder / name)
        command = ["cc", "-O2", "-fPIC", "-shared", "-o", path, "-x", "c", "-", "-x", "none", *options]
        subprocess.run(command, input=source, text=True, check=True)
        return path

    return build


@pytest.fixture(scope="session")
def user(build: Callable[..., str]) -> str:
    """Return a library with its own libsodium, which no other library uses, like the libzmq of a Python wheel."""
    sodium = build("libsodium-of-a-test.so", SODIUM)
    return build("user.so", USER.replace("WAY", "volatile"), sodium)


def steps(*given: str) -> str:
    return json.dumps([step.split() for step in given])


CLIENT_STEPS = ("open WELCOME- p s", "beforenm q s")
CLIENT_KEYS = [(bytes([ord("s") + 1] * 32), bytes([ord("q") ^ ord("s")] * 32))]
SERVER_STEPS = ("open CurveZMQHELLO--- p t", "open CurveZMQINITIATE p s", "open VOUCH--- q s", "beforenm p s")
SERVER_KEYS = [(b"p" * 32, bytes([ord("p") ^ ord("s")] * 32))]


def test_a_client_is_known_by_its_welcome_and_a_server_by_its_initiate(key_log: pathlib.Path, user: str) -> None:
    for known, expected in ((CLIENT_STEPS, CLIENT_KEYS), (SERVER_STEPS, SERVER_KEYS)):
        key_log.unlink(missing_ok=True)
        done = recorded(key_log, *python(DRIVER, user, steps(*known)))
        assert (done.returncode, keys_in(key_log)) == (0, expected), done.stderr


@pytest.mark.parametrize(
    "unknown",
    [
        ["beforenm p s"],
        ["open CurveZMQINITIATE p s", "beforenm q s"],
        ["open WELCOME- p s", "beforenm p s"],
        ["open CurveZMQINITIATE p s", "open VOUCH--- q s", "beforenm q s"],
        ["open WELCOME- p s", "beforenm q t"],
        ["open CurveZMQINITIATE p s", "beforenm p t"],
        ["damaged WELCOME- p s", "beforenm q s"],
        ["open WELCOME- p s", "open anything p s", "beforenm q s"],
        ["open CurveZMQINITIATE p s", "damaged VOUCH--- q s", "beforenm p s"],
        ["open VOUCH--- q s", "beforenm p s"],
    ],
    ids=", ".join,
)
def test_keys_of_nothing_like_a_handshake_are_not_written(key_log: pathlib.Path, user: str, unknown: list[str]) -> None:
    done = recorded(key_log, *python(DRIVER, user, steps(*unknown)))
    assert (done.returncode, keys_in(key_log)) == (0, []), done.stderr


def test_a_recorder_in_a_recorder_writes_to_its_own_file(
    key_log: pathlib.Path, user: str, tmp_path: pathlib.Path
) -> None:
    """The inner recorder may be of another version, or compiled differently."""
    inner = tmp_path / "inner.keys"
    command = [*RECORD, "-o", str(inner), *python(DRIVER, user, steps(*CLIENT_STEPS))]
    done = recorded(key_log, "env", "CC=cc -g", *command)
    assert (done.returncode, keys_in(inner), keys_in(key_log)) == (0, CLIENT_KEYS, []), done.stderr


def test_one_handshake_makes_one_line(key_log: pathlib.Path, user: str) -> None:
    recorded(key_log, *python(DRIVER, user, steps(*CLIENT_STEPS, "beforenm p s")))
    assert keys_in(key_log) == CLIENT_KEYS


def test_the_real_function_is_found_however_it_was_linked(key_log: pathlib.Path, build: Callable[..., str]) -> None:
    preloaded = build("preloaded.so", SODIUM)
    not_linked = build("not-linked.so", USER.replace("WAY", "volatile"))
    jumping = build("jumping.so", USER.replace("WAY", ""), build("libsodium-of-a-test.so", SODIUM))
    whole = build("whole.so", SODIUM + USER.replace("WAY", ""))
    for library, others in ((not_linked, preloaded), (jumping, ""), (whole, "")):
        key_log.unlink(missing_ok=True)
        done = recorded(key_log, *python(DRIVER, library, steps(*CLIENT_STEPS)), LD_PRELOAD=others)
        assert (done.returncode, keys_in(key_log)) == (0, CLIENT_KEYS), done.stderr


def test_a_file_that_others_may_read_by_now_gets_no_more_keys(key_log: pathlib.Path, user: str) -> None:
    done = recorded(key_log, *python(DRIVER, user, steps("chmod", *CLIENT_STEPS)))
    assert (done.returncode, keys_in(key_log)) == (0, []), done.stderr


@pytest.mark.parametrize("room", [0, 50])
def test_a_limit_on_the_size_of_files_does_not_end_the_program(key_log: pathlib.Path, user: str, room: int) -> None:
    done = recorded(key_log, *python(DRIVER, user, steps(f"limit {room}", *CLIENT_STEPS, *SERVER_STEPS)))
    assert (done.returncode, "no keys were recorded" in done.stderr) == (0, True), done.stderr
    done = recorded(key_log, *python(DRIVER, user, steps("pending", "limit 0", *CLIENT_STEPS, "still-pending")))
    assert done.returncode == 0, done.stderr


def test_a_line_that_was_cut_off_takes_no_other_with_it(key_log: pathlib.Path, user: str) -> None:
    done = recorded(key_log, *python(DRIVER, user, steps("cut", *CLIENT_STEPS, *SERVER_STEPS)))
    assert "the keys of 2 connections recorded" in done.stderr
    assert [len(line) for line in key_log.read_text().splitlines()[1:]] == [15, 142, 142]


# The loader: a call that waits for it while it is in a constructor that waits for the call would wait for ever

OPENS_A_BOX = """
#include <semaphore.h>
#include <pthread.h>
typedef unsigned char octet;
int crypto_box_open(octet *, const octet *, unsigned long long, const octet *, const octet *, const octet *);
static sem_t asked, done;
static void *work(void *nothing)
{
    octet octets[99] = {0};
    while (!sem_wait(&asked)) {
        volatile int result = crypto_box_open(octets, octets, 64, octets, octets, octets);
        sem_post(&done);
    }
    return nothing;
}
void start(void) { pthread_t thread; pthread_create(&thread, 0, work, 0); }
void ask(void) { sem_post(&asked); sem_wait(&done); }
"""
ASKS = "void start(void), ask(void); __attribute__((constructor)) static void begin(void) { START ask(); }"
LOADS = """
import ctypes, os, sys
worker, waiting = sys.argv[1:]
if worker:
    worker = ctypes.CDLL(worker)
    worker.start()
    worker.ask()
ctypes.CDLL(waiting)
print("loaded", flush=True)
os._exit(0)  # the thread goes on
"""


def loaded(key_log: pathlib.Path, worker: str, waiting: str, **environment: str) -> str:
    """Return the output of a program that loads a library with a constructor that waits for another thread."""
    command = ["timeout", "-s", "KILL", "10", *python(LOADS, worker, waiting)]
    return recorded(key_log, *command, **environment).stdout


def test_a_plugin_that_waits_for_a_box_of_another_thread_while_it_is_loaded(
    key_log: pathlib.Path, build: Callable[..., str]
) -> None:
    preloaded = build("preloaded.so", SODIUM)
    waiting = build("starts-and-asks.so", OPENS_A_BOX + ASKS.replace("START", "start();"))
    assert loaded(key_log, "", waiting, LD_PRELOAD=preloaded) == "loaded\n"


def test_and_where_the_thread_uses_a_libsodium_that_was_loaded_later(
    key_log: pathlib.Path, build: Callable[..., str]
) -> None:
    worker = build("opens-a-box.so", OPENS_A_BOX, build("libsodium-of-a-test.so", SODIUM))
    waiting = build("asks.so", ASKS.replace("START", ""), worker)
    assert loaded(key_log, worker, waiting) == "loaded\n"


@pytest.mark.parametrize("then", ["unload", "keep"])
def test_each_library_gets_its_own_libsodium(key_log: pathlib.Path, build: Callable[..., str], then: str) -> None:
    """After the first is unloaded, the second is loaded at its address, with its functions at other places."""
    program = """
import ctypes, _ctypes, sys
for number, library in enumerate(sys.argv[2:]):
    user = ctypes.CDLL(library)
    assert user.open_box(bytes(64), bytes(64), 64, bytes(24), bytes(32), bytes(32)) == number
    if sys.argv[1] == "unload":
        _ctypes.dlclose(user._handle)
"""
    libraries = []
    for number in (0, 1):
        source = f'__asm__(".text; .skip {number * 256}");' + SODIUM.replace("? -1 : 0", f"? -1 : {number}")
        sodium = build(f"sodium-{number}.so", source)
        libraries.append(build(f"user-{number}.so", USER.replace("WAY", "volatile"), sodium))
    done = recorded(key_log, *python(program, then, *libraries))
    assert done.returncode == 0, done.stderr


def test_a_thread_that_is_to_end_does_not_end_while_a_line_is_written(
    key_log: pathlib.Path, build: Callable[..., str]
) -> None:
    source = """
#include <pthread.h>
#include <string.h>
typedef unsigned char octet;
int crypto_box_open(octet *, const octet *, unsigned long long, const octet *, const octet *, const octet *);
int crypto_box_beforenm(octet *, const octet *, const octet *);
static int returned;
static void *work(void *nothing)
{
    octet octets[64] = {0}, nonce[24] = "CurveZMQINITIATE", key[32];
    pthread_cancel(pthread_self());
    crypto_box_open(octets, octets, 64, nonce, octets, octets);
    crypto_box_beforenm(key, octets, octets);
    returned = 1;
    pthread_testcancel();
    returned = 2;
    return nothing;
}
int run(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    pthread_join(thread, 0);
    return returned;
}
"""
    library = build("cancelled.so", source, build("libsodium-of-a-test.so", SODIUM))
    done = recorded(key_log, *python("import ctypes, sys; sys.exit(ctypes.CDLL(sys.argv[1]).run())", library))
    assert (done.returncode, keys_in(key_log)) == (1, [(bytes(32), bytes(32))]), done.stderr


# The key log


def test_the_key_log_is_for_its_owner_only(key_log: pathlib.Path) -> None:
    recorded(key_log, "true")
    assert stat.S_IMODE(key_log.stat().st_mode) == 0o600
    assert "delete them when you are done" in key_log.read_text()


def test_without_a_name_it_is_in_the_working_directory(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert record.main(["true"], standalone_mode=False) == 0
    assert (tmp_path / "zmtpscope.keys").is_file()
    assert "recording CURVE keys to zmtpscope.keys\n" in capsys.readouterr().err


def test_lines_that_are_there_stay_and_are_not_counted(key_log: pathlib.Path, user: str) -> None:
    before = f"CURVE_SHARED {'00' * 32} {'11' * 32}"
    key_log.write_text(before)  # no newline: the file was cut off
    key_log.chmod(0o600)
    done = recorded(key_log, *python(DRIVER, user, steps(*CLIENT_STEPS)))
    assert "the keys of 1 connection recorded" in done.stderr
    assert key_log.read_text().splitlines()[0] == before
    assert keys_in(key_log) == [(bytes(32), b"\x11" * 32), *CLIENT_KEYS]


def refused(key_log: pathlib.Path, *command: str) -> str:
    """Return the error with which the recorder refuses to run a program."""
    with pytest.raises(click.ClickException) as error:
        record.main(["-o", str(key_log), "--", *(command or ["true"])], standalone_mode=False)
    message = error.value.format_message()
    assert (error.value.exit_code, message.count("\n")) == (2, 0)
    return message


def test_a_key_log_is_a_plain_file_that_only_the_user_reads(tmp_path: pathlib.Path, key_log: pathlib.Path) -> None:
    key_log.touch(0o640)
    assert refused(key_log).endswith(f"other users can read it, and its keys decrypt traffic; chmod 600 {key_log}")
    key_log.chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to(key_log)
    assert "it is a symbolic link; name the file itself" in refused(link)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    assert "plain files only" in refused(pipe)
    assert f"{tmp_path}: Is a directory" in refused(tmp_path)
    assert "No such file or directory" in refused(tmp_path / "missing" / "keys")
    assert key_log.read_text() == ""


@needs_root
def test_a_key_log_of_another_user_is_refused(key_log: pathlib.Path) -> None:
    key_log.touch(0o600)
    os.chown(key_log, NOBODY, NOBODY)
    assert "belongs to another user" in refused(key_log)


# Programs that cannot be recorded


def test_there_must_be_a_program(key_log: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert "no-such-program: no such program" in refused(key_log, "no-such-program")
    with pytest.raises(click.UsageError, match="name the program to run"):
        record.main(["--"], standalone_mode=False)
    plain = tmp_path / "plain"
    plain.write_text("echo hello")
    assert "or no permission to run it" in refused(key_log, str(plain))
    assert not key_log.exists()
    plain.chmod(0o700)
    assert "plain: Exec format error" in refused(key_log, str(plain))


@pytest.mark.parametrize(("bit", "cause"), [(stat.S_ISUID, "is set-uid"), (stat.S_ISGID, "is set-gid")])
def test_programs_with_other_rights_take_no_preloaded_library(
    key_log: pathlib.Path, tmp_path: pathlib.Path, bit: int, cause: str
) -> None:
    program = tmp_path / "program"
    shutil.copy("/bin/true", program)
    program.chmod(0o755 | bit)
    script = tmp_path / "script"
    script.write_text(f"#!{program}\n")
    script.chmod(0o755)
    for named in (program, script):
        assert f"{program}: it {cause}; the loader of the system ignores LD_PRELOAD" in refused(key_log, str(named))
    assert not key_log.exists()


def test_programs_with_file_capabilities_take_none_either(key_log: pathlib.Path, tmp_path: pathlib.Path) -> None:
    program = tmp_path / "program"
    shutil.copy("/bin/true", program)
    try:  # cap_net_raw, permitted and effective
        os.setxattr(program, "security.capability", struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0))
    except OSError:
        pytest.skip("no right to give file capabilities here")
    assert "has file capabilities; the loader" in refused(key_log, str(program))


def test_scripts_are_programs(key_log: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "some-script"
    script.write_text('#!/bin/sh\necho "$@"\n')
    script.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert recorded(key_log, "some-script", "-o", "--", "two words").stdout == "-o -- two words\n"


# Where the library is kept


def test_the_library_is_compiled_once_into_a_folder_of_the_user(
    key_log: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    KeyRecording(["true"], key_log)
    folder = tmp_path / "cache" / "zmtpscope"
    (library,) = folder.iterdir()
    assert (stat.S_IMODE(folder.stat().st_mode), stat.S_IMODE(library.stat().st_mode)) == (0o700, 0o700)
    with monkeypatch.context() as without_compiler:
        without_compiler.setenv("PATH", "")
        KeyRecording(["/bin/true"], key_log)
    assert list(folder.iterdir()) == [library]
    monkeypatch.setenv("CC", "cc -g")
    KeyRecording(["true"], key_log)
    assert len(list(folder.iterdir())) == 2
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.31"))
    KeyRecording(["true"], key_log)
    assert len(list(folder.iterdir())) == 3


def test_a_cache_that_others_write_to_is_refused(
    key_log: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "home" / "cache"
    folder = cache / "zmtpscope"
    folder.mkdir(parents=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    for each in (folder, cache, tmp_path / "home"):
        for mode in (0o770, 0o707):
            each.chmod(mode)
            cause = refused(key_log)
            assert cause.startswith(f"{each}: other users can write there")
            assert f"chmod go-w {each} and delete what is in {folder}," in cause
        each.chmod(0o700)
    folder.chmod(0o1777)
    assert "other users can write there" in refused(key_log)
    folder.chmod(0o700)
    cache.chmod(0o1777)  # like /tmp, where other users cannot rename the user's files
    KeyRecording(["true"], key_log)


def of_another_user(library: pathlib.Path) -> None:
    library.write_text("planted")
    os.chown(library, NOBODY, NOBODY)


def open_to_others(library: pathlib.Path) -> None:
    library.write_text("planted")
    library.chmod(0o720)


def a_link(library: pathlib.Path) -> None:
    planted = library.with_name("planted")
    planted.write_text("planted")
    library.symlink_to(planted)


@pytest.mark.parametrize("plant", [pytest.param(of_another_user, marks=needs_root), open_to_others, a_link])
def test_a_library_that_others_may_have_put_there_is_made_anew(
    key_log: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pathlib.Path], None],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    KeyRecording(["true"], key_log)
    (library,) = (tmp_path / "cache" / "zmtpscope").iterdir()
    library.unlink()
    plant(library)
    KeyRecording(["true"], key_log)
    status = library.lstat()
    assert (status.st_mode, status.st_uid) == (stat.S_IFREG | 0o700, os.geteuid())
    assert library.read_bytes()[:4] == b"\x7fELF"

    library.unlink()
    library.mkdir()
    assert refused(key_log).startswith(f"{library}: cannot write the compiled library: Is a directory; delete")


@needs_root
def test_a_cache_of_another_user_is_refused(
    key_log: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    (cache / "zmtpscope").mkdir(parents=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    for each in (cache / "zmtpscope", cache):
        os.chown(each, NOBODY, NOBODY)
        assert f"{each}: belongs to another user" in refused(key_log)
        os.chown(each, 0, 0)


def test_a_link_to_a_cache_that_others_write_to_is_refused(
    key_log: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (tmp_path / "cache").symlink_to(shared)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert f"{shared}: other users can write" in refused(key_log)


def test_the_reason_why_the_library_is_not_built_is_reported(
    key_log: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", "'")
    assert "the environment variable CC is not a command" in refused(key_log)
    monkeypatch.setenv("CC", "cc -no-such-option")
    assert "the C compiler cc failed: " in refused(key_log)
    monkeypatch.setenv("CC", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no C compiler cc" in refused(key_log, "/bin/true")
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/zmtpscope")
    assert "to keep the compiled library elsewhere, set XDG_CACHE_HOME" in refused(key_log, "/bin/true")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "two words"))
    assert "LD_PRELOAD accepts no path with spaces" in refused(key_log, "/bin/true")
    assert not key_log.exists()


def test_other_systems_are_refused(key_log: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(KeyRecordingError, match="Linux only: this is darwin"):
        KeyRecording(["true"], key_log)


# The program does not notice


def test_the_exit_code_is_that_of_the_program(key_log: pathlib.Path) -> None:
    assert recorded(key_log, "true").returncode == 0
    assert recorded(key_log, "sh", "-c", "exit 41").returncode == 41
    assert recorded(key_log, "sh", "-c", "kill -KILL $$").returncode == 128 + signal.SIGKILL


CATCHES = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(51))
try:
    print("ready", flush=True)
    time.sleep(30)
except KeyboardInterrupt:
    sys.exit(52)
"""


def start(key_log: pathlib.Path) -> subprocess.Popen[str]:
    """Start a program that handles signals, with the recorder, in a process group of its own as from a terminal."""
    return subprocess.Popen(
        [*RECORD, "-o", str(key_log), "--", *python(CATCHES)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        # a background job of a script ignores interrupts, and so do its children
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def test_an_interrupt_is_for_the_program(key_log: pathlib.Path) -> None:
    with start(key_log) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGINT)  # like the terminal at ctrl-C
        _, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, err.count("\n")) == (52, 2)
    assert "no keys were recorded" in err


def test_a_request_to_end_is_handed_on(key_log: pathlib.Path) -> None:
    with start(key_log) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        _, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, err.count("\n")) == (51, 2)


def test_environment_and_open_files_are_the_callers(key_log: pathlib.Path) -> None:
    program = "import json, os; print(json.dumps(dict(os.environ)))"
    bare = json.loads(subprocess.check_output(python(program), env=os.environ))
    seen = json.loads(recorded(key_log, *python(program)).stdout)
    assert seen.keys() - bare.keys() == {"LD_PRELOAD", "ZMTPSCOPE_KEY_LOG"}
    assert {name: seen[name] for name in bare} == bare

    reader, writer = os.pipe()
    try:
        write = "import os, sys; os.write(int(sys.argv[1]), b'hello')"
        command = [*RECORD, "-o", str(key_log), *python(write, str(writer))]
        subprocess.run(command, pass_fds=[writer], check=True, capture_output=True, timeout=SECONDS)
        assert os.read(reader, 9) == b"hello"
    finally:
        os.close(reader)
        os.close(writer)


def test_threads_of_numpy_are_limited_here_and_not_in_the_program() -> None:
    """Settings of the command line for itself are not in the environment that programs inherit."""
    program = """
import os, sys
sys.argv[1:] = ["--version"]
from zmtpscope.cli import main
try:
    main()
finally:
    print("OPENBLAS_NUM_THREADS" in os.environ)
"""
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    assert subprocess.check_output(python(program), env=environment, text=True).endswith("False\n")
