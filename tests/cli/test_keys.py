"""Key files on the command line: given to commands, looked at, and never shown with their secrets."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable, Iterator

import pytest

from tests.cli.running import Run, secret_file
from tests.curve import CurvePeers, conversation, keys
from tests.curve_vector import CLIENT, CLIENT_TRANSIENT, COOKIE_KEY, SERVER, SERVER_TRANSIENT, SHARED
from tests.traffic import Capture, Conversation, records
from zmtpscope.cli.captures import report_still_encrypted
from zmtpscope.curve_keys import Keys
from zmtpscope.dissect import DecodeAs, Options, Summary
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

KeyFile = Callable[..., pathlib.Path]


@pytest.fixture
def key_file(tmp_path: pathlib.Path) -> KeyFile:
    """A key file that only its owner may read, unless another mode is given."""

    def make(content: str, name: str = "keys.txt", mode: int = 0o600) -> pathlib.Path:
        return secret_file(tmp_path / name, content, mode)

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
        assert err == f"zmtpscope {command}: {path}: no such file (see zmtpscope {command} --help)\n"

    def test_the_environment_names_files(
        self, zmtpscope: Run, key_file: KeyFile, monkeypatch: pytest.MonkeyPatch, command: str, tmp_path: pathlib.Path
    ) -> None:
        names = [str(key_file("CURVE_SHARED\n", "one")), "", str(key_file("CURVE_COOKIE_KEY\n", "two"))]
        monkeypatch.setenv("ZMTPSCOPE_KEYLOG", os.pathsep.join(names))
        code, _, err = zmtpscope(*arguments_of(command, tmp_path))
        assert code == 0
        assert "one:1: CURVE_SHARED wants" in err
        assert "two:1: CURVE_COOKIE_KEY wants" in err

    def test_a_missing_file_of_the_environment_is_reported_with_its_variable(
        self, zmtpscope: Run, monkeypatch: pytest.MonkeyPatch, command: str, tmp_path: pathlib.Path
    ) -> None:
        monkeypatch.setenv("ZMTPSCOPE_KEYLOG", str(tmp_path / "none.txt"))
        code, _, err = zmtpscope(*arguments_of(command, tmp_path))
        assert code == 2
        assert "none.txt: no such file, named by ZMTPSCOPE_KEYLOG" in err

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
        assert f"zmtpscope: {path}: other users can read the secret keys in it -> chmod 600 '{path}'\n" in err

    def test_lines_that_cannot_be_used_are_reported_once_and_escaped(
        self, zmtpscope: Run, key_file: KeyFile, command: str, tmp_path: pathlib.Path
    ) -> None:
        path = key_file(f"CURVE_SHARED {SHARED.hex()} \x1b[31m\n", "a\x1b[31m.txt")
        code, _, err = zmtpscope(*arguments_of(command, tmp_path), "--keys", path)
        assert code == 0
        assert err.count(r"a\x1b[31m.txt:1: CURVE_SHARED wants 2 keys of 64 hex digits or 40 Z85 characters") == 1
        assert err.count(r"a\x1b[31m.txt: contains no key") == 1
        assert "\x1b" not in err
        assert SHARED.hex() not in err


class TestStandardInput:
    """Keys may be read from a pipe, and so may the capture, but not from the same one."""

    @pytest.fixture
    def piped(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], None]]:
        """Yield a function that sets the octets of standard input."""
        before, pipes = os.dup(0), []

        def pipe(octets: bytes) -> None:
            reader, writer = os.pipe()
            os.write(writer, octets)
            os.close(writer)
            os.dup2(reader, 0)
            pipes.append(reader)

        yield pipe
        os.dup2(before, 0)
        for each in [before, *pipes]:
            os.close(each)

    def test_keys_are_read_from_a_pipe(self, zmtpscope: Run, piped: Callable[[bytes], None]) -> None:
        piped(pathlib.Path(CAPTURE.replace(".pcap", ".keys")).read_bytes())
        code, out, err = zmtpscope("read", CAPTURE, "--keys", "-")
        assert (code, err) == (0, "")
        assert "decrypted message" in out

    def test_errors_in_keys_are_reported(self, zmtpscope: Run, piped: Callable[[bytes], None]) -> None:
        piped(b"CURVE_SHARED\n")
        _, _, err = zmtpscope("read", CAPTURE, "--keys", "-")
        assert "zmtpscope: standard input:1: CURVE_SHARED wants 2 keys" in err
        assert "zmtpscope: standard input: contains no key" in err

    def test_they_are_listed(self, zmtpscope: Run, piped: Callable[[bytes], None]) -> None:
        for form, expected in ([], "standard input:2: CURVE_SHARED "), (["--json"], '{"file": null, "line": 2, '):
            piped(KEY_LOG.encode())
            code, out, err = zmtpscope("keys", "list", *form, "-")
            assert (code, err) == (0, "")
            assert out.startswith(expected)

    @pytest.mark.skipif(os.name != "posix", reason="a name that POSIX allows")
    def test_a_file_may_have_that_name(
        self, zmtpscope: Run, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        pathlib.Path("-").write_text(KEY_LOG)
        pathlib.Path("-").chmod(0o600)
        assert zmtpscope("keys", "list", "./-")[1].startswith("-:2: CURVE_SHARED ")


LONG_TERM = f"CURVE_SERVER_PUBLIC {SERVER.public.hex()} -\n"
OTHER_RUN = f"CURVE_SHARED {CLIENT_TRANSIENT.public.hex()} {SHARED.hex()}\n"
OWN = pathlib.Path(CAPTURE.replace(".pcap", ".keys")).read_text().splitlines(True)
WRONG = OWN[1][: -len(SHARED.hex()) - 1] + SHARED.hex() + "\n"
CLOSED = "zmtpscope: {} of 2 CURVE connections with messages were not decrypted: "
GET_KEYS = " -> zmtpscope keys record records the keys of a program's connections while it runs (docs/keys.md)\n"


class TestWhatStayedClosed:
    """Connections that no key opens are counted, and the reason is printed as far as it is known."""

    @pytest.mark.parametrize("form", [[], ["-q"], ["--json"]])
    @pytest.mark.parametrize(
        ("keys", "expected"),
        [
            ("".join(OWN), ""),
            ("", CLOSED.format(2) + "none of the keys can be used" + GET_KEYS),
            (LONG_TERM, CLOSED.format(2) + "long-term keys do not decrypt messages" + GET_KEYS),
            (
                LONG_TERM + OTHER_RUN,
                CLOSED.format(2) + "the key files name other connections -> check that they are from the same "
                "run; if the capture started after HELLO, only CURVE_SHARED decrypts it\n",
            ),
            (OWN[2], CLOSED.format(1) + "the key files do not name 1 of them" + GET_KEYS),
            (
                OWN[2] + WRONG,
                CLOSED.format(1) + "the keys for 1 of them do not decrypt messages -> see the findings CURVE-12, "
                "and docs/keys.md for the keys that are needed\n",
            ),
            (
                WRONG,
                CLOSED.format(2)
                + f"the key files do not name 1 of them{GET_KEYS[:-1]}; the keys for 1 of them do not decrypt "
                "messages -> see the findings CURVE-12, and docs/keys.md for the keys that are needed\n",
            ),
        ],
        ids=["nothing", "no key", "long-term keys", "another run", "not named", "wrong", "both"],
    )
    def test_the_reason_is_reported(
        self, zmtpscope: Run, key_file: KeyFile, keys: str, expected: str, form: list[str]
    ) -> None:
        code, out, err = zmtpscope("read", *form, CAPTURE, "--keys", key_file(keys))
        assert code == 0
        assert "".join(line for line in err.splitlines(True) if "contains no key" not in line) == expected
        assert ("CURVE-12" in out) == ("CURVE-12" in expected)

    def test_long_term_keys_are_reported_with_their_proof(
        self, key_file: KeyFile, capsys: pytest.CaptureFixture[str]
    ) -> None:
        keys = Keys([key_file(LONG_TERM)])
        report_still_encrypted(Summary(curve_connections=5, proven_connections=3), keys)
        assert capsys.readouterr().err == (
            CLOSED.format(5).replace("of 2", "of 5")
            + "long-term keys do not decrypt messages, they only prove the server of the client's key (3 of them)"
            + GET_KEYS
        )

    @pytest.mark.parametrize(
        ("labels", "counted"),
        [
            (("SERVER_PUBLIC",), (1, 0, 0, 0)),
            (("SERVER_LONGTERM",), (1, 1, 0, 0)),
            (("CLIENT_TRANSIENT",), (1, 0, 1, 0)),
            (("CLIENT_TRANSIENT with S",), (1, 1, 1, 1)),
            (("SHARED",), (1, 0, 1, 1)),
        ],
    )
    def test_counts_of_decrypted_connections(
        self, tmp_path: pathlib.Path, labels: tuple[str, ...], counted: tuple[int, ...]
    ) -> None:
        """Connections with messages, and how many of them were proven, named and opened."""
        peers = CurvePeers()
        packets = conversation([*peers.handshake(), (0, peers.messages(0, b"hello"))]).packets
        _, analyser = records(Capture(packets), Options(keys=keys(tmp_path, peers.lines(*labels))))
        summary = analyser.summary
        proven_and_named = (summary.proven_connections, summary.named_connections)
        assert counted == (summary.curve_connections, *proven_and_named, summary.opened_connections)

    def test_a_connection_that_opens_without_its_hello_is_named(self, tmp_path: pathlib.Path) -> None:
        peers = CurvePeers()
        talk = Conversation(syn=False)
        talk.send(0, b"".join(peers.messages(0, b"hello") for _ in range(20)))
        options = Options(keys=keys(tmp_path, peers.lines("SHARED")), decode_as=(DecodeAs("conn", 1, "3.1", "CURVE"),))
        _, analyser = records(Capture(talk.packets), options)
        assert (analyser.summary.named_connections, analyser.summary.opened_connections) == (1, 1)

    def test_export_reports_it_too(self, zmtpscope: Run, key_file: KeyFile, tmp_path: pathlib.Path) -> None:
        _, _, err = zmtpscope("export", CAPTURE, "-o", tmp_path / "out", "--keys", key_file(LONG_TERM))
        assert CLOSED.format(2) + "long-term keys do not decrypt messages" + GET_KEYS in err

    def test_the_summary_counts_connections_with_messages(self, zmtpscope: Run, key_file: KeyFile) -> None:
        _, out, _ = zmtpscope("read", "-q", CAPTURE, "--keys", key_file(OWN[2]))
        assert "decrypted        1 of 2 connections with CURVE that reached messages: " in out


class TestList:
    def test_a_line_for_each_key_and_counts(self, zmtpscope: Run, key_file: KeyFile) -> None:
        path = key_file(KEY_LOG)
        code, out, err = zmtpscope("keys", "list", path)
        connection, server = CLIENT_TRANSIENT.public.hex(), z85.encode(SERVER.public)
        assert (code, err) == (0, "")
        assert out.replace(f"{path}:", "").splitlines() == [
            f"2: CURVE_SHARED                  {connection} ***",
            f"3: CURVE_CLIENT_TRANSIENT        {connection} *** secret of this public key server {server}",
            f"4: CURVE_SERVER_TRANSIENT        {connection} ***",
            f"5: CURVE_SERVER_PUBLIC_TRANSIENT {connection} {SERVER_TRANSIENT.public.hex()}",
            f"6: CURVE_COOKIE_KEY              {connection} ***",
            f"7: CURVE_SERVER_LONGTERM         {server} *** secret of this public key",
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
            f"{two}:3: CURVE_SERVER_LONGTERM         {z85.encode(SERVER.public)} *** secret of this public key",
            "2 keys in 2 files: 1 CURVE_SERVER_PUBLIC, 1 CURVE_SERVER_LONGTERM",
        ]

    @pytest.mark.parametrize("label", ["CURVE_SERVER_LONGTERM", "CURVE_CLIENT_TRANSIENT"])
    def test_halves_that_do_not_belong_together_are_reported(
        self, zmtpscope: Run, key_file: KeyFile, label: str
    ) -> None:
        code, out, err = zmtpscope("keys", "list", key_file(f"{label} {SERVER.public.hex()} {CLIENT.secret.hex()}\n"))
        assert (code, out) == (0, "0 keys in 1 file\n")
        assert "keys.txt:1: the secret key" in err
        assert "does not match the public key before it\n" in err

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
            f"zmtpscope keys list: {tmp_path}/none.txt: no such file (see zmtpscope keys list --help)\n",
        )
