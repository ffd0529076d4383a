"""Look up CURVE keys in several key files: of a connection by its C', and of servers."""

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
    """The long-term key pair of a server: public key S, and secret s or None."""

    public: bytes
    secret: bytes | None

    def __repr__(self) -> str:
        return f"ServerKey({z85.encode(self.public)})"


class ClientTransient(NamedTuple):
    """The transient secret c' of a client, and the public server key S if the same line contains it."""

    secret: bytes
    server: bytes | None

    def __repr__(self) -> str:
        return "ClientTransient(***)"


@dataclass(frozen=True, slots=True, repr=False)
class ConnectionSecrets:
    """All keys for the connection with one C', in the order of files and lines.

    Each c' was verified to belong to C'. The keys k, s', S' and K are proven only when one decrypts a box.
    """

    shared: tuple[bytes, ...]
    """k, the key shared by both sides"""
    client_transients: tuple[ClientTransient, ...]
    """c', and S if given"""
    server_transients: tuple[bytes, ...]
    """s', the transient secret of the server"""
    server_public_transients: tuple[bytes, ...]
    """S', the transient public key of the server"""
    cookie_keys: tuple[bytes, ...]
    """K, the cookie key of the server"""


class KeysMark(NamedTuple):
    """A state of `Keys` to continue from: its generation, and for each file how often it was read, and a digest of its
    contents."""

    generation: int
    files: list[tuple[int, bytes]]


class Keys:
    """The keys of several key files and of `handed` lines. A lookup by C' costs a dictionary lookup per file.

    A path None is standard input. Raises `KeyFileError` if a file cannot be opened, is larger than `LARGEST_FILE` or
    has more than `MAX_LINES`. Pipes and standard input are read once, to their end.
    """

    def __init__(self, paths: Sequence[Path | None], handed: HandedLines | None = None) -> None:
        self._files = [KeyFile(path) for path in paths]
        if handed is not None:
            self._files.append(handed)
        self._server_keys = self._all_server_keys()
        self.generation = 0
        """Increases when `refresh` finds changed keys."""

    def with_files(self, paths: Sequence[Path | None]) -> Keys:
        """Return the keys of these files and of further `paths`. Raises `KeyFileError`."""
        made = Keys(paths)
        made._files = [*self._files, *made._files]
        made._server_keys = made._all_server_keys()
        return made

    def refresh(self) -> bool:
        """Read new lines of changed files; return whether the keys have changed.

        Only the new octets of a grown file are read; an incomplete last line waits for its end. A truncated or replaced
        file is read from its start, and its earlier keys are dropped. A file that became unreadable keeps its keys.
        """
        changed = [file.refresh() for file in self._files]
        if not any(changed):
            return False
        self._server_keys = self._all_server_keys()
        self.generation += 1
        return True

    def mark(self) -> KeysMark:
        """Return a mark from which another `Keys` over the same files can `resume`."""
        return KeysMark(self.generation, [(file.readings, file.contents.digest()) for file in self._files])

    def resume(self, mark: KeysMark) -> None:
        """Continue from the state of another `Keys`: with its generation if the files contain the same keys, otherwise
        with the next one."""
        is_same = len(mark.files) == len(self._files)
        for file, (readings, digest) in zip(self._files, mark.files, strict=False):
            is_same_file = file.contents.digest() == digest
            file.readings = readings + (not is_same_file)
            is_same &= is_same_file
        self.generation = mark.generation + (not is_same)

    def secrets_for(self, client_transient: bytes) -> ConnectionSecrets | None:
        """Return all keys for the connection with the client transient key C', or None if no line contains C'.

        A c' that does not belong to C' is reported and left out.
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
        """Return each server key S once, with its secret s if any file contains it. Pairs were verified.

        The secret of any certificate counts as that of a server, because certificates do not name their side.
        """
        return self._server_keys

    @property
    def names_connections(self) -> bool:
        """Whether any line is for a single connection. Otherwise no message can be decrypted."""
        return any(file.contents.connections for file in self._files)

    def places(self) -> list[Place]:
        return [file.place for file in self._files]

    def shared_keys(self, limit: int = 1000, behind: Sequence[Place] = ()) -> list[tuple[bytes, bytes]]:
        """Return (C', k) of at most `limit` CURVE_SHARED lines, newest first, for captures that start inside a
        connection.

        The files take turns. `behind` is an earlier result of `places`: only newer lines are returned, but all lines of
        a file that was replaced.
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
        """Yield all key lines, each with the path of its file."""
        for file in self._files:
            contents = file.contents
            said = chain(contents.server_lines(), *map(file.lines_of, list(contents.connections)))
            for line in sorted(said, key=lambda line: line.number):
                yield file.path, line

    @property
    def problems(self) -> list[str]:
        """Return a sentence for each line that cannot be used, with file and line number, and for each file without
        keys.

        At most `MAX_PROBLEM_LINES` lines per file are listed, then the number of the others. No sentence repeats the
        contents of a line. File names are not escaped: do so before printing to a terminal.
        """
        return [problem for file in self._files for problem in file.problems()]

    @property
    def readable_by_others(self) -> list[Path]:
        """Return files with secrets that the group or other users may read (POSIX only)."""
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
