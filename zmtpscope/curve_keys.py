"""Files with CURVE keys (curve.md 6): key logs and certificates, read at once and again where they grow.

Keys are 32 octets everywhere; files spell them as 64 hex digits or 40 Z85 characters. The names of keys are those of
curve.md 1. What a file says is believed as far as it can be checked without a capture: a long-term pair and a
certificate when they are read, a client transient pair when it is looked up. That a line is about this capture is for
the caller to prove, by opening a box. Nothing here prints a secret: not a problem, and not the `repr` of a type.
"""

from __future__ import annotations

import os
import re
import stat
from binascii import unhexlify
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from zmtpscope.curve_crypto import public_key
from zmtpscope.zmtp import z85

LARGEST_FILE = 64 << 20
"""Octets; 470,000 lines in hex (1.3 s, 170 MB of memory) or 700,000 in Z85."""

LONGEST_LINE = 1000
"""Octets; four times the longest line with a meaning."""

MOST_SERVER_KEYS = 1000
"""Pairs and public keys of servers that are taken from one file: each is tried on each connection."""

MOST_LINES_OF_A_CONNECTION = 16
"""Different lines with the same C' that are kept of one file."""

PROBLEMS_TOLD = 10
"""Lines of one file that are complained about one by one."""

SHARED: Final = "CURVE_SHARED"
CLIENT_TRANSIENT: Final = "CURVE_CLIENT_TRANSIENT"
SERVER_TRANSIENT: Final = "CURVE_SERVER_TRANSIENT"
SERVER_PUBLIC_TRANSIENT: Final = "CURVE_SERVER_PUBLIC_TRANSIENT"
COOKIE_KEY: Final = "CURVE_COOKIE_KEY"
SERVER_LONGTERM: Final = "CURVE_SERVER_LONGTERM"
SERVER_PUBLIC: Final = "CURVE_SERVER_PUBLIC"
LABELS: Final = (
    SHARED,
    CLIENT_TRANSIENT,
    SERVER_TRANSIENT,
    SERVER_PUBLIC_TRANSIENT,
    COOKIE_KEY,
    SERVER_LONGTERM,
    SERVER_PUBLIC,
)
"""Everything that a line of a key log can begin with."""

_LABEL_OF = {label.encode(): label for label in LABELS}
_WITHOUT_SECRET = {SERVER_PUBLIC, SERVER_PUBLIC_TRANSIENT}
_FORMS = "64 hex digits or 40 Z85 characters"
_PIECE = 1 << 20
_TAIL = 64
"""Octets in front of the place where reading goes on that are compared, to tell a file that grew from a new one."""

_PROPERTY = re.compile(rb"""\s+(public-key|secret-key)\s*=\s*(?:"([^"]*)"|'([^']*)'|(\S*))\s*(?:#.*)?""")


def key_from_text(text: bytes) -> bytes | None:
    """The key that 64 hex digits of either case or 40 Z85 characters spell; None for everything else."""
    try:
        if len(text) == 64:
            return unhexlify(text)
        if len(text) == 40:
            return z85.decode(text)
    except ValueError:
        pass
    return None


class KeyFileError(Exception):
    """A key file that cannot be read at all. `str()` is the one line for people."""


@dataclass(slots=True, repr=False)
class KeyLine:
    """One line of a key log, or what a certificate says in words of one.

    `public` is the first field: C', or S for the two labels of server keys. `value` is the second: the secret, or S' of
    SERVER_PUBLIC_TRANSIENT; None for SERVER_PUBLIC. `server` is S of a CLIENT_TRANSIENT line that has it. `number`
    counts the lines of the file from 1; two lines that say the same are equal.
    """

    label: str
    public: bytes
    value: bytes | None
    server: bytes | None = None
    number: int = field(default=0, compare=False)


class ServerKey(NamedTuple):
    """The long-term key of a server: S, and s where it is known."""

    public: bytes
    secret: bytes | None

    def __repr__(self) -> str:
        return f"ServerKey({z85.encode(self.public)})"


class ClientTransient(NamedTuple):
    """c' of a connection, and the S that its client asked for, where the line has it."""

    secret: bytes
    server: bytes | None

    def __repr__(self) -> str:
        return "ClientTransient(***)"


@dataclass(frozen=True, slots=True, repr=False)
class ConnectionSecrets:
    """All that is said about the connection of one C', in the order of the files and of their lines.

    More than one of a kind are candidates: lines that contradict each other. Each c' belongs to C', that was checked;
    of k, s', S' and K nothing is proven until a box opens with them.
    """

    shared: tuple[bytes, ...]
    """k"""
    client_transients: tuple[ClientTransient, ...]
    """c', perhaps with S"""
    server_transients: tuple[bytes, ...]
    """s'"""
    server_public_transients: tuple[bytes, ...]
    """S'"""
    cookie_keys: tuple[bytes, ...]
    """K"""


class Keys:
    """What a number of key files say. One C' is looked up at the cost of a dictionary look-up for each file.

    Raises `KeyFileError` where a file cannot be opened or is larger than `LARGEST_FILE`. Files that are no regular ones
    (pipes) are read once, to their end.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._files = [_KeyFile(path) for path in paths]
        self._server_keys = self._all_server_keys()
        self.generation = 0
        """Goes up whenever `refresh` finds that the files say something else than before."""

    def refresh(self) -> bool:
        """Look whether files have changed, and read what is new; True if they say something else than before.

        Costs one `os.stat` for each file that has not changed. Of a file that grew the new octets are read; its last
        line waits until it has its end. A file that was cut or replaced is read anew, and what it said before is
        forgotten. One that cannot be read any more goes on saying what it said.
        """
        changed = [file.refresh() for file in self._files]
        if not any(changed):
            return False
        self._server_keys = self._all_server_keys()
        self.generation += 1
        return True

    def secrets_for(self, client_transient: bytes) -> ConnectionSecrets | None:
        """Everything the files say about the connection of this C'; None where no line names it.

        A c' that does not belong to C' is left out, and a problem from now on.
        """
        if not any(client_transient in file.contents.connections for file in self._files):
            return None
        lines: list[KeyLine] = []
        for file in self._files:
            lines += (line for line in file.lines_of(client_transient) if line not in lines)
        return ConnectionSecrets(
            shared=_values(lines, SHARED),
            client_transients=tuple(
                ClientTransient(line.value, line.server)
                for line in lines
                if line.label == CLIENT_TRANSIENT and line.value is not None
            ),
            server_transients=_values(lines, SERVER_TRANSIENT),
            server_public_transients=_values(lines, SERVER_PUBLIC_TRANSIENT),
            cookie_keys=_values(lines, COOKIE_KEY),
        )

    @property
    def server_keys(self) -> list[ServerKey]:
        """The long-term keys of servers, each S once, with s where any file has it. Each s belongs to its S.

        A certificate with a secret is taken for that of a server: which side it belongs to does not stand in it.
        """
        return self._server_keys

    def shared_keys(self, limit: int = 1000) -> list[tuple[bytes, bytes]]:
        """(C', k) of at most `limit` CURVE_SHARED lines, newest first, for captures that begin inside a connection.

        With more than one file these take turns.
        """
        turns = zip_longest(*(file.contents.newest_shared() for file in self._files))
        pairs: dict[tuple[bytes, bytes], None] = {}
        for pair in chain.from_iterable(turns):
            if len(pairs) == limit:
                break
            if pair is not None:
                pairs[pair] = None
        return list(pairs)

    def lines(self) -> Iterator[tuple[Path, KeyLine]]:
        """All that is said, with the file that says it, in the order of the files and of their lines."""
        for file in self._files:
            contents = file.contents
            said = chain(contents.server_lines(), *map(file.lines_of, list(contents.connections)))
            for line in sorted(said, key=lambda line: line.number):
                yield file.path, line

    @property
    def problems(self) -> list[str]:
        """A sentence about each line that could not be used, with file and line, and about files without any key.

        At most `PROBLEMS_TOLD` lines of a file and the number of the others. No sentence repeats what stands in the
        line. File names are as they were given: escape them before they reach a terminal.
        """
        return [problem for file in self._files for problem in file.problems()]

    @property
    def readable_by_others(self) -> list[Path]:
        """Files with secrets whose mode lets their group or others read them (POSIX only)."""
        return [file.path for file in self._files if file.is_readable_by_others() and file.contents.has_secrets()]

    def _all_server_keys(self) -> list[ServerKey]:
        keys: dict[bytes, bytes | None] = {}
        for file in self._files:
            for line in file.contents.server_lines():
                if keys.get(line.public) is None:
                    keys[line.public] = line.value
        return [ServerKey(*pair) for pair in keys.items()]


def _values(lines: Sequence[KeyLine], label: str) -> tuple[bytes, ...]:
    return tuple(line.value for line in lines if line.label == label and line.value is not None)


@dataclass(slots=True, repr=False)
class _Certificate:
    """The keys of one `curve` section, as far as they were met, and the line of the last."""

    public: bytes | None = None
    secret: bytes | None = None
    number: int = 0


class _Contents:
    """What the lines of one file say; they may come in any pieces."""

    def __init__(self, path: Path) -> None:
        self.connections: dict[bytes, tuple[KeyLine, ...]] = {}
        """By C'; the C' with the newest line stands last."""
        self.problems: list[str] = []
        self.untold_problems = 0
        self.octets = 0
        """That were read."""
        self.tail = b""
        """The last of them."""
        self._path = path
        self._rest = b""
        self._number = 0
        self._pairs: dict[tuple[bytes, bytes | None], None] = {}
        self._server_lines: list[KeyLine] = []
        self._certificates: list[_Certificate] = []
        self._certificate: _Certificate | None = None
        self._news = 0

    def add(self, octets: bytes) -> bool:
        """The next octets of the file; True if they say anything new. A line without end waits for it."""
        news = self._news
        self.octets += len(octets)
        self.tail = (self.tail + octets[-_TAIL:])[-_TAIL:]
        lines = (self._rest + octets).split(b"\n")
        self._rest = lines.pop()[: LONGEST_LINE + 1]
        for line in lines:
            self._number += 1
            self._add_line(line, self._number)
        return self._news > news

    def add_unfinished_line(self) -> bool:
        """Take the line without end as it is; True if there was one."""
        if self._rest:
            self._add_line(self._rest, self._number + 1)
        return bool(self._rest)

    def complain(self, text: str, number: int | None = None) -> None:
        """One more problem, of line `number` or of the whole file."""
        if len(self.problems) == PROBLEMS_TOLD:
            self.untold_problems += 1
        else:
            where = self._path if number is None else f"{self._path}:{number}"
            self.problems.append(f"{where}: {text}")

    def newest_shared(self) -> Iterator[tuple[bytes, bytes]]:
        """(C', k) of all CURVE_SHARED lines, newest first."""
        for lines in reversed(self.connections.values()):
            for line in reversed(lines):
                if line.label == SHARED and line.value is not None:
                    yield line.public, line.value

    def server_lines(self) -> list[KeyLine]:
        """Lines and certificates with the long-term key of a server; secret and public half belong together."""
        lines = self._server_lines.copy()
        for certificate in self._certificates:
            if certificate.secret is not None:
                public = certificate.public or public_key(certificate.secret)
                lines.append(KeyLine(SERVER_LONGTERM, public, certificate.secret, None, certificate.number))
            elif certificate.public is not None:
                lines.append(KeyLine(SERVER_PUBLIC, certificate.public, None, None, certificate.number))
        return lines

    def has_secrets(self) -> bool:
        """Whether anything in the file must be kept secret."""
        lines = chain(self.server_lines(), chain.from_iterable(self.connections.values()))
        return any(line.label not in _WITHOUT_SECRET for line in lines)

    def is_empty(self) -> bool:
        """Whether there is no key in the file."""
        return not self.connections and not self.server_lines()

    def says_the_same(self, other: _Contents) -> bool:
        """Whether two readings of a file came to the same keys."""
        return self.connections == other.connections and self.server_lines() == other.server_lines()

    def _add_line(self, line: bytes, number: int) -> None:
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")  # Windows likes to put it there
        fields = line[:LONGEST_LINE].split()
        if not fields or fields[0][:1] == b"#":
            return
        label = _LABEL_OF.get(fields[0])
        if label is None:
            self._add_line_of_certificate(line[:LONGEST_LINE], fields, number)
        elif len(line) > LONGEST_LINE:
            self.complain(f"the line has more than {LONGEST_LINE} octets and was skipped", number)
        elif (said := _key_line(label, fields, number)) is None:
            self.complain(f"{label} wants {_WANTS.get(label, '2 keys')} of {_FORMS}", number)
        elif label in (SERVER_LONGTERM, SERVER_PUBLIC):
            self._add_server(said)
        else:
            self._add_to_connection(said)

    def _add_to_connection(self, line: KeyLine) -> None:
        lines = self.connections.get(line.public, ())
        if line in lines:
            return
        if len(lines) == MOST_LINES_OF_A_CONNECTION:
            self.complain(f"{len(lines)} other lines tell of the same connection; this one was skipped", line.number)
            return
        if lines:
            del self.connections[line.public]
        self.connections[line.public] = (*lines, line)
        self._news += 1

    def _add_server(self, line: KeyLine) -> None:
        pair = line.public, line.value
        if pair in self._pairs:
            return
        if self._has_enough_servers(line.number):
            return
        self._pairs[pair] = None
        if line.value is not None and public_key(line.value) != line.public:
            self.complain("the secret key does not belong to the public key in front of it", line.number)
            return
        self._server_lines.append(line)
        self._news += 1

    def _has_enough_servers(self, number: int) -> bool:
        enough = len(self._pairs) + len(self._certificates) >= MOST_SERVER_KEYS
        if enough:
            self.complain(f"there are {MOST_SERVER_KEYS} server keys in front of it; it was skipped", number)
        return enough

    def _add_line_of_certificate(self, line: bytes, fields: list[bytes], number: int) -> None:
        """ZPL (ZeroMQ RFC 4): a name at the start of a line begins a section, its properties are indented."""
        if not line[:1].isspace():
            self._certificate = None
            if fields[0] == b"curve" and not self._has_enough_servers(number):
                self._certificate = _Certificate()
                self._certificates.append(self._certificate)
        elif self._certificate is not None and (match := _PROPERTY.fullmatch(line)):
            self._add_property(self._certificate, match[1], match[2] or match[3] or match[4] or b"", number)

    def _add_property(self, certificate: _Certificate, name: bytes, text: bytes, number: int) -> None:
        key = key_from_text(text)
        if key is None:
            self.complain(f"{name.decode()} wants {_FORMS}", number)
            return
        if name == b"public-key":
            certificate.public = key
        else:
            certificate.secret = key
        certificate.number = number
        self._news += 1
        if certificate.public and certificate.secret and public_key(certificate.secret) != certificate.public:
            self.complain("the secret key and the public key of the certificate do not belong together", number)
            certificate.public = certificate.secret = None


_WANTS = {CLIENT_TRANSIENT: "2 or 3 keys", SERVER_PUBLIC: "1 key"}


def _key_line(label: str, fields: list[bytes], number: int) -> KeyLine | None:
    """A line of a key log; None where its fields are not those of the label. A comment may stand behind them."""
    public = key_from_text(fields[1]) if len(fields) > 1 else None
    if public is None:
        return None
    value = server = None
    rest = fields[2:]
    if label == SERVER_PUBLIC:
        if rest[:1] == [b"-"]:
            rest = rest[1:]
    else:
        value = key_from_text(rest[0]) if rest else None
        if value is None:
            return None
        rest = rest[1:]
        # Z85 has the # too, so that a key is looked for before a comment is
        if label == CLIENT_TRANSIENT and rest and (server := key_from_text(rest[0])):
            rest = rest[1:]
    if rest and rest[0][:1] != b"#":
        return None
    return KeyLine(label, public, value, server, number)


class _KeyFile:
    """One key file: what it says, and up to where it was read."""

    contents: _Contents
    _status: os.stat_result
    _took_unfinished: bool

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._read_all(unfinished=True)
        except OSError as error:
            raise KeyFileError(f"{path}: {_reason(error)}") from None

    def lines_of(self, client_transient: bytes) -> tuple[KeyLine, ...]:
        """The lines about the connection of this C'. One whose c' is that of another key is dropped and told."""
        lines = self.contents.connections.get(client_transient, ())
        kept = tuple(line for line in lines if not _is_of_another_key(line))
        if len(kept) < len(lines):
            for line in lines:
                if line not in kept:
                    text = f"the secret key of {CLIENT_TRANSIENT} does not belong to the public key in front of it"
                    self.contents.complain(text, line.number)
            self.contents.connections[client_transient] = kept
        return kept

    def problems(self) -> list[str]:
        """The problems of this file, bounded, in sentences."""
        contents = self.contents
        problems = contents.problems.copy()
        if contents.untold_problems:
            problems.append(f"{self.path}: {contents.untold_problems} more lines could not be used")
        if contents.is_empty():
            problems.append(
                f"{self.path}: there is no key in it; a key log has lines like {SHARED}, a certificate a section curve"
            )
        return problems

    def is_readable_by_others(self) -> bool:
        """Whether the mode of the file lets its group or others read it."""
        return os.name == "posix" and stat.S_ISREG(self._status.st_mode) and bool(self._status.st_mode & 0o077)

    def refresh(self) -> bool:
        """Read what is new; True if the file says something else than before."""
        try:
            status = os.stat(self.path)
            if not stat.S_ISREG(status.st_mode) or _state(status) == _state(self._status):
                return False
            if status.st_size > LARGEST_FILE:
                if self._status.st_size <= LARGEST_FILE:
                    self.contents.complain(f"{_TOO_LARGE}; what came since is not read")
                self._status = status
                return False
            if self._has_only_grown(status):
                return self._read_on(status)
            before = self.contents
            # what was taken of a line without end is put right by reading that line again, with its end
            self._read_all(unfinished=not self._took_unfinished)
        except (OSError, KeyFileError):  # gone, or closed to us: perhaps not for long
            return False
        return not self.contents.says_the_same(before)

    def _has_only_grown(self, status: os.stat_result) -> bool:
        """Whether the octets that were read still stand in front of new ones, as far as their end shows."""
        place = (status.st_dev, status.st_ino)
        if place != (self._status.st_dev, self._status.st_ino) or status.st_size <= self.contents.octets:
            return False
        if self._took_unfinished:
            return False
        tail = self.contents.tail
        with open(self.path, "rb") as file:
            file.seek(self.contents.octets - len(tail))
            return file.read(len(tail)) == tail

    def _read_on(self, status: os.stat_result) -> bool:
        with open(self.path, "rb") as file:
            file.seek(self.contents.octets)
            news = [self.contents.add(piece) for piece in _pieces(file, status.st_size - self.contents.octets)]
        self._status = status
        return any(news)

    def _read_all(self, unfinished: bool) -> None:
        """Read the file from its start; with `unfinished` a last line without end counts as it is."""
        contents = _Contents(self.path)
        with open(self.path, "rb") as file:
            status = os.fstat(file.fileno())
            for piece in _pieces(file, status.st_size if stat.S_ISREG(status.st_mode) else LARGEST_FILE + 1):
                contents.add(piece)
                if contents.octets > LARGEST_FILE:
                    raise KeyFileError(f"{self.path}: {_TOO_LARGE}; give the part of it that belongs to the capture")
        self._took_unfinished = unfinished and contents.add_unfinished_line()
        self.contents, self._status = contents, status


_TOO_LARGE = f"the file is larger than {LARGEST_FILE >> 20} MiB"


def _state(status: os.stat_result) -> tuple[int, int, int, int]:
    """What changes when a file is written or replaced."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _pieces(file: BinaryIO, octets: int) -> Iterator[bytes]:
    """At most so many octets of `file`, in pieces."""
    while octets and (piece := file.read(min(octets, _PIECE))):
        octets -= len(piece)
        yield piece


def _is_of_another_key(line: KeyLine) -> bool:
    """Whether c' of the line is certainly not the secret of its C'."""
    return line.label == CLIENT_TRANSIENT and line.value is not None and public_key(line.value) != line.public


def _reason(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, PermissionError):
        return "there is no permission to read it"
    return f"it cannot be read ({error.strerror or error})"
