"""Read key logs and certificates with CURVE keys (curve.md 6), and follow these files as they grow.

Long-term pairs and certificates are verified when they are read, client transient pairs when they are looked up. The
caller must verify that a key belongs to a capture, by opening a box. Nothing here prints a secret, neither in a problem
nor in a `repr`.
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
