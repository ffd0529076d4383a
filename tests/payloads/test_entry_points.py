"""Entry points equal the result of `importlib.metadata` for any location of distributions."""

from __future__ import annotations

import importlib.metadata
import pathlib
import subprocess
import sys
import zipfile

import pytest

from tests.readings import CAPTURES
from zmtpscope.payloads.dissectors import OURS
from zmtpscope.payloads.registry import GROUP, EntryPoint, Registry, entry_points

FILES = {"METADATA": "Metadata-Version: 2.1\nName: Some.Package\nVersion: 1\n"}
SOME = """# of nobody
[console_scripts]
other = other:main

[a.group]
# of nobody either
two = some.module:Class.inner [extra]
one=some
[a.group.more]
three = some:Three
"""


def install(folder: pathlib.Path, text: str = SOME, name: str = "some_package-1.dist-info") -> pathlib.Path:
    information = folder / name
    information.mkdir(parents=True)
    for file, content in {**FILES, "entry_points.txt": text}.items():
        (information / file).write_text(content)
    return folder


def as_the_library_finds_them(group: str) -> list[EntryPoint]:
    found = importlib.metadata.entry_points(group=group)
    return sorted(EntryPoint(each.name, each.value.partition(" [")[0], each.dist.name) for each in found if each.dist)


@pytest.mark.parametrize("group", [GROUP, "console_scripts", "pytest11", "nobody's"])
def test_entry_points_match_the_library(group: str) -> None:
    assert entry_points(group) == as_the_library_finds_them(group)


def test_only_the_group_is_read(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(install(tmp_path))
    wanted = [EntryPoint("one", "some", "Some.Package"), EntryPoint("two", "some.module:Class.inner", "Some.Package")]
    assert entry_points("a.group") == wanted == as_the_library_finds_them("a.group")


def test_the_first_in_the_path_hides_the_others(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(install(tmp_path / "later"))
    monkeypatch.syspath_prepend(install(tmp_path / "first", "", "Some.Package-2.dist-info"))
    assert entry_points("a.group") == [] == as_the_library_finds_them("a.group")


def test_distributions_in_zip_files_are_found(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "some.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file, content in {**FILES, "entry_points.txt": SOME}.items():
            archive.writestr(f"some_package-1.dist-info/{file}", content)
    monkeypatch.syspath_prepend(path)
    assert [each.name for each in entry_points("a.group")] == ["one", "two"]


def test_an_entry_point_names_an_attribute() -> None:
    assert EntryPoint("join", "os:path.join", "").load() is __import__("os").path.join
    with pytest.raises(AttributeError):
        EntryPoint("none", "os:nothing", "").load()


def loaded_by_reading(name: str) -> set[str]:
    """The modules that are there when a capture was read."""
    code = "import sys; from zmtpscope.cli import run; run(sys.argv[1:]); print(*sys.modules)"
    command = [sys.executable, "-c", code, "read", str(CAPTURES / name)]
    return {*subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1].split()}


def test_reading_does_not_load_what_takes_half_as_long_as_numpy() -> None:
    loaded = loaded_by_reading("patterns/reqrep.pcap")
    assert "zmtpscope.payloads.registry" in loaded
    assert "importlib.metadata" not in loaded


def test_only_dissectors_that_may_claim_a_message_are_loaded() -> None:
    ours = {str(each.source).partition(":")[0] for each in OURS} - {"zmtpscope.payloads.text"}
    assert loaded_by_reading("patterns/many-small.pcap") & ours == set()
    assert "zmtpscope.payloads.zre.messages" in loaded_by_reading("implementations/zre-zyre.pcap")


def test_ours_are_not_loaded_because_another_installation_lists_them(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = "[zmtpscope.payloads]\njson = zmtpscope.payloads.json:JsonPayload\n"
    monkeypatch.syspath_prepend(install(tmp_path, listed, "zmtpscope-0.dist-info"))
    assert Registry().dissectors["json"] in OURS
