"""Credentials of sockets that the commands open: options, and the resulting `Security`.

Secrets are read from files, the environment or a prompt, never from the command line, which all local users can see.
"""

from __future__ import annotations

import getpass
import hmac
import os
import shlex
import stat
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.parameters import SECURITY
from zmtpscope.cli.terminal import notify
from zmtpscope.export.safe_text import safe_text

if TYPE_CHECKING:
    from zmtpscope.curve_keys import KeyLine
    from zmtpscope.zmtp.peer import CurveClient, CurveServer, PlainClient, PlainServer, Security

PASSWORD_VARIABLE = "ZMTPSCOPE_PASSWORD"
LARGEST_FILE = 1 << 20

OPTIONS = ("plain_file", "user", "server_key", "curve_file", "plain_users", "curve_server")
TOGETHER = ({"plain_file"}, {"user"}, {"server_key"}, {"server_key", "curve_file"}, {"plain_users"}, {"curve_server"})


CLIENT_OPTIONS = (
    SECURITY.option(
        "--plain-file", metavar="FILE", help="PLAIN login from FILE: user:password, or one on each of two lines."
    ),
    SECURITY.option(
        "--user", metavar="NAME", help=f"PLAIN user name; the password comes from {PASSWORD_VARIABLE} or a prompt."
    ),
    SECURITY.option(
        "--server-key",
        metavar="KEY|FILE",
        help="CURVE public key of the server: 40 Z85 characters, 64 hex digits, or a file.",
    ),
    SECURITY.option(
        "--curve-file",
        metavar="FILE",
        help="CURVE certificate with its secret key, or a file with only the secret key [default: a new key].",
    ),
)

SERVER_OPTIONS = (
    SECURITY.option(
        "--plain-users",
        metavar="FILE",
        help="Act as a PLAIN server and accept the logins in FILE, one user:password per line.",
    ),
    SECURITY.option(
        "--curve-server",
        metavar="FILE",
        help="Act as a CURVE server with this certificate and its secret key; any client key is accepted.",
    ),
)


def given_security(given: Mapping[str, Any]) -> Security:
    """Return the security that the options of client or server describe; NULL without options.

    Raises `click.UsageError` for invalid combinations and unusable files.
    """
    from zmtpscope.zmtp.peer import Null

    named = {name for name in OPTIONS if given.get(name) is not None}
    if not named:
        return Null()
    if named == {"curve_file"}:
        raise click.UsageError("--curve-file is our own key; CURVE also needs the server's key: add --server-key")
    if named not in TOGETHER:
        options = [f"--{name.replace('_', '-')}" for name in OPTIONS if name in named]
        raise click.UsageError(f"{' and '.join(options)} are mutually exclusive: a peer has one mechanism and one role")
    try:
        if "plain_file" in named:
            return _plain_client(*_login(given["plain_file"]))
        if "user" in named:
            return _plain_client(os.fsencode(given["user"]), _password(given["user"]))
        if "plain_users" in named:
            return _plain_server(given["plain_users"])
        if "curve_server" in named:
            return _curve_server(given["curve_server"])
        return _curve_client(given["server_key"], given.get("curve_file"))
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _login(path: str) -> tuple[bytes, bytes]:
    lines = _lines(path)
    if len(lines) == 2:
        return lines[0], lines[1]
    user, colon, password = b"".join(lines).partition(b":")
    if len(lines) != 1 or not colon:
        raise ValueError(f"{path}: expected one line user:password, or two lines: the user, and the password")
    return user, password


def _plain_client(user: bytes, password: bytes) -> PlainClient:
    from zmtpscope.records import to_text
    from zmtpscope.zmtp.peer import PlainClient

    return PlainClient(to_text(user), to_text(password))


def _password(user: str) -> bytes:
    password = os.environ.get(PASSWORD_VARIABLE)
    if password is None:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)  # the password would be visible while it is typed
            try:
                password = getpass.getpass(f"password of {safe_text(user)}: ")
            except (getpass.GetPassWarning, EOFError):
                where = f"set {PASSWORD_VARIABLE} or use --plain-file"
                raise ValueError(f"no terminal to ask for the password of {user}; {where}") from None
    return os.fsencode(password)


def _plain_server(path: str) -> PlainServer:
    from zmtpscope.records import from_text
    from zmtpscope.zmtp.peer import PlainServer

    users: dict[bytes, bytes] = {}
    for number, line in enumerate(_lines(path), 1):
        user, colon, password = line.partition(b":")
        if colon:
            users[user] = password
        elif line.strip():
            raise ValueError(f"{path}:{number}: expected user:password")

    def allows(username: str, password: str) -> bool:
        expected = users.get(from_text(username))
        return hmac.compare_digest(from_text(password), expected or b"") and expected is not None

    return PlainServer(allows)


def _curve_client(server_key: str, curve_file: str | None) -> CurveClient:
    from zmtpscope import curve_crypto
    from zmtpscope.curve_keys import key_from_text
    from zmtpscope.zmtp.peer import CurveClient

    public = key_from_text(os.fsencode(server_key))
    if public is None:
        if not os.path.exists(server_key):
            raise ValueError(f"--server-key {server_key}: not a file, 40 Z85 characters or 64 hex digits")
        public = _key(server_key, secret=False)
    secret = curve_crypto.random_octets(32) if curve_file is None else _key(curve_file, secret=True)
    return CurveClient(public, secret, curve_crypto)


def _curve_server(path: str) -> CurveServer:
    from zmtpscope import curve_crypto
    from zmtpscope.zmtp.peer import CurveServer

    return CurveServer(_key(path, secret=True), curve_crypto)


def _key(path: str, *, secret: bool) -> bytes:
    """Return the only key of a file: a public key, or with `secret` a secret key, alone or in a certificate."""
    from zmtpscope.curve_keys import key_from_text

    octets = _read(path, secret=secret)
    alone = key_from_text(octets.strip())
    if alone is not None:
        return alone
    what = "secret key" if secret else "public key"
    keys = {key for line in _certificates(path, octets) if (key := line.value if secret else line.public)}
    if len(keys) != 1:
        raise ValueError(f"{path}: expected one {what}, found {len(keys) or 'none'}")
    return keys.pop()


def _certificates(path: str, octets: bytes) -> list[KeyLine]:
    from zmtpscope.curve_keys.contents import Contents

    contents = Contents(path)
    contents.add(octets)
    contents.add_unfinished_line()
    if contents.problems:
        raise ValueError(contents.problems[0])
    return contents.server_lines()


def _lines(path: str) -> list[bytes]:
    """Return the lines of a file with logins, without empty lines at the end."""
    return _read(path, secret=True).rstrip(b"\r\n").replace(b"\r\n", b"\n").split(b"\n")


def _read(path: str, *, secret: bool) -> bytes:
    """Return the contents of a file. With `secret`, warn if other users can read it."""
    try:
        with open(path, "rb") as file:
            octets = file.read(LARGEST_FILE + 1)
            mode = os.fstat(file.fileno()).st_mode
    except OSError as error:
        raise ValueError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    if len(octets) > LARGEST_FILE:
        raise ValueError(f"{path}: larger than {LARGEST_FILE >> 20} MiB, so not a file of credentials")
    if secret and os.name == "posix" and stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
        notify(f"zmtpscope: {path}: other users can read the secrets in it -> chmod 600 {shlex.quote(path)}")
    return octets
