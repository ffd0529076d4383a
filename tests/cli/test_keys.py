"""Key files on the command line: given to commands, looked at, and never shown with their secrets."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable

import pytest

from tests.curve_vector import CLIENT, CLIENT_TRANSIENT, COOKIE_KEY, SERVER, SERVER_TRANSIENT, SHARED
from zmtpscope.cli import run
from zmtpscope.zmtp import z85

SECURITY = pathlib.Path(__file__).parent.parent.parent / "captures" / "security"
CAPTURE = str(SECURITY / "curve-with-key-log.pcap")
KEY_LOG = f"""# a line of each kind
CURVE_SHARED {CLIENT_TRANSIENT.public.hex()} {SHARED.hex()}
CURVE_CLIENT_TRANSIENT {CLIENT_TRANSIENT.public.hex()} {CLIENT_TRANSIENT.secret.hex()} {SERVER.public.hex()}
CURVE_SERVER_TRANSIENT {CLIENT_TRANSIENT.public.hex()} {SERVER_TRANSIENT.secret.hex()}
CURVE_SERVER_PUBLIC_TRANSIENT {CLIENT_TRANSIENT.public.hex()} {SERVER_TRANSIENT.public.hex()}
CURVE_COOKIE_KEY {CLIENT_TRANSIENT.public.hex()} {COOKIE_KEY.hex()}
CURVE_SERVER_LONGTERM {SERVER.public.hex()} {SERVER.secret.hex()}
CURVE_SERVER_PUBLIC {CLIENT.public.hex()} -
"""
SECRETS = [SHARED, CLIENT_TRANSIENT.secret, SERVER_TRANSIENT.secret, COOKIE_KEY, SERVER.secret]

Run = Callable[..., tuple[int, str, str]]
KeyFile = Callable[..., pathlib.Path]


@pytest.fixture
def zmtpscope(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command line in this process: exit code, standard output, standard error."""
    monkeypatch.delenv("ZMTPSCOPE_KEYLOG", raising=False)

    def call(*arguments: str | pathlib.Path) -> tuple[int, str, str]:
        code = run([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def key_file(tmp_path: pathlib.Path) -> KeyFile:
    """A key file that only its owner may read, unless another mode is given."""

    def make(content: str, name: str = "keys.txt", mode: int = 0o600) -> pathlib.Path:
        path = tmp_path / name
        path.write_text(content)
        path.chmod(mode)
        return path

    return make


def arguments_of(command: str, folder: pathlib.Path) -> list[str]:
    return ["read", CAPTURE] if command == "read" else ["export", CAPTURE, "-o", str(folder / "out")]


@pytest.mark.parametrize("command", ["read", "export"])
class TestGivingKeys:
    def test_any_number_of_files(self, zmtpscope: Run, key_file: KeyFile, command: str, tmp_path: pathlib.Path) -> None:
        one, two = key_file(KEY_LOG, "one"), key_file(KEY_LOG, "two")
        code, _, err = zmtpscope(*arguments_of(command, tmp_path), "--keys", one, "--keys", two)
        assert code == 0
        assert ": one" not in err
        assert ": two" not in err

    def test_a_file_that_cannot_be_read_is_2(self, zmtpscope: Run, command: str, tmp_path: pathlib.Path) -> None:
        code, out, err = zmtpscope(*arguments_of(command, tmp_path), "--keys", tmp_path / "none.txt")
        assert (code, out) == (2, "")
        path = tmp_path / "none.txt"
        assert err == f"zmtpscope {command}: {path}: there is no such file (see zmtpscope {command} --help)\n"

    def test_the_environment_names_files(
        self, zmtpscope: Run, key_file: KeyFile, monkeypatch: pytest.MonkeyPatch, command: str, tmp_path: pathlib.Path
    ) -> None:
        names = [str(key_file("CURVE_SHARED\n", "one")), "", str(key_file("CURVE_COOKIE_KEY\n", "two"))]
        monkeypatch.setenv("ZMTPSCOPE_KEYLOG", os.pathsep.join(names))
        code, _, err = zmtpscope(*arguments_of(command, tmp_path))
        assert code == 0
        assert "one:1: CURVE_SHARED wants" in err
        assert "two:1: CURVE_COOKIE_KEY wants" in err

    def test_a_missing_file_of_the_environment_says_where_it_was_named(
        self, zmtpscope: Run, monkeypatch: pytest.MonkeyPatch, command: str, tmp_path: pathlib.Path
    ) -> None:
        monkeypatch.setenv("ZMTPSCOPE_KEYLOG", str(tmp_path / "none.txt"))
        code, _, err = zmtpscope(*arguments_of(command, tmp_path))
        assert code == 2
        assert "none.txt: there is no such file, named by ZMTPSCOPE_KEYLOG" in err

    def test_the_option_goes_before_the_environment(
        self, zmtpscope: Run, key_file: KeyFile, monkeypatch: pytest.MonkeyPatch, command: str, tmp_path: pathlib.Path
    ) -> None:
        monkeypatch.setenv("ZMTPSCOPE_KEYLOG", str(tmp_path / "none.txt"))
        assert zmtpscope(*arguments_of(command, tmp_path), "--keys", key_file(KEY_LOG))[0] == 0

    @pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
    def test_secrets_that_others_can_read_are_warned_of(
        self, zmtpscope: Run, key_file: KeyFile, command: str, tmp_path: pathlib.Path
    ) -> None:
        path = key_file(KEY_LOG, "my keys.txt", mode=0o640)
        code, _, err = zmtpscope(*arguments_of(command, tmp_path), "--keys", path)
        assert code == 0
        assert f"zmtpscope: {path}: others can read the secret keys in it -> chmod 600 '{path}'\n" in err

    def test_lines_that_cannot_be_used_are_told_once_and_escaped(
        self, zmtpscope: Run, key_file: KeyFile, command: str, tmp_path: pathlib.Path
    ) -> None:
        path = key_file(f"CURVE_SHARED {SHARED.hex()} \x1b[31m\n", "a\x1b[31m.txt")
        code, _, err = zmtpscope(*arguments_of(command, tmp_path), "--keys", path)
        assert code == 0
        assert err.count(r"a\x1b[31m.txt:1: CURVE_SHARED wants 2 keys of 64 hex digits or 40 Z85 characters") == 1
        assert err.count(r"a\x1b[31m.txt: there is no key in it") == 1
        assert "\x1b" not in err
        assert SHARED.hex() not in err


class TestList:
    def test_a_line_for_each_key_and_counts(self, zmtpscope: Run, key_file: KeyFile) -> None:
        path = key_file(KEY_LOG)
        code, out, err = zmtpscope("keys", "list", path)
        connection, server = CLIENT_TRANSIENT.public.hex(), z85.encode(SERVER.public)
        assert (code, err) == (0, "")
        assert out.replace(f"{path}:", "").splitlines() == [
            f"2: CURVE_SHARED                  {connection} ***",
            f"3: CURVE_CLIENT_TRANSIENT        {connection} *** belongs to it server {server}",
            f"4: CURVE_SERVER_TRANSIENT        {connection} ***",
            f"5: CURVE_SERVER_PUBLIC_TRANSIENT {connection} {SERVER_TRANSIENT.public.hex()}",
            f"6: CURVE_COOKIE_KEY              {connection} ***",
            f"7: CURVE_SERVER_LONGTERM         {server} *** belongs to it",
            f"8: CURVE_SERVER_PUBLIC           {z85.encode(CLIENT.public)}",
            "7 keys in 1 file: 1 CURVE_SHARED, 1 CURVE_CLIENT_TRANSIENT, 1 CURVE_SERVER_TRANSIENT, "
            "1 CURVE_SERVER_PUBLIC_TRANSIENT, 1 CURVE_COOKIE_KEY, 1 CURVE_SERVER_LONGTERM, 1 CURVE_SERVER_PUBLIC",
        ]

    def test_certificates_are_listed_in_the_words_of_key_logs(self, zmtpscope: Run, key_file: KeyFile) -> None:
        public = f'    public-key = "{z85.encode(SERVER.public)}"\n'
        secret = f'    secret-key = "{z85.encode(SERVER.secret)}"\n'
        one, two = key_file(f"curve\n{public}", "server.key"), key_file(f"curve\n{public}{secret}", "server.key_secret")
        _, out, _ = zmtpscope("keys", "list", one, two)
        assert out.splitlines() == [
            f"{one}:2: CURVE_SERVER_PUBLIC           {z85.encode(SERVER.public)}",
            f"{two}:3: CURVE_SERVER_LONGTERM         {z85.encode(SERVER.public)} *** belongs to it",
            "2 keys in 2 files: 1 CURVE_SERVER_PUBLIC, 1 CURVE_SERVER_LONGTERM",
        ]

    @pytest.mark.parametrize("label", ["CURVE_SERVER_LONGTERM", "CURVE_CLIENT_TRANSIENT"])
    def test_halves_that_do_not_belong_together_are_told(self, zmtpscope: Run, key_file: KeyFile, label: str) -> None:
        code, out, err = zmtpscope("keys", "list", key_file(f"{label} {SERVER.public.hex()} {CLIENT.secret.hex()}\n"))
        assert (code, out) == (0, "0 keys in 1 file\n")
        assert "keys.txt:1: the secret key" in err
        assert "does not belong to the public key in front of it\n" in err

    def test_json_is_one_object_a_key(self, zmtpscope: Run, key_file: KeyFile) -> None:
        path = key_file(KEY_LOG)
        _, out, _ = zmtpscope("keys", "list", "--json", path)
        keys = [json.loads(line) for line in out.splitlines()]
        assert [key["line"] for key in keys] == [2, 3, 4, 5, 6, 7, 8]
        assert keys[1] == {
            "file": str(path),
            "line": 3,
            "label": "CURVE_CLIENT_TRANSIENT",
            "key": CLIENT_TRANSIENT.public.hex(),
            "value": "***",
            "belongs": True,
            "server": z85.encode(SERVER.public),
        }

    @pytest.mark.parametrize("form", [[], ["--json"]])
    def test_no_secret_is_shown(self, zmtpscope: Run, key_file: KeyFile, form: list[str]) -> None:
        _, out, err = zmtpscope("keys", "list", *form, key_file(KEY_LOG))
        for secret in SECRETS:
            assert secret.hex() not in out + err
            assert z85.encode(secret) not in out + err

    def test_a_file_name_is_harmless(self, zmtpscope: Run, key_file: KeyFile) -> None:
        path = key_file(KEY_LOG, "a\n\x1b[31mb\u202ec\udcff.txt")
        _, out, _ = zmtpscope("keys", "list", path)
        assert r"/a\x0a\x1b[31mb\u202ec\udcff.txt:2: CURVE_SHARED" in out
        assert len(out.splitlines()) == 8

    def test_a_file_that_cannot_be_read_is_2(self, zmtpscope: Run, tmp_path: pathlib.Path) -> None:
        assert zmtpscope("keys", "list", tmp_path / "none.txt") == (
            2,
            "",
            f"zmtpscope keys list: {tmp_path}/none.txt: there is no such file (see zmtpscope keys list --help)\n",
        )
