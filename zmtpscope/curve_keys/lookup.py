"""Look up keys in all key files together: keys of a connection by its C', and keys of servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

from zmtpscope.curve_keys.files import START, HandedLines, KeyFile, Place
from zmtpscope.curve_keys.lines import (
    CLIENT_TRANSIENT,
    COOKIE_KEY,
    SERVER_PUBLIC_TRANSIENT,
    SERVER_TRANSIENT,
    SHARED,
    KeyLine,
)
from zmtpscope.zmtp import z85


class ServerKey(NamedTuple):
    """The long-term key of a server: S, and s if known."""

    public: bytes
    secret: bytes | None

    def __repr__(self) -> str:
        return f"ServerKey({z85.encode(self.public)})"


class ClientTransient(NamedTuple):
    """c' of a connection, and the server's S if the line contains it."""

    secret: bytes
    server: bytes | None

    def __repr__(self) -> str:
        return "ClientTransient(***)"


@dataclass(frozen=True, slots=True, repr=False)
class ConnectionSecrets:
    """All keys of the connection with one C', in the order of the files and their lines.

    Several keys of a kind are candidates from contradicting lines. Each c' was verified to belong to C'. The keys k,
    s', S' and K are proven only when a box opens with them.
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


class KeysMark(NamedTuple):
    """The state of `Keys`: its generation, and for each file how often it was read from its start and a digest."""

    generation: int
    files: list[tuple[int, bytes]]


class Keys:
    """The keys of several key files and of `handed` lines. Looking up a C' costs a dictionary look-up per file.

    A path None is standard input. Raises `KeyFileError` if a file cannot be opened, is larger than `LARGEST_FILE` or
    has more than `MAX_LINES`. Standard input and other files that are not regular (pipes) are read once, to their end.
    """

    def __init__(self, paths: Sequence[Path | None], handed: HandedLines | None = None) -> None:
        self._files = [KeyFile(path) for path in paths]
        if handed is not None:
            self._files.append(handed)
        self._server_keys = self._all_server_keys()
        self.generation = 0
        """Increases whenever `refresh` finds changed keys."""

    def with_files(self, paths: Sequence[Path | None]) -> Keys:
        """Return the keys of these and further files. Raises `KeyFileError`."""
        made = Keys(paths)
        made._files = [*self._files, *made._files]
        made._server_keys = made._all_server_keys()
        return made

    def refresh(self) -> bool:
        """Read new lines of changed files. Return whether the keys have changed.

        Costs one `os.stat` for each unchanged file. Of a file that grew only new octets are read; an incomplete last
        line waits for its end. A truncated or replaced file is read again, and its earlier keys are dropped. A file
        that is no longer readable keeps its keys.
        """
        changed = [file.refresh() for file in self._files]
        if not any(changed):
            return False
        self._server_keys = self._all_server_keys()
        self.generation += 1
        return True

    def mark(self) -> KeysMark:
        """Return the state of these keys, for another `Keys` over the same files to resume from."""
        return KeysMark(self.generation, [(file.readings, file.contents.digest()) for file in self._files])

    def resume(self, mark: KeysMark) -> None:
        """Resume from a mark: with its generation if the files have the same keys, otherwise with the next one."""
        is_same = len(mark.files) == len(self._files)
        for file, (readings, digest) in zip(self._files, mark.files, strict=False):
            is_same_file = file.contents.digest() == digest
            file.readings = readings + (not is_same_file)
            is_same &= is_same_file
        self.generation = mark.generation + (not is_same)

    def secrets_for(self, client_transient: bytes) -> ConnectionSecrets | None:
        """Return all keys of the connection with this C', or None if no line names it.

        A c' that does not belong to C' is left out, and becomes a problem.
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
        """The long-term keys of servers: each S once, with s if any file contains it. Each pair was verified.

        A certificate with a secret is treated as a server's, because it does not contain its side.
        """
        return self._server_keys

    @property
    def names_connections(self) -> bool:
        """Whether any line belongs to one connection; long-term keys alone open no messages."""
        return any(file.contents.connections for file in self._files)

    def places(self) -> list[Place]:
        """Return the reading position of each file."""
        return [file.place for file in self._files]

    def shared_keys(self, limit: int = 1000, behind: Sequence[Place] = ()) -> list[tuple[bytes, bytes]]:
        """Return (C', k) of at most `limit` CURVE_SHARED lines, newest first, for captures that start inside a
        connection.

        Several files take turns. With `behind`, an earlier result of `places`, returns only newer lines; all lines of a
        replaced file are newer.
        """
        starts = behind or [START] * len(self._files)
        turns = zip_longest(*map(KeyFile.newest_shared, self._files, starts))
        pairs: dict[tuple[bytes, bytes], None] = {}
        for pair in chain.from_iterable(turns):
            if len(pairs) == limit:
                break
            if pair is not None:
                pairs[pair] = None
        return list(pairs)

    def lines(self) -> Iterator[tuple[Path | None, KeyLine]]:
        """Yield all lines and the path of their file, in the order of the files and their lines."""
        for file in self._files:
            contents = file.contents
            said = chain(contents.server_lines(), *map(file.lines_of, list(contents.connections)))
            for line in sorted(said, key=lambda line: line.number):
                yield file.path, line

    @property
    def problems(self) -> list[str]:
        """A sentence for each unusable line, with file and line number, and for each file without keys.

        At most `PROBLEMS_TOLD` lines per file are listed, then the number of the others. No sentence repeats the
        contents of a line. File names are unchanged: escape them before printing to a terminal.
        """
        return [problem for file in self._files for problem in file.problems()]

    @property
    def readable_by_others(self) -> list[Path]:
        """Files with secrets whose mode lets their group or others read them (POSIX only)."""
        return [
            file.path
            for file in self._files
            if file.path is not None and file.is_readable_by_others() and file.contents.has_secrets()
        ]

    def _all_server_keys(self) -> list[ServerKey]:
        keys: dict[bytes, bytes | None] = {}
        for file in self._files:
            for line in file.contents.server_lines():
                if keys.get(line.public) is None:
                    keys[line.public] = line.value
        return [ServerKey(*pair) for pair in keys.items()]


def _values(lines: Sequence[KeyLine], label: str) -> tuple[bytes, ...]:
    return tuple(line.value for line in lines if line.label == label and line.value is not None)
