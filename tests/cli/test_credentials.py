"""Credentials on the command line: the resulting security, and refusals with their sentences."""

from __future__ import annotations

import os
import pathlib

import click
import pytest

from tests.cli.running import secret_file
from zmtpscope import curve_crypto
from zmtpscope.cli.credentials import PASSWORD_VARIABLE, given_security
from zmtpscope.cli.peer_errors import EXIT_CODES, PeerFailed
from zmtpscope.zmtp import peer, z85

SECRET = bytes(range(32))
PUBLIC = curve_crypto.public_key(SECRET)
CERTIFICATE = f'curve\n    public-key = "{z85.encode(PUBLIC)}"\n    secret-key = "{z85.encode(SECRET)}"\n'


def file_of(tmp_path: pathlib.Path, content: str | bytes, mode: int = 0o600) -> str:
    return str(secret_file(tmp_path / "credentials", content, mode))


def test_no_options_are_null() -> None:
    assert given_security({"user": None, "plain_file": None}) == peer.Null()


@pytest.mark.parametrize(
    ("content", "user", "password"),
    [
        ("admin:secret\n", "admin", "secret"),
        ("admin:se:cret", "admin", "se:cret"),
        ("ad:min\r\n#secret\r\n", "ad:min", "#secret"),
        (b"admin:\xff\n", "admin", "\\xff"),
    ],
)
def test_plain_file(tmp_path: pathlib.Path, content: str | bytes, user: str, password: str) -> None:
    assert given_security({"plain_file": file_of(tmp_path, content)}) == peer.PlainClient(user, password)


def test_password_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "secret")
    assert given_security({"user": "admin"}) == peer.PlainClient("admin", "secret")


def test_a_password_without_a_terminal_to_ask_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_terminal(prompt: str) -> str:
        raise EOFError

    monkeypatch.delenv(PASSWORD_VARIABLE, raising=False)
    monkeypatch.setattr("getpass.getpass", no_terminal)
    with pytest.raises(
        click.UsageError, match=f"no terminal to ask for the password of admin; set {PASSWORD_VARIABLE}"
    ):
        given_security({"user": "admin"})


@pytest.mark.parametrize("content", [CERTIFICATE, PUBLIC.hex(), z85.encode(PUBLIC) + "\n"])
def test_server_key_in_a_file(tmp_path: pathlib.Path, content: str) -> None:
    security = given_security({"server_key": file_of(tmp_path, content)})
    assert isinstance(security, peer.CurveClient)
    assert security.server_key == PUBLIC


@pytest.mark.parametrize("key", [PUBLIC.hex(), z85.encode(PUBLIC)])
def test_server_key_itself(key: str) -> None:
    one, other = given_security({"server_key": key}), given_security({"server_key": key})
    assert isinstance(one, peer.CurveClient)
    assert isinstance(other, peer.CurveClient)
    assert one.server_key == PUBLIC
    assert one.secret != other.secret  # made afresh


@pytest.mark.parametrize("content", [CERTIFICATE, SECRET.hex(), z85.encode(SECRET)])
@pytest.mark.parametrize("option", ["curve_file", "curve_server"])
def test_own_secret_key(tmp_path: pathlib.Path, content: str, option: str) -> None:
    given = {option: file_of(tmp_path, content)}
    security = given_security(given if option == "curve_server" else {**given, "server_key": PUBLIC.hex()})
    assert isinstance(security, peer.CurveClient | peer.CurveServer)
    assert security.secret == SECRET


def test_users(tmp_path: pathlib.Path) -> None:
    security = given_security({"plain_users": file_of(tmp_path, "admin:secret\nguest:\n\n")})
    assert isinstance(security, peer.PlainServer)
    assert security.allows("admin", "secret")
    assert security.allows("guest", "")
    assert not security.allows("admin", "")
    assert not security.allows("nobody", "")


@pytest.mark.parametrize(
    ("option", "content", "words"),
    [
        ("plain_file", "admin\n", "expected one line user:password"),
        ("plain_file", "a\nb\nc", "expected one line user:password"),
        ("plain_file", f"admin:{'x' * 256}", "the password is longer than 255 octets"),
        ("plain_users", "admin:secret\nguest", ":2: expected user:password"),
        ("server_key", "nothing", "expected one public key, found none"),
        (
            "curve_server",
            f"curve\n    public-key = {PUBLIC.hex()}",
            "expected one secret key, found none",
        ),
        ("curve_server", f"{CERTIFICATE}curve\n    secret-key = {PUBLIC.hex()}", "found 2"),
        ("curve_server", CERTIFICATE.replace(z85.encode(SECRET), PUBLIC.hex()), "do not match"),
        ("curve_file", CERTIFICATE, "also needs the server's key: add --server-key"),
        ("curve_server", "x" * (1 << 20) + "x", "larger than 1 MiB"),
    ],
)
def test_unusable_credentials(tmp_path: pathlib.Path, option: str, content: str, words: str) -> None:
    with pytest.raises(click.UsageError, match=words):
        given_security({option: file_of(tmp_path, content)})


def test_a_text_that_is_neither_key_nor_file() -> None:
    with pytest.raises(click.UsageError, match="--server-key what: not a file, 40 Z85 characters or 64 hex"):
        given_security({"server_key": "what"})
    with pytest.raises(click.UsageError, match="no such file or directory"):
        given_security({"plain_file": os.path.join("no", "file")})


def test_one_mechanism_at_a_time() -> None:
    with pytest.raises(click.UsageError, match="--user and --server-key are mutually exclusive"):
        given_security({"user": "admin", "server_key": PUBLIC.hex()})


@pytest.mark.skipif(os.name != "posix", reason="modes of files are those of POSIX")
def test_secrets_that_others_can_read(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = file_of(tmp_path, "admin:secret", 0o644)
    given_security({"plain_file": path})
    assert capsys.readouterr().err == f"zmtpscope: {path}: other users can read the secrets in it -> chmod 600 {path}\n"


def test_every_error_has_an_exit_code() -> None:
    kinds = {kind for kind in vars(peer).values() if isinstance(kind, type) and issubclass(kind, peer.PeerError)}
    assert kinds - {peer.PeerError} < EXIT_CODES.keys()
    failed = PeerFailed("tcp://127.0.0.1:5555", peer.TooSlow("not one octet came"))
    assert (failed.exit_code, str(failed)) == (11, "tcp://127.0.0.1:5555: not one octet came")
