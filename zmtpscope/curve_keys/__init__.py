"""Files with CURVE keys (curve.md 6): key logs and certificates, read at once and again where they grow.

Keys are 32 octets everywhere; files spell them as 64 hex digits or 40 Z85 characters. The names of keys are those of
curve.md 1. What a file says is believed as far as it can be checked without a capture: a long-term pair and a
certificate when they are read, a client transient pair when it is looked up. That a line is about this capture is for
the caller to prove, by opening a box. Nothing here prints a secret: not a problem, and not the `repr` of a type.

`lines` is what one line says, `contents` what those of a file say together, `files` how it is read and grows, and
`lookup` what is asked of all of them.
"""

from zmtpscope.curve_keys.files import HandedLines, KeyFileError, Place
from zmtpscope.curve_keys.lines import (
    CLIENT_TRANSIENT,
    COOKIE_KEY,
    LABELS,
    SERVER_LONGTERM,
    SERVER_PUBLIC,
    SERVER_PUBLIC_TRANSIENT,
    SERVER_TRANSIENT,
    SHARED,
    KeyLine,
    build_key_line,
    key_from_text,
)
from zmtpscope.curve_keys.lookup import ClientTransient, ConnectionSecrets, Keys, KeysMark, ServerKey

__all__ = [
    "CLIENT_TRANSIENT",
    "COOKIE_KEY",
    "LABELS",
    "SERVER_LONGTERM",
    "SERVER_PUBLIC",
    "SERVER_PUBLIC_TRANSIENT",
    "SERVER_TRANSIENT",
    "SHARED",
    "ClientTransient",
    "ConnectionSecrets",
    "HandedLines",
    "KeyFileError",
    "KeyLine",
    "Keys",
    "KeysMark",
    "Place",
    "ServerKey",
    "build_key_line",
    "key_from_text",
]
