"""Parse a line of a key file: of a key log, or a property of a certificate."""

from __future__ import annotations

from binascii import unhexlify
from dataclasses import dataclass, field
from typing import Final

from zmtpscope.zmtp import z85

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

LABEL_OF = {label.encode(): label for label in LABELS}
FORMS = "64 hex digits or 40 Z85 characters"


def key_from_text(text: bytes) -> bytes | None:
    """Parse 64 hex digits of either case or 40 Z85 characters; None for any other text."""
    try:
        if len(text) == 64:
            return unhexlify(text)
        if len(text) == 40:
            return z85.decode(text)
    except ValueError:
        pass
    return None


@dataclass(slots=True, repr=False)
class KeyLine:
    """A line of a key log, or the keys of a certificate in the same form.

    `public` is C', or S in the two labels for server keys. `value` is the secret, S' for SERVER_PUBLIC_TRANSIENT, or
    None for SERVER_PUBLIC. `server` is S if a CLIENT_TRANSIENT line contains it. `number` counts the lines of the file
    from 1, and is ignored in comparisons.
    """

    label: str
    public: bytes
    value: bytes | None
    server: bytes | None = None
    number: int = field(default=0, compare=False)


def property_of(line: bytes) -> tuple[bytes, bytes] | None:
    """Return name and value of a certificate line with a key; None for any other line.

    The value may have quotes and be followed by a comment. An invalid value is returned unchanged.
    """
    name, equals, value = line.partition(b"=")
    name, value = name.strip(), value.strip()
    if not equals or name not in (b"public-key", b"secret-key"):
        return None
    quote = value[:1]
    if quote in (b'"', b"'") and quote in value[1:]:
        text, _, behind = value[1:].partition(quote)
    else:
        text, behind = (*value.split(None, 1), b"", b"")[:2]
    return name, text if behind.lstrip()[:1] in (b"", b"#") else value


def looks_like_a_key_line(line: bytes) -> bool:
    """Whether a line begins with the prefix of a key line, in upper or lower case."""
    return line[:6].upper() == b"CURVE_"


WANTS = {CLIENT_TRANSIENT: "2 or 3 keys", SERVER_PUBLIC: "1 key"}


def key_line(label: str, fields: list[bytes], number: int) -> KeyLine | None:
    """Parse a key line that was split into label and fields, perhaps with a comment; None if the fields do not fit the
    label."""
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
        if label == CLIENT_TRANSIENT and rest and (server := key_from_text(rest[0])):
            rest = rest[1:]
    if rest and rest[0][:1] != b"#":
        return None
    return KeyLine(label, public, value, server, number)


def build_key_line(line: KeyLine) -> bytes:
    """Return a key line with its keys in hex, ending with a newline. `key_line` parses it again."""
    keys = [key.hex() for key in (line.public, line.value, line.server) if key is not None]
    if line.label == SERVER_PUBLIC:
        keys.append("-")
    return " ".join((line.label, *keys)).encode() + b"\n"
