"""Pickles that run something when they are loaded, in any spelling; here none is loaded."""

from __future__ import annotations

import collections
import copyreg
import decimal
import os
import pathlib
import pickle
from typing import Any

import pytest

from tests.payloads.reading import ABOUT, START, dissected
from zmtpscope.payloads.api import Message, Settings
from zmtpscope.payloads.pickle import Pickle, is_dangerous
from zmtpscope.payloads.reader import Reader
from zmtpscope.payloads.side import read

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


class Runs:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.made = function, arguments

    def __reduce__(self) -> Any:
        return self.made


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_pickles_that_run_a_command(protocol: int, tmp_path: pathlib.Path) -> None:
    touched = tmp_path / "touched"
    made = dissected(Pickle, pickle.dumps(Runs(os.system, f"touch {touched}"), protocol))
    assert made.fields["imports"] == ["posix.system"]
    assert [call.startswith("posix.system('touch ") for call in made.fields["calls"]] == [True]
    (finding,) = made.findings
    assert (finding.id, finding.severity) == ("PICKLE-01", "error")
    assert finding.detail is not None
    assert finding.detail.startswith("imports posix.system; calls posix.system('touch ")
    assert not touched.exists()


@pytest.mark.parametrize(
    "octets",
    [
        b"cos\nsystem\n(S'id'\ntR.",
        b"(S'id'\nios\nsystem\n.",
        b"(cos\nsystem\nS'id'\no.",
        b"(S'\\x6f\\163'\nS'system'\n\x93S'id'\n\x85R.",  # opcodes of protocol 4 without a header
        b"\x80\x04\x8c\x02os\x94\x8c\x06system\x940h\x00h\x01\x930h\x00h\x01\x93\x8c\x02id\x85R.",
        b"\x80\x02Vos\nVsystem\n\x93X\2\0\0\0id\x85R.",
    ],
)
def test_however_it_is_written(octets: bytes) -> None:
    made = dissected(Pickle, octets)
    assert made.fields["imports"] == ["os.system"]
    assert made.fields["calls"][-1] == "os.system('id')"
    assert made.findings[0].severity == "error"


def test_names_that_are_computed() -> None:
    octets = b"\x80\x04c_codecs\nencode\n\x8c\x01o\x85R\x8c\x06system\x93\x8c\x02id\x85R."
    made = dissected(Pickle, octets)
    assert made.fields["imports"] == ["_codecs.encode", "?.system"]
    assert made.findings[0].severity == "error"


def test_an_import_by_registered_number() -> None:
    copyreg.add_extension("decimal", "Decimal", 7)
    try:
        octets = pickle.dumps(decimal.Decimal(1), 4)
    finally:
        copyreg.remove_extension("decimal", "Decimal", 7)
    assert dissected(Pickle, octets).fields["imports"] == ["extension 7"]


@pytest.mark.parametrize(
    ("name", "dangerous"),
    [
        ("os.system", True),
        ("collections._sys.modules", True),
        ("builtins.eval", True),
        ("builtins.set", False),
        ("__builtin__.getattr", True),
        ("builtins.set.__class__", True),
        ("urllib.request.urlopen", True),
        ("urllib.parse.ParseResult", False),
        ("numpy.core.multiarray._reconstruct", False),
        ("app.os", False),
        ("?.x", True),
        ("extension 7", False),
    ],
)
def test_is_dangerous(name: str, dangerous: bool) -> None:
    assert is_dangerous(name) is dangerous


def test_the_same_imports_are_reported_once() -> None:
    payload = Pickle(Settings())
    found = []
    for value in (1, 2, collections.Counter(a=1), collections.Counter(b=2), 5, Runs(os.system, "id")):
        frames = [pickle.dumps(value)]
        reader = Reader("pickle", frames, [START], 0, ABOUT, trees=False)
        assert payload.claim(Message(frames, 0, None), ABOUT)
        found += read(payload, Message(frames, 0, None), reader).findings
    assert [(each.severity, (each.detail or "").partition(";")[0].rpartition(".")[2]) for each in found] == [
        ("note", "imports nothing"),
        ("warn", "Counter"),
        ("error", "system"),
    ]


def test_named_by_the_user() -> None:
    """Effects of the octets before the damage are kept."""
    made = dissected(Pickle, b"cos\nsystem\n(S'id'\ntR0000")
    assert made.fields["calls"] == ["os.system('id')"]
    assert [(each.id, each.severity) for each in made.findings] == [("PICKLE-01", "error"), ("PAYLOAD-03", None)]
