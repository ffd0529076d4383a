"""What is asked of all key files together: the keys of a connection by its C', and those of servers."""

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


class KeysMark(NamedTuple):
    """How far `Keys` were: its generation, and of each file how often it was read from its start and a digest."""

    generation: int
    files: list[tuple[int, bytes]]


class Keys:
    """What a number of key files say, and what is handed over beside them. One C' is looked up at the cost of a
    dictionary look-up for each file.

    A path that is None is standard input. Raises `KeyFileError` where a file cannot be opened, is larger than
    `LARGEST_FILE` or has more than `MOST_LINES`. Standard input and what is no regular file (pipes) is read once, to
    its end.
    """

    def __init__(self, paths: Sequence[Path | None], handed: HandedLines | None = None) -> None:
        self._files = [KeyFile(path) for path in paths]
        if handed is not None:
            self._files.append(handed)
        self._server_keys = self._all_server_keys()
        self.generation = 0
        """Goes up whenever `refresh` finds that the files say something else than before."""

    def with_files(self, paths: Sequence[Path | None]) -> Keys:
        """What these and further files say. Raises `KeyFileError`."""
        made = Keys(paths)
        made._files = [*self._files, *made._files]
        made._server_keys = made._all_server_keys()
        return made

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

    def mark(self) -> KeysMark:
        """Where these keys are, for others of the same files to go on from."""
        return KeysMark(self.generation, [(file.readings, file.contents.digest()) for file in self._files])

    def resume(self, mark: KeysMark) -> None:
        """Go on from where other keys were: with their generation where the files say the same, else with the next."""
        is_same = len(mark.files) == len(self._files)
        for file, (readings, digest) in zip(self._files, mark.files, strict=False):
            is_same_file = file.contents.digest() == digest
            file.readings = readings + (not is_same_file)
            is_same &= is_same_file
        self.generation = mark.generation + (not is_same)

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

    @property
    def names_connections(self) -> bool:
        """Whether any line is about one connection; long-term keys alone open no messages."""
        return any(file.contents.connections for file in self._files)

    def places(self) -> list[Place]:
        """How far each file was read until now."""
        return [file.place for file in self._files]

    def shared_keys(self, limit: int = 1000, behind: Sequence[Place] = ()) -> list[tuple[bytes, bytes]]:
        """(C', k) of at most `limit` CURVE_SHARED lines, newest first, for captures that begin inside a connection.

        With more than one file these take turns. With `behind`, what `places` said before, only lines that came since;
        those of a file that was replaced have all come since.
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
