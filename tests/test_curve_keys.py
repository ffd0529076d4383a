"""Key files: lines are parsed as they were written, unusable lines are reported, and no contents raise an exception."""

from __future__ import annotations

import os
import pathlib
import time
from collections.abc import Callable, Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.curve_vector import CLIENT, CLIENT_TRANSIENT, COOKIE_KEY, SERVER, SERVER_TRANSIENT, SHARED
from zmtpscope.curve_crypto import public_key
from zmtpscope.curve_keys import (
    LABELS,
    SERVER_PUBLIC,
    ConnectionSecrets,
    HandedLines,
    KeyFileError,
    KeyLine,
    Keys,
    build_key_line,
    contents,
    files,
    key_from_text,
    lines,
)
from zmtpscope.curve_keys.contents import LONGEST_LINE, MAX_LINES_OF_A_CONNECTION, MAX_SERVER_KEYS
from zmtpscope.zmtp import z85

OTHER = bytes(range(100, 132))

CERTIFICATE = f"""#   ZeroMQ CURVE **Secret** Certificate

metadata
    name = "the server"
    email = "somebody@example.org"
curve
    public-key = "{z85.encode(SERVER.public)}"
    secret-key = "{z85.encode(SERVER.secret)}"
"""
PUBLIC_CERTIFICATE = "".join(line for line in CERTIFICATE.splitlines(True) if "secret-key" not in line)


@pytest.fixture
def keys_of(tmp_path: pathlib.Path) -> Callable[..., Keys]:
    """Return a function that reads keys from files with these contents: keys.txt, keys2.txt, ..."""

    def make(*contents: str | bytes) -> Keys:
        paths = []
        for number, content in enumerate(contents, 1):
            path = tmp_path / f"keys{number if number > 1 else ''}.txt"
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            paths.append(path)
        return Keys(paths)

    return make


def line(label: str, *keys: bytes, spelt: Callable[[bytes], str] = bytes.hex) -> str:
    return " ".join([f"CURVE_{label}", *map(spelt, keys)]) + "\n"


def found(keys: Keys, client_transient: bytes = CLIENT_TRANSIENT.public) -> ConnectionSecrets:
    secrets = keys.secrets_for(client_transient)
    assert secrets is not None
    return secrets


def problems_of(keys: Keys) -> list[str]:
    """Return the problems, with file names but without their folders."""
    return [problem.rpartition("/")[2] for problem in keys.problems]


def upper(key: bytes) -> str:
    return key.hex().upper()


@pytest.mark.parametrize("spelt", [bytes.hex, upper, z85.encode])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_each_label_is_read_in_every_spelling(
    keys_of: Callable[..., Keys], spelt: Callable[[bytes], str], end: str
) -> None:
    c = CLIENT_TRANSIENT
    text = "".join(
        [
            line("SHARED", c.public, SHARED, spelt=spelt),
            line("CLIENT_TRANSIENT", c.public, c.secret, SERVER.public, spelt=spelt),
            line("SERVER_TRANSIENT", c.public, SERVER_TRANSIENT.secret, spelt=spelt),
            line("SERVER_PUBLIC_TRANSIENT", c.public, SERVER_TRANSIENT.public, spelt=spelt),
            line("COOKIE_KEY", c.public, COOKIE_KEY, spelt=spelt),
            line("SERVER_LONGTERM", SERVER.public, SERVER.secret, spelt=spelt),
            f"CURVE_SERVER_PUBLIC {spelt(OTHER)} -\n",
        ]
    )
    keys = keys_of(text.replace("\n", end))
    secrets = found(keys)
    assert secrets.shared == (SHARED,)
    assert secrets.client_transients == ((c.secret, SERVER.public),)
    assert secrets.server_transients == (SERVER_TRANSIENT.secret,)
    assert secrets.server_public_transients == (SERVER_TRANSIENT.public,)
    assert secrets.cookie_keys == (COOKIE_KEY,)
    assert keys.server_keys == [(SERVER.public, SERVER.secret), (OTHER, None)]
    assert keys.shared_keys() == [(c.public, SHARED)]
    assert keys.problems == []


KEYS = st.binary(min_size=32, max_size=32)
ANY_LINES = st.sampled_from(LABELS).flatmap(
    lambda label: st.builds(
        KeyLine,
        st.just(label),
        KEYS,
        st.none() if label == SERVER_PUBLIC else KEYS,
        KEYS | st.none() if label == "CURVE_CLIENT_TRANSIENT" else st.none(),
    )
)


@given(ANY_LINES)
@example(KeyLine("CURVE_CLIENT_TRANSIENT", bytes(32), bytes(32), bytes(32)))
def test_a_line_that_is_written_is_read(line: KeyLine) -> None:
    label, *fields = build_key_line(line).split()
    assert lines.key_line(label.decode(), [label, *fields], 1) == line


def test_lines_that_are_handed_over_equal_lines_of_a_file(keys_of: Callable[..., Keys]) -> None:
    handed = HandedLines()
    keys = Keys([], handed)
    assert not keys.refresh()
    assert keys.problems == []
    c = CLIENT_TRANSIENT
    of_file = keys_of(
        line("SHARED", c.public, SHARED)
        + line("CLIENT_TRANSIENT", c.public, c.secret, SERVER.public)
        + line("SERVER_LONGTERM", SERVER.public, SERVER.secret)
    )
    lines = [each for _, each in of_file.lines()]
    for each in lines:
        handed.add(each)
        assert keys.refresh()
    handed.add(lines[0])
    assert not keys.refresh()  # it was reported before
    assert keys.generation == len(lines) == 3
    assert [each for _, each in keys.lines()] == lines
    assert keys.server_keys == of_file.server_keys
    assert keys.shared_keys() == of_file.shared_keys()
    assert found(keys) == found(of_file)
    assert keys.readable_by_others == []


def test_handed_lines_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_LINES", 2)
    handed = HandedLines()
    for number in range(3):
        handed.add(KeyLine("CURVE_SHARED", bytes([number] * 32), SHARED))
    assert len(Keys([], handed).shared_keys()) == 2


def test_nothing_is_known_about_other_connections(keys_of: Callable[..., Keys]) -> None:
    assert keys_of(line("SHARED", CLIENT_TRANSIENT.public, SHARED)).secrets_for(OTHER) is None


def test_the_server_of_a_client_transient_may_be_left_out(keys_of: Callable[..., Keys]) -> None:
    c = CLIENT_TRANSIENT
    keys = keys_of(line("CLIENT_TRANSIENT", c.public, c.secret))
    assert found(keys).client_transients == ((c.secret, None),)


def test_comments_empty_lines_and_unknown_labels_are_passed(keys_of: Callable[..., Keys]) -> None:
    text = "# CURVE_SHARED\n\n   \t\nCLIENT_RANDOM 00 11\nSHARED\ncurved x\n" + "#" * 5000 + "\n"
    keys = keys_of(text + line("SHARED", CLIENT_TRANSIENT.public, SHARED).rstrip() + " # the first connection\n")
    assert found(keys).shared == (SHARED,)
    assert keys.problems == []


def test_a_z85_key_may_have_the_sign_of_comments_in_it(keys_of: Callable[..., Keys]) -> None:
    """A key cannot begin with #: five characters that begin with it encode more than four octets."""
    assert key_from_text(b"#" + b"0" * 39) is None
    server = key_from_text(b"00#00" * 8)
    assert server is not None
    c = CLIENT_TRANSIENT
    keys = keys_of(line("CLIENT_TRANSIENT", c.public, c.secret, server, spelt=z85.encode).rstrip() + " # mine\n")
    assert found(keys).client_transients == ((c.secret, server),)
    assert keys_of(f"curve\n  public-key = {'00#00' * 8}# mine\n").server_keys == []
    assert keys_of(f"curve\n  public-key = {'00#00' * 8} # mine\n").server_keys == [(server, None)]


def test_lines_that_contradict_each_other_are_both_candidates(keys_of: Callable[..., Keys]) -> None:
    lines = [line("SHARED", OTHER, SHARED), line("SHARED", OTHER, COOKIE_KEY), line("SHARED", OTHER, SHARED)]
    assert found(keys_of("".join(lines)), OTHER).shared == (SHARED, COOKIE_KEY)
    assert found(keys_of(*lines), OTHER).shared == (SHARED, COOKIE_KEY)


def test_one_connection_has_a_bounded_number_of_candidates(keys_of: Callable[..., Keys]) -> None:
    lines = [line("SHARED", OTHER, bytes([number]) * 32) for number in range(MAX_LINES_OF_A_CONNECTION + 1)]
    keys = keys_of("".join(lines))
    assert len(found(keys, OTHER).shared) == MAX_LINES_OF_A_CONNECTION
    assert problems_of(keys) == ["keys.txt:17: 16 other lines have the same connection; this one was skipped"]


def test_shared_keys_are_newest_first_and_from_all_files_in_turn(keys_of: Callable[..., Keys]) -> None:
    key = [bytes([number]) * 32 for number in range(6)]
    keys = keys_of("".join(line("SHARED", k, k) for k in key[:4]), "".join(line("SHARED", k, k) for k in key[4:]))
    assert keys.shared_keys() == [(k, k) for k in (key[3], key[5], key[2], key[4], key[1], key[0])]
    assert keys.shared_keys(2) == [(k, k) for k in (key[3], key[5])]


def test_only_shared_keys_added_since(tmp_path: pathlib.Path) -> None:
    """Each file is compared by itself; a file that was replaced is new as a whole."""
    key = [bytes([number]) * 32 for number in range(5)]
    one, other = tmp_path / "one.keys", tmp_path / "other.keys"
    one.write_text(line("SHARED", key[0], key[0]))
    other.write_text(line("SHARED", key[1], key[1]))
    keys = Keys([one, other])
    places = keys.places()
    assert keys.shared_keys(behind=places) == []
    with other.open("a") as file:
        file.write(line("SHARED", key[2], key[2]))
    assert keys.refresh()
    assert keys.shared_keys(behind=places) == [(key[2], key[2])]
    one.unlink()
    one.write_text(line("SHARED", key[3], key[3]) + line("SHARED", key[4], key[4]))
    assert keys.refresh()
    assert keys.shared_keys(behind=places) == [(k, k) for k in (key[4], key[2], key[3])]


class TestCertificates:
    def test_one_with_a_secret_is_a_server_pair(self, keys_of: Callable[..., Keys]) -> None:
        assert keys_of(CERTIFICATE).server_keys == [SERVER]

    def test_one_without_names_a_server(self, keys_of: Callable[..., Keys]) -> None:
        assert keys_of(PUBLIC_CERTIFICATE).server_keys == [(SERVER.public, None)]

    def test_a_secret_alone_has_its_public_half(self, keys_of: Callable[..., Keys]) -> None:
        keys = keys_of(f'curve\n    secret-key = "{z85.encode(SERVER.secret)}"\n')
        assert keys.server_keys == [SERVER]

    def test_a_server_is_named_once_and_with_its_secret(self, keys_of: Callable[..., Keys]) -> None:
        other = line("SERVER_PUBLIC", OTHER)
        keys = keys_of(PUBLIC_CERTIFICATE, other, CERTIFICATE, line("SERVER_LONGTERM", SERVER.public, SERVER.secret))
        assert keys.server_keys == [SERVER, (OTHER, None)]

    @pytest.mark.parametrize("value", ["'{}'", "{}", '"{}"  # mine', '"{}"\r'])
    def test_values_are_written_in_many_ways(self, keys_of: Callable[..., Keys], value: str) -> None:
        text = f"curve\n\tpublic-key={value.format(z85.encode(SERVER.public))}\n"
        assert keys_of(text).server_keys == [(SERVER.public, None)]

    def test_only_the_section_curve_counts(self, keys_of: Callable[..., Keys]) -> None:
        keys = keys_of(PUBLIC_CERTIFICATE.replace("curve\n", "other\n"))
        assert keys.server_keys == []
        assert "contains no key" in keys.problems[0]

    @pytest.mark.parametrize("value", ["{} y", '"{}" y', '"{}', "", "# {}", "'{}\""])
    def test_a_value_with_something_else_is_reported(self, keys_of: Callable[..., Keys], value: str) -> None:
        keys = keys_of(f"curve\n  public-key = {value.format(z85.encode(SERVER.public))}\n")
        assert keys.server_keys == []
        assert problems_of(keys)[0] == "keys.txt:2: public-key wants 64 hex digits or 40 Z85 characters"

    def test_a_value_that_is_no_key_is_reported(self, keys_of: Callable[..., Keys]) -> None:
        keys = keys_of(PUBLIC_CERTIFICATE.replace('key = "', 'key = "x'))
        assert problems_of(keys)[0] == "keys.txt:7: public-key wants 64 hex digits or 40 Z85 characters"


class TestHalves:
    """A secret that does not belong to the public key beside it is never returned."""

    def test_of_a_long_term_pair(self, keys_of: Callable[..., Keys]) -> None:
        keys = keys_of(line("SERVER_LONGTERM", SERVER.public, CLIENT.secret) + line("SERVER_PUBLIC", OTHER))
        assert keys.server_keys == [(OTHER, None)]
        assert problems_of(keys) == ["keys.txt:1: the secret key does not match the public key before it"]

    @pytest.mark.parametrize("order", [1, -1])
    def test_of_a_certificate(self, keys_of: Callable[..., Keys], order: int) -> None:
        halves = [f'  public-key = "{z85.encode(SERVER.public)}"\n', f'  secret-key = "{z85.encode(CLIENT.secret)}"\n']
        keys = keys_of("curve\n" + "".join(halves[::order]))
        assert keys.server_keys == []
        assert "the secret key and the public key of the certificate do not match" in keys.problems[0]

    def test_a_certificate_that_contradicts_itself_proves_nothing_more(self, keys_of: Callable[..., Keys]) -> None:
        halves = [f"  public-key={z85.encode(SERVER.public)}\n", f"  secret-key={z85.encode(CLIENT.secret)}\n"]
        keys = keys_of("curve\n" + "".join(halves) + f"  secret-key={z85.encode(SERVER.secret)}\n")
        assert keys.server_keys == []
        assert len(keys.problems) == 2  # and that the file contains no key

    def test_of_a_client_transient_once_it_is_looked_up(self, keys_of: Callable[..., Keys]) -> None:
        c = CLIENT_TRANSIENT
        keys = keys_of(line("CLIENT_TRANSIENT", c.public, CLIENT.secret) + line("SHARED", c.public, SHARED))
        assert keys.problems == []
        for _ in range(2):
            assert found(keys).client_transients == ()
            assert found(keys).shared == (SHARED,)
        assert problems_of(keys) == [
            "keys.txt:1: the secret key of CURVE_CLIENT_TRANSIENT does not match the public key before it"
        ]

    def test_and_the_connection_stays_named_where_that_was_all(self, keys_of: Callable[..., Keys]) -> None:
        """So that CURVE-12 can report that the file has only a useless line for it."""
        keys = keys_of(line("CLIENT_TRANSIENT", CLIENT_TRANSIENT.public, CLIENT.secret))
        for _ in range(2):
            assert found(keys) == ConnectionSecrets((), (), (), (), ())


WRONG = [
    ("CURVE_SHARED", "CURVE_SHARED wants 2 keys of 64 hex digits or 40 Z85 characters"),
    (f"CURVE_SHARED {SHARED.hex()}", "CURVE_SHARED wants 2 keys"),
    (f"CURVE_SHARED {OTHER.hex()} {SHARED.hex()[1:]}", "CURVE_SHARED wants 2 keys"),
    (f"CURVE_SHARED {OTHER.hex()} {SHARED.hex()} {SHARED.hex()}", "CURVE_SHARED wants 2 keys"),
    (f"CURVE_SHARED {OTHER.hex()} {'g' * 64}", "CURVE_SHARED wants 2 keys"),
    (f"CURVE_SHARED {OTHER.hex()} {'#' * 40}", "CURVE_SHARED wants 2 keys"),
    (f"CURVE_SHARED {OTHER.hex()} {';' * 40}", "CURVE_SHARED wants 2 keys"),
    (f"CURVE_CLIENT_TRANSIENT {OTHER.hex()} {OTHER.hex()} x", "CURVE_CLIENT_TRANSIENT wants 2 or 3 keys"),
    (f"CURVE_SERVER_PUBLIC {OTHER.hex()} {SHARED.hex()}", "CURVE_SERVER_PUBLIC wants 1 key of 64"),
    (f"CURVE_SHARED {' ' * LONGEST_LINE}", "the line has more than 1000 octets and was skipped"),
]


@pytest.mark.parametrize(("text", "problem"), WRONG, ids=[str(number) for number in range(len(WRONG))])
def test_a_line_that_cannot_be_used_is_reported_without_its_keys(
    keys_of: Callable[..., Keys], text: str, problem: str
) -> None:
    keys = keys_of("# keys\n" + text + "\n" + line("SERVER_PUBLIC", SERVER.public))
    assert len(keys.problems) == 1
    assert problems_of(keys)[0].startswith(f"keys.txt:2: {problem}")
    assert OTHER.hex()[:8] not in keys.problems[0]
    assert keys.server_keys == [(SERVER.public, None)]


def test_many_problems_are_ten_and_a_count(keys_of: Callable[..., Keys]) -> None:
    keys = keys_of("CURVE_SHARED\n" * 25 + line("SERVER_PUBLIC", OTHER))
    assert len(keys.problems) == 11
    assert problems_of(keys)[-1] == "keys.txt: 15 more lines could not be used"


def test_a_file_without_keys_is_reported(keys_of: Callable[..., Keys]) -> None:
    assert problems_of(keys_of("# nothing yet\n"))[0].startswith("keys.txt: contains no key; a key log has lines like ")


def test_server_keys_are_bounded(keys_of: Callable[..., Keys]) -> None:
    lines = [line("SERVER_PUBLIC", number.to_bytes(32, "big")) for number in range(MAX_SERVER_KEYS)]
    keys = keys_of("".join(lines) + CERTIFICATE + line("SERVER_LONGTERM", SERVER.public, SERVER.secret))
    assert len(keys.server_keys) == MAX_SERVER_KEYS
    assert problems_of(keys)[-1] == "keys.txt:1009: there are 1000 server keys before it; it was skipped"


def test_no_repr_shows_a_secret(keys_of: Callable[..., Keys]) -> None:
    c = CLIENT_TRANSIENT
    keys = keys_of(CERTIFICATE + line("CLIENT_TRANSIENT", c.public, c.secret, SERVER.public))
    shown = repr([keys, keys.server_keys, found(keys), found(keys).client_transients, list(keys.lines())])
    for secret in (SERVER.secret, c.secret):
        assert not any(form in shown for form in (repr(secret)[2:-1], secret.hex(), z85.encode(secret)))


class TestLabelsThatNobodyKnows:
    """Unknown labels are ignored, but reported if they resemble labels of key logs: these are probably typing
    errors."""

    @pytest.mark.parametrize(
        "text", ["CURVE_SHRED {} {}", "curve_shared {} {}", "CURVE_SHARED={} {}", "CURVE_SHARED:{} {}", "Curve_ {} {}"]
    )
    def test_they_are_reported_without_their_keys(self, keys_of: Callable[..., Keys], text: str) -> None:
        keys = keys_of(line("SERVER_PUBLIC", OTHER) + text.format(OTHER.hex(), SHARED.hex()) + "\n")
        assert problems_of(keys) == [
            "keys.txt:2: the line begins with CURVE_, but not with a known label "
            "(capitals, then a space); it was skipped"
        ]

    def test_as_many_as_of_all_problems(self, keys_of: Callable[..., Keys]) -> None:
        keys = keys_of("CURVE_SHRED\n" * 25 + line("SERVER_PUBLIC", OTHER))
        assert len(keys.problems) == 11
        assert problems_of(keys)[-1] == "keys.txt: 15 more lines could not be used"

    @pytest.mark.parametrize("text", ["metadata\n    curve_note = 1\n", "#CURVE_SHRED\n", "CURVES\n", "SHARED 0 0\n"])
    def test_other_lines_are_not(self, keys_of: Callable[..., Keys], text: str) -> None:
        assert keys_of(text + line("SERVER_PUBLIC", OTHER)).problems == []


@pytest.mark.parametrize("form", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_reported(keys_of: Callable[..., Keys], form: str) -> None:
    text = line("SHARED", OTHER, SHARED)
    mark = "" if form == "utf-16" else "\ufeff"
    assert problems_of(keys_of((mark + text).encode(form))) == [
        "keys.txt: saved as UTF-16, which is not supported; save it as UTF-8"
    ]


class TestCost:
    """Files that could take long. The counts do not depend on the machine."""

    def test_lines_are_bounded(self, monkeypatch: pytest.MonkeyPatch, keys_of: Callable[..., Keys]) -> None:
        monkeypatch.setattr(files, "MAX_LINES", 1000)
        assert keys_of(b"\n" * 999 + line("SERVER_PUBLIC", OTHER).encode()).server_keys == [(OTHER, None)]
        with pytest.raises(KeyFileError, match="the file has more than 1,000 lines; use the part of it"):
            keys_of(b"\n" * 1001)

    def test_lines_with_blanks_cost_what_others_do(self, keys_of: Callable[..., Keys]) -> None:
        """With 2,000 blanks, trying all ways to divide them would take half a minute."""
        began = time.process_time()
        keys_of("curve\n" + ("  public-key=" + " " * 960 + "x y\n") * 2_000)
        assert time.process_time() - began < 5

    @pytest.mark.parametrize("secret", [SERVER.secret, CLIENT.secret])
    def test_halves_are_compared_once_for_each_certificate(
        self, monkeypatch: pytest.MonkeyPatch, keys_of: Callable[..., Keys], secret: bytes
    ) -> None:
        asked = []
        monkeypatch.setattr(contents, "public_key", lambda key: asked.append(key) or public_key(key))
        halves = f"  public-key={z85.encode(SERVER.public)}\n  secret-key={z85.encode(secret)}\n"
        keys_of("curve\n" + halves * 1000)
        assert len(asked) == 1


class TestFilesThatCannotBeRead:
    def test_a_missing_one(self, tmp_path: pathlib.Path) -> None:
        with pytest.raises(KeyFileError, match=r"keys\.txt: no such file$"):
            Keys([tmp_path / "keys.txt"])

    def test_a_directory(self, tmp_path: pathlib.Path) -> None:
        with pytest.raises(KeyFileError, match=r": it is a directory$"):
            Keys([tmp_path])

    @pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
    def test_one_without_permission(self, tmp_path: pathlib.Path) -> None:
        path = tmp_path / "keys.txt"
        path.touch(mode=0)
        with pytest.raises(KeyFileError, match=r": permission denied$"):
            Keys([path])

    @pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs /dev/zero")
    def test_a_file_that_is_too_large(self, monkeypatch: pytest.MonkeyPatch, keys_of: Callable[..., Keys]) -> None:
        monkeypatch.setattr(files, "LARGEST_FILE", 1 << 20)
        assert keys_of(b" " * (1 << 20)).server_keys == []
        for too_large in (lambda: keys_of(b" " * ((1 << 20) + 1)), lambda: Keys([pathlib.Path("/dev/zero")])):
            with pytest.raises(KeyFileError, match="the file is larger than"):
                too_large()


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_files_with_secrets_that_others_can_read(keys_of: Callable[..., Keys], tmp_path: pathlib.Path) -> None:
    path = tmp_path / "keys.txt"
    for content, mode, expected in [
        (CERTIFICATE, 0o640, [path]),
        (CERTIFICATE, 0o600, []),
        (PUBLIC_CERTIFICATE, 0o644, []),
        (line("SHARED", OTHER, SHARED), 0o604, [path]),
        (line("SERVER_PUBLIC_TRANSIENT", OTHER, OTHER), 0o644, []),
    ]:
        path.unlink(missing_ok=True)
        path.touch()
        path.chmod(mode)
        assert keys_of(content).readable_by_others == expected


class TestRefresh:
    """Key logs are read while they are written."""

    @pytest.fixture
    def path(self, tmp_path: pathlib.Path) -> pathlib.Path:
        path = tmp_path / "keys.txt"
        path.write_text(line("SHARED", OTHER, SHARED))
        return path

    def append(self, path: pathlib.Path, text: str) -> None:
        with open(path, "a") as file:
            file.write(text)

    def test_nothing_new(self, path: pathlib.Path) -> None:
        keys = Keys([path])
        assert (keys.refresh(), keys.generation) == (False, 0)
        self.append(path, "# a comment\n" + line("SHARED", OTHER, SHARED))
        assert (keys.refresh(), keys.generation) == (False, 0)

    def test_lines_that_were_appended(self, path: pathlib.Path) -> None:
        keys = Keys([path])
        self.append(path, line("COOKIE_KEY", OTHER, COOKIE_KEY) + line("SERVER_LONGTERM", *SERVER))
        assert (keys.refresh(), keys.generation) == (True, 1)
        assert found(keys, OTHER).shared == (SHARED,)
        assert found(keys, OTHER).cookie_keys == (COOKIE_KEY,)
        assert keys.server_keys == [SERVER]
        assert (keys.refresh(), keys.generation) == (False, 1)

    def test_a_line_waits_for_its_end(self, path: pathlib.Path) -> None:
        keys = Keys([path])
        new = line("COOKIE_KEY", OTHER, COOKIE_KEY)
        self.append(path, new[:-1])
        assert not keys.refresh()
        self.append(path, "\n")
        assert keys.refresh()
        assert found(keys, OTHER).cookie_keys == (COOKIE_KEY,)

    def test_a_last_line_without_end_counts_when_the_file_is_opened(self, path: pathlib.Path) -> None:
        c = CLIENT_TRANSIENT
        whole = line("CLIENT_TRANSIENT", c.public, c.secret, SERVER.public)
        self.append(path, whole[: -len(SERVER.public.hex()) - 2])
        keys = Keys([path])
        assert found(keys).client_transients == ((c.secret, None),)
        # the part that was taken for the whole line was not complete
        self.append(path, whole[-len(SERVER.public.hex()) - 2 :] + line("SHARED", c.public, SHARED))
        assert keys.refresh()
        assert found(keys).client_transients == ((c.secret, SERVER.public),)
        assert found(keys).shared == (SHARED,)

    @pytest.mark.parametrize("size", ["smaller", "the same", "larger"])
    @pytest.mark.parametrize("how", ["rewritten", "replaced"])
    def test_another_file_is_read_anew(self, path: pathlib.Path, size: str, how: str) -> None:
        keys = Keys([path])
        new = line("COOKIE_KEY", OTHER, COOKIE_KEY)
        old_size = path.stat().st_size
        lines = {"smaller": "", "the same": new, "larger": new + line("SERVER_LONGTERM", *SERVER)}[size]
        if size == "the same":
            lines = line("SHARED", CLIENT_TRANSIENT.public, SHARED)
            assert len(lines) == old_size
        if how == "replaced":
            (path.parent / "new").write_text(lines)
            os.replace(path.parent / "new", path)
        else:
            path.write_text(lines)
            os.utime(path, ns=(0, 0))  # the clock of a file system may be slower than a test
        assert keys.refresh()
        assert keys.secrets_for(OTHER) == Keys([path]).secrets_for(OTHER)
        assert keys.server_keys == Keys([path]).server_keys
        assert (keys.secrets_for(CLIENT_TRANSIENT.public) is not None) == (size == "the same")

    def test_a_removed_file_keeps_its_keys(self, path: pathlib.Path) -> None:
        keys = Keys([path])
        path.unlink()
        assert not keys.refresh()
        assert found(keys, OTHER).shared == (SHARED,)
        path.write_text(line("COOKIE_KEY", OTHER, COOKIE_KEY))
        assert keys.refresh()
        assert found(keys, OTHER).shared == ()

    def test_growing_too_large_is_reported_once(self, path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(files, "LARGEST_FILE", 1000)
        keys = Keys([path])
        for _ in range(2):
            self.append(path, "#" * 1000 + "\n")
            assert not keys.refresh()
        assert len(keys.problems) == 1
        assert "later lines are not read" in keys.problems[0]
        assert found(keys, OTHER).shared == (SHARED,)

    def test_growing_beyond_the_lines_is_reported_once(
        self, path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(files, "MAX_LINES", 10)
        keys = Keys([path])
        for _ in range(2):
            self.append(path, "\n" * 10)
            assert not keys.refresh()
        self.append(path, line("COOKIE_KEY", OTHER, COOKIE_KEY))
        assert not keys.refresh()
        assert problems_of(keys) == ["keys.txt: the file has more than 10 lines; later lines are not read"]
        assert found(keys, OTHER).cookie_keys == ()
        path.write_text(line("COOKIE_KEY", OTHER, COOKIE_KEY))
        assert keys.refresh()
        assert keys.problems == []

    def test_another_file_with_too_many_lines_is_read_once(
        self, path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(files, "MAX_LINES", 10)
        keys = Keys([path])
        path.write_text("#\n" * 200)
        assert not keys.refresh()
        monkeypatch.delattr(files, "Contents")
        assert not keys.refresh()
        assert problems_of(keys) == ["keys.txt: the file has more than 10 lines; later lines are not read"]
        assert found(keys, OTHER).shared == (SHARED,)

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
    def test_a_pipe_is_read_once(self, tmp_path: pathlib.Path) -> None:
        reader, writer = os.pipe()
        os.write(writer, line("SHARED", OTHER, SHARED).encode())
        os.close(writer)
        keys = Keys([pathlib.Path(f"/dev/fd/{reader}")])
        os.close(reader)
        assert found(keys, OTHER).shared == (SHARED,)
        assert not keys.refresh()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("keys") / "keys.txt"


KEY = st.binary(min_size=32, max_size=32)
FEW = st.sampled_from([CLIENT_TRANSIENT.public, CLIENT_TRANSIENT.secret, SERVER.public, SERVER.secret])
PAIR = st.builds(
    lambda form, public, secret: form.format(public.hex(), secret.hex()),
    st.sampled_from(
        [
            "CURVE_SERVER_LONGTERM {} {}\n",
            "CURVE_CLIENT_TRANSIENT {} {}\n",
            "curve\n  public-key={}\n  secret-key={}\n",
        ]
    ),
    FEW,
    FEW,
)
SPELT = st.sampled_from([bytes.hex, upper, z85.encode])


@given(KEY)
def test_z85_is_restored(key: bytes) -> None:
    assert key_from_text(z85.encode(key).encode()) == key


def test_z85_spells_as_others_do() -> None:
    from zmq.utils.z85 import encode

    assert z85.encode(SERVER.public).encode() == encode(SERVER.public)


@st.composite
def pieces_of_files(draw: st.DrawFn) -> list[bytes]:
    piece = st.one_of(
        st.builds(
            lambda label, spelt, keys, end: " ".join([label, *map(spelt, keys)]).encode() + end,
            st.sampled_from([*LABELS, "#", "    public-key =", "    secret-key =", "UNKNOWN", "CURVE_X"]),
            SPELT,
            st.lists(FEW | KEY, max_size=4),
            st.sampled_from([b"\n", b"\r\n", b" -\n", b" # x\n", b""]),
        ),
        st.sampled_from(
            [b"curve\n", b"metadata\n", CERTIFICATE.encode(), b"\xef\xbb\xbf", b"\xff\xfe", b"x" * 1001, b"\n"]
        ),
        st.binary(max_size=100),
    )
    return draw(st.lists(piece, max_size=12))


def everything(keys: Keys) -> object:
    lines = [(path, line.label, line.public, line.value, line.server, line.number) for path, line in keys.lines()]
    asked = {line[2] for line in lines}
    answers = [keys.secrets_for(public) for public in sorted(asked)]
    return lines, answers, keys.server_keys, keys.shared_keys(), keys.problems, keys.readable_by_others


@given(pieces=pieces_of_files())
def test_no_content_raises(path: pathlib.Path, pieces: list[bytes]) -> None:
    path.write_bytes(b"".join(pieces))
    everything(Keys([path]))


@given(pairs=st.lists(PAIR, min_size=1))
def test_a_secret_that_is_handed_out_belongs_to_its_public_half(path: pathlib.Path, pairs: list[str]) -> None:
    path.write_text("".join(pairs))
    keys = Keys([path])
    assert all(key.secret is None or public_key(key.secret) == key.public for key in keys.server_keys)
    for _, line in keys.lines():
        assert line.value is not None
        assert public_key(line.value) == line.public
        secrets = keys.secrets_for(line.public)
        for transient in secrets.client_transients if secrets else ():
            assert public_key(transient.secret) == line.public


@given(pieces=pieces_of_files(), cuts=st.lists(st.integers(0, 2000)), opened_early=st.booleans())
def test_lines_appended_in_any_pieces_give_the_same_as_at_once(
    path: pathlib.Path, pieces: list[bytes], cuts: Iterable[int], opened_early: bool
) -> None:
    octets = b"".join(pieces) + b"\n"
    path.write_bytes(b"")
    keys = Keys([path])
    generation, before = 0, everything(keys)
    start = 0
    for stop in [*sorted({cut for cut in cuts if cut < len(octets)}), len(octets)]:
        with open(path, "ab") as file:
            file.write(octets[start:stop])
        if opened_early and not start:
            keys, generation = Keys([path]), 0
        else:
            generation += keys.refresh()
        start = stop
    assert keys.generation == generation
    assert everything(keys) == everything(Keys([path]))
    assert before != everything(keys) or not generation
