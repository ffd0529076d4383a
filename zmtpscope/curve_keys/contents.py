"""Collect the keys in the lines of one key file."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain

from zmtpscope.curve_crypto import public_key
from zmtpscope.curve_keys.lines import (
    FORMS,
    LABEL_OF,
    SERVER_LONGTERM,
    SERVER_PUBLIC,
    SERVER_PUBLIC_TRANSIENT,
    SHARED,
    WANTS,
    KeyLine,
    key_from_text,
    key_line,
    looks_like_a_key_line,
    property_of,
)

LONGEST_LINE = 1000
"""Octets of a line: four times the longest valid one."""

MAX_SERVER_KEYS = 1000
"""Server keys of a file. Each one is tried on each connection."""

MAX_LINES_OF_A_CONNECTION = 16
"""Lines of a file for the same connection (C')."""

MAX_PROBLEM_LINES = 10
"""Lines to list for one file; further ones are counted."""

UNKNOWN_LABEL = "the line begins with CURVE_, but not with a known label (capitals, then a space); it was skipped"

WITHOUT_SECRET = {SERVER_PUBLIC, SERVER_PUBLIC_TRANSIENT}

TAIL = 64
"""Octets before the reading position that are compared, to distinguish a file that grew from a replaced one."""


@dataclass(slots=True, repr=False)
class Certificate:
    """The keys read so far from the `curve` section of a certificate, and the line number of the last one.

    `is_wrong`: a key of the section is invalid.
    """

    public: bytes | None = None
    secret: bytes | None = None
    number: int = 0
    is_wrong: bool = False
    """Whether public and secret key do not belong together. The rest of the section is ignored then."""


class Contents:
    """The keys in the lines of one file. Octets can be added in any chunks."""

    def __init__(self, name: str) -> None:
        self.connections: dict[bytes, tuple[KeyLine, ...]] = {}
        """Lines by C'."""
        self.problems: list[str] = []
        self.untold_problems = 0
        self.lines = 0
        self.is_utf_16 = False
        """Whether the file starts with the byte order mark of UTF-16 ("Unicode" on Windows)."""
        self.octets = 0
        self.tail = b""
        self._name = name
        self._rest = b""
        self._pairs: dict[tuple[bytes, bytes | None], None] = {}
        self._server_lines: list[KeyLine] = []
        self._shared: list[KeyLine] = []
        self._certificates: list[Certificate] = []
        self._certificate: Certificate | None = None
        self._news = 0

    def add(self, octets: bytes) -> bool:
        """Parse more octets of the file; return whether they contain new keys. An incomplete line is kept until its end
        arrives."""
        news = self._news
        self.octets += len(octets)
        self.tail = (self.tail + octets[-TAIL:])[-TAIL:]
        lines = (self._rest + octets).split(b"\n")
        self._rest = lines.pop()[: LONGEST_LINE + 1]
        for line in lines:
            self.lines += 1
            self._add_line(line, self.lines)
        return self._news > news

    def add_unfinished_line(self) -> bool:
        """Parse an incomplete last line as if it had ended; return whether there was one."""
        if self._rest:
            self._add_line(self._rest, self.lines + 1)
        return bool(self._rest)

    def digest(self) -> bytes:
        """Return octets that identify the file and its current size."""
        return blake2b(b"%d %s" % (self.octets, self.tail), digest_size=16).digest()

    def add_problem(self, text: str, number: int | None = None) -> None:
        """Record a problem on line `number`, or in the whole file."""
        if len(self.problems) == MAX_PROBLEM_LINES:
            self.untold_problems += 1
        else:
            where = self._name if number is None else f"{self._name}:{number}"
            self.problems.append(f"{where}: {text}")

    def newest_shared(self, behind: int) -> Iterator[tuple[bytes, bytes]]:
        """Yield (C', k) of the CURVE_SHARED lines after line number `behind`, newest first: client transient key and
        shared key."""
        for line in reversed(self._shared):
            if line.number <= behind:
                break
            if line.value is not None:
                yield line.public, line.value

    def server_lines(self) -> list[KeyLine]:
        """Return the lines and certificates with long-term keys of servers. A secret in them was checked against its
        public key."""
        lines = self._server_lines.copy()
        for certificate in self._certificates:
            if certificate.secret is not None:
                public = certificate.public or public_key(certificate.secret)
                lines.append(KeyLine(SERVER_LONGTERM, public, certificate.secret, None, certificate.number))
            elif certificate.public is not None:
                lines.append(KeyLine(SERVER_PUBLIC, certificate.public, None, None, certificate.number))
        return lines

    def has_secrets(self) -> bool:
        lines = chain(self.server_lines(), chain.from_iterable(self.connections.values()))
        return any(line.label not in WITHOUT_SECRET for line in lines)

    def is_empty(self) -> bool:
        return not self.connections and not self.server_lines()

    def has_equal_keys(self, other: Contents) -> bool:
        return self.connections == other.connections and self.server_lines() == other.server_lines()

    def _add_line(self, line: bytes, number: int) -> None:
        if number == 1:
            self.is_utf_16 = line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            line = line.removeprefix(codecs.BOM_UTF8)  # Windows editors add it
        fields = line[:LONGEST_LINE].split()
        if not fields or fields[0][:1] == b"#":
            return
        label = LABEL_OF.get(fields[0])
        if label is None:
            self._add_line_of_certificate(line[:LONGEST_LINE], fields, number)
        elif len(line) > LONGEST_LINE:
            self.add_problem(f"the line has more than {LONGEST_LINE} octets and was skipped", number)
        elif (said := key_line(label, fields, number)) is None:
            self.add_problem(f"{label} wants {WANTS.get(label, '2 keys')} of {FORMS}", number)
        elif label in (SERVER_LONGTERM, SERVER_PUBLIC):
            self._add_server(said)
        else:
            self._add_to_connection(said)

    def _add_to_connection(self, line: KeyLine) -> None:
        lines = self.connections.get(line.public, ())
        if line in lines:
            return
        if len(lines) == MAX_LINES_OF_A_CONNECTION:
            self.add_problem(f"{len(lines)} other lines have the same connection; this one was skipped", line.number)
            return
        self.connections[line.public] = (*lines, line)
        if line.label == SHARED:
            self._shared.append(line)
        self._news += 1

    def _add_server(self, line: KeyLine) -> None:
        pair = line.public, line.value
        if pair in self._pairs:
            return
        if self._has_enough_servers(line.number):
            return
        self._pairs[pair] = None
        if line.value is not None and public_key(line.value) != line.public:
            self.add_problem("the secret key does not match the public key before it", line.number)
            return
        self._server_lines.append(line)
        self._news += 1

    def _has_enough_servers(self, number: int) -> bool:
        enough = len(self._pairs) + len(self._certificates) >= MAX_SERVER_KEYS
        if enough:
            self.add_problem(f"there are {MAX_SERVER_KEYS} server keys before it; it was skipped", number)
        return enough

    def _add_line_of_certificate(self, line: bytes, fields: list[bytes], number: int) -> None:
        """Read a line of a certificate in ZPL (ZeroMQ RFC 4): an unindented name starts a section, indented lines
        are its properties."""
        if not line[:1].isspace():
            if looks_like_a_key_line(line):
                self.add_problem(UNKNOWN_LABEL, number)
            self._certificate = None
            if fields[0] == b"curve" and not self._has_enough_servers(number):
                self._certificate = Certificate()
                self._certificates.append(self._certificate)
        elif self._certificate is not None and (said := property_of(line)) is not None:
            self._add_property(self._certificate, *said, number)

    def _add_property(self, certificate: Certificate, name: bytes, text: bytes, number: int) -> None:
        key = key_from_text(text)
        if key is None:
            self.add_problem(f"{name.decode()} wants {FORMS}", number)
            return
        if certificate.is_wrong or key == (certificate.public if name == b"public-key" else certificate.secret):
            return
        if name == b"public-key":
            certificate.public = key
        else:
            certificate.secret = key
        certificate.number = number
        self._news += 1
        if certificate.public and certificate.secret and public_key(certificate.secret) != certificate.public:
            self.add_problem("the secret key and the public key of the certificate do not match", number)
            certificate.public = certificate.secret = None
            certificate.is_wrong = True
