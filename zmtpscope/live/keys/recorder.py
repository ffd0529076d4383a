"""Runs a program and records the keys of its CURVE connections in a key log.

A small library (`key_recorder.c`) is compiled on first use and preloaded into the program and its child processes. It
wraps two functions of libsodium, and appends a line `CURVE_SHARED` (curve.md 6) for each connection: the transient
client key C' and the shared key k.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from zmtpscope.live.keys.key_log import KeyLogError, open_key_log
from zmtpscope.ownership import exposed, exposed_in

SOURCE = Path(__file__).with_name("key_recorder.c")
KEY_LOG_VARIABLE = "ZMTPSCOPE_KEY_LOG"
"""Path of the key log. The source of the library contains the same name."""
LIBRARY = "zmtpscope-key-recorder-"
"""Starts the file name of the compiled library."""
LINE = re.compile(rb"CURVE_SHARED ([0-9a-f]{64}) [0-9a-f]{64}\n")
LONGEST_LINE = 200
COMPILER_OPTIONS = ["-O2", "-std=gnu11", "-fPIC", "-shared"]
COMPILER_SECONDS = 60

Handler = Callable[[int, FrameType | None], None]


class KeyRecordingError(Exception):
    """The keys of a program cannot be recorded. The text is one line: the path or program, the reason and
    the remedy."""


class KeyRecording:
    """A program to run with its keys recorded. All checks are made when the object is created.

    `command` is the program, searched in PATH, and its arguments. `key_log` is created (mode 0600) or appended to.
    Raises `KeyRecordingError` if the system is not Linux; the program is missing or runs with other rights than its
    caller; the library cannot be compiled, or not be kept where only the user can write; the key log is not a file that
    only the user can read.
    """

    def __init__(self, command: Sequence[str], key_log: Path) -> None:
        if sys.platform != "linux":
            raise KeyRecordingError(f"keys are recorded on Linux only: this is {sys.platform}, without its LD_PRELOAD")
        self._command = [*command]
        self._program = _program(command[0])
        self._library = _library()
        self._key_log = key_log.absolute()
        try:
            with open_key_log(key_log) as file:
                self._start = os.fstat(file.fileno()).st_size
        except KeyLogError as error:
            raise KeyRecordingError(str(error)) from None

    def run(self) -> int:
        """Run the program, and return its exit code, or 128 + N if signal N ended it, as a shell does.

        The terminal sends its interrupts to the program, too, so this process ignores them; it passes SIGTERM and
        SIGHUP on. Call this from the main thread only, since it sets signal handlers.
        """
        process: subprocess.Popen[bytes] | None = None
        early: list[int] = []

        def pass_over(number: int, frame: FrameType | None) -> None:
            pass

        def hand_on(number: int, frame: FrameType | None) -> None:
            if process is None:
                early.append(number)
            else:
                process.send_signal(number)

        with _handled(pass_over, signal.SIGINT, signal.SIGQUIT), _handled(hand_on, signal.SIGTERM, signal.SIGHUP):
            try:
                process = subprocess.Popen(
                    self._command, executable=self._program, env=self._environment(), close_fds=False
                )
            except OSError as error:
                raise KeyRecordingError(f"cannot run {self._program}: {error.strerror}") from None
            for number in early:
                process.send_signal(number)
            code = process.wait()
        return 128 - code if code < 0 else code

    def _environment(self) -> dict[str, str]:
        """Return the environment of the program, with the library first in LD_PRELOAD.

        A recorder of another version is removed: the two would call each other without end.
        """
        others = re.split("[ :]+", os.environ.get("LD_PRELOAD", ""))
        preloaded = [str(self._library), *(each for each in others if each and LIBRARY not in each)]
        return {**os.environ, "LD_PRELOAD": ":".join(preloaded), KEY_LOG_VARIABLE: str(self._key_log)}

    def connections(self) -> int:
        """The number of connections whose keys were recorded since this object was created."""
        try:
            with open(self._key_log, "rb") as file:
                file.seek(self._start)
                lines = map(LINE.fullmatch, iter(lambda: file.readline(LONGEST_LINE), b""))
                return len({line[1] for line in lines if line})  # both ends of a connection may have been recorded
        except OSError:  # the program removed the file
            return 0


@contextmanager
def _handled(handler: Handler, *numbers: signal.Signals) -> Iterator[None]:
    """Call `handler` for these signals within the block, except for signals that are ignored (`nohup`).

    The program inherits ignored signals, but no handlers.
    """
    before = {number: signal.getsignal(number) for number in numbers}
    caught = [number for number in numbers if before[number] is not signal.SIG_IGN]
    for number in caught:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in caught:
            signal.signal(number, before[number])


def _program(name: str) -> str:
    """Return the path of a program. Raises `KeyRecordingError` if the system's loader would not preload a library into
    it."""
    program = shutil.which(name)
    if program is None:
        raise KeyRecordingError(f"{name}: no such program, or no permission to run it")
    loaded = _interpreter(program) or program
    mode = os.stat(loaded).st_mode
    rights = [
        *(["is set-uid"] if mode & stat.S_ISUID else []),
        *(["is set-gid"] if mode & stat.S_ISGID else []),
        *(["has file capabilities"] if "security.capability" in _attributes(loaded) else []),
    ]
    if rights:
        raise KeyRecordingError(
            f"{loaded}: it {' and '.join(rights)}; the loader of the system ignores LD_PRELOAD for programs with other "
            "rights than their caller's -> run zmtpscope itself as the user that needs them, and the program directly"
        )
    return program


def _interpreter(program: str) -> str | None:
    """Return the interpreter on the `#!` line of a readable script, or None. Its file permissions apply, not those of
    the script."""
    try:
        with open(program, "rb") as file:
            first = file.readline(4096)
    except OSError:  # a program may be executable without being readable
        return None
    words = first[2:].split(maxsplit=1) if first.startswith(b"#!") else []
    return os.fsdecode(words[0]) if words and os.path.exists(words[0]) else None


def _attributes(path: str) -> list[str]:
    """Return the names of the extended attributes of a file; none if the file system has none."""
    try:
        return os.listxattr(path)
    except OSError:
        return []


def _library() -> Path:
    """Return the path of the compiled library in the user's cache, after compiling it if needed.

    The library runs inside other programs, so no other user may have put it there.
    """
    folder = _cache_folder()
    try:
        compiler = shlex.split(os.environ.get("CC", "")) or ["cc"]
    except ValueError as error:
        raise KeyRecordingError(f"the environment variable CC is not a command: {error}") from None
    source = SOURCE.read_bytes()
    command = [*compiler, *COMPILER_OPTIONS]
    # a folder may be shared with systems of an older C library, where programs would not start with this one
    made_for = [platform.machine(), *platform.libc_ver(), *command]
    made_of = "\0".join(made_for).encode(errors="surrogateescape") + b"\0" + source
    library = folder / f"{LIBRARY}{hashlib.sha256(made_of).hexdigest()[:32]}.so"
    try:
        if not _is_ours(library):
            with tempfile.TemporaryDirectory(dir=folder) as building:
                built = Path(building, library.name)
                _compile([*command, "-o", str(built), "-x", "c", "-", "-ldl"], source)
                built.chmod(0o700)
                built.replace(library)
    except OSError as error:
        raise KeyRecordingError(
            f"{library}: cannot write the compiled library: {error.strerror}; delete what is in the folder, "
            "or set XDG_CACHE_HOME"
        ) from None
    return library


def _is_ours(library: Path) -> bool:
    """Whether only the user can have written the library in the cache.

    Its name is predictable, and other users may have been able to write to the folder before.
    """
    try:
        status = library.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and exposed(library, status) is None


def _cache_folder() -> Path:
    """Return the folder `zmtpscope` of the user's cache, in which no other user can replace files."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    try:
        cache = Path(home) if os.path.isabs(home) else Path.home() / ".cache"
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        (cache / "zmtpscope").mkdir(mode=0o700, exist_ok=True)
        folder = (cache / "zmtpscope").resolve(strict=True)
        _check_folder(folder)
    except RuntimeError:
        raise KeyRecordingError("no home folder to keep the compiled library in; set XDG_CACHE_HOME") from None
    except OSError as error:
        raise KeyRecordingError(
            f"{error.filename}: {error.strerror}; to keep the compiled library elsewhere, set XDG_CACHE_HOME"
        ) from None
    if re.search(r"[\s:$]", str(folder)):
        raise KeyRecordingError(f"{folder}: LD_PRELOAD accepts no path with spaces, colons or $; set XDG_CACHE_HOME")
    return folder


def _check_folder(folder: Path) -> None:
    """Raise `KeyRecordingError` if other users can write to `folder` or its parents."""
    found = exposed_in(folder)
    if found is None:
        return
    if found.is_of_another:
        raise KeyRecordingError(
            f"{found.path}: belongs to another user, who could change the compiled library in it; set XDG_CACHE_HOME"
        )
    raise KeyRecordingError(
        f"{found.path}: other users can write there and change the compiled library; chmod go-w "
        f"{shlex.quote(found.path)} and delete what is in {shlex.quote(str(folder))}, or set XDG_CACHE_HOME"
    )


def _compile(command: list[str], source: bytes) -> None:
    """Compile the source from standard input, so that exactly the hashed source is compiled."""
    try:
        done = subprocess.run(command, input=source, capture_output=True, timeout=COMPILER_SECONDS)
    except FileNotFoundError:
        raise KeyRecordingError(
            f"no C compiler {command[0]}, and the library that records is compiled on first use; "
            "install one (on Debian: apt install gcc libc6-dev), or set CC, for example CC=clang"
        ) from None
    except OSError as error:
        raise KeyRecordingError(f"cannot run the C compiler {command[0]}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise KeyRecordingError(f"the C compiler {command[0]} took over {COMPILER_SECONDS} seconds") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        line = next((line for line in said if "error" in line), said[0])
        raise KeyRecordingError(
            f"the C compiler {command[0]} failed: {line} (are the headers of the C library installed?)"
        )
