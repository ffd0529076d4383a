"""Compiled modules: they exist, wheels contain them, and results do not depend on them (seam P20)."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import pytest

from build_compiled import MEMORY_VIEWS
from tests.conftest import ROOT
from zmtpscope import compiled
from zmtpscope.cli import run

SOURCES = sorted(path.relative_to(ROOT) for path in ROOT.glob("zmtpscope/**/*_compiled.pyx"))
CAPTURES = ["patterns/pubsub.pcap", "patterns/reqrep.pcap", "security/curve-4.3.5.pcap", "damage/holes.pcap"]
BUILD = "import sys; from hatchling.builders.wheel import *; print(*WheelBuilder('.').build(directory=sys.argv[1]))"


@pytest.mark.skipif(not compiled.IS_WANTED, reason="ZMTPSCOPE_COMPILED=0: what is tested is Python")
def test_all_compiled_modules_are_in_use() -> None:
    """Otherwise the other tests do not test it: `make` compiles, and needs a compiler and headers of Python (on
    Debian: gcc and python3-dev)."""
    names = {
        f"{'.'.join(source.parent.parts)}.{source.stem.removesuffix('_compiled')}.{function}"
        for source in SOURCES
        for function in re.findall(r"^def (\w+)\(", (ROOT / source).read_text(), re.MULTILINE)
    }
    for name in names:
        __import__(name.rpartition(".")[0])
    assert names == compiled.PAIRS.keys()
    for pair in compiled.PAIRS.values():
        assert pair.compiled.__name__ == pair.twin.__name__
        assert pair.compiled is not pair.twin


@pytest.mark.skipif(not compiled.IS_WANTED, reason="ZMTPSCOPE_COMPILED=0: what is tested is Python")
def test_a_compiled_module_of_another_version_is_named() -> None:
    def unknown() -> None:
        """A function that the compiled module does not have."""

    unknown.__module__ = "zmtpscope.capture.pcap"
    with pytest.raises(
        compiled.Outdated, match=r"^zmtpscope\.capture\.pcap_compiled is of another version of zmtpscope"
    ):
        compiled.where_possible(unknown)


def test_a_compiled_module_of_another_version_is_an_error_of_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def outdated(*_: object, **__: object) -> None:
        raise compiled.Outdated("some_compiled is of another version of zmtpscope: compile it again")

    monkeypatch.setattr("zmtpscope.cli.zmtpscope.main", outdated)
    assert run(["read", "file.pcap"]) == 1
    assert capsys.readouterr().err == "zmtpscope: some_compiled is of another version of zmtpscope: compile it again\n"


@pytest.mark.parametrize("form", [["--json"], ["-q"], []])
def test_results_are_equal_without_compiled_modules(form: list[str]) -> None:
    def output(wanted: str) -> bytes:
        paths = [str(ROOT / "captures" / path) for path in CAPTURES]
        command = [sys.executable, "-m", "zmtpscope", "read", *form, *paths]
        environment = os.environ | {"ZMTPSCOPE_COMPILED": wanted}
        return subprocess.run(command, capture_output=True, check=False, cwd=ROOT, env=environment).stdout

    found = output("0")
    assert found == output("1")
    assert len(found) > 500


def built(folder: pathlib.Path, environment: dict[str, str]) -> tuple[str, set[str], str]:
    """Build a wheel of a copy: return its name, its compiled modules, and the output of the build."""
    source = folder / "source"
    source.mkdir()
    for name in ("LICENSE", "README.md", "build_compiled.py", "pyproject.toml"):
        shutil.copy(ROOT / name, source)
    for name in ("captures", "docs/completion", "docs/man", "pyspark_zmtp"):
        shutil.copytree(ROOT / name, source / name)
    shutil.copytree(ROOT / "zmtpscope", source / "zmtpscope", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    command = [sys.executable, "-c", BUILD, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=source, env=os.environ | environment, check=True)
    path = pathlib.Path(done.stdout.split()[-1])
    with zipfile.ZipFile(path) as wheel:
        modules = {name for name in wheel.namelist() if "_compiled." in name and not name.endswith((".pyx", ".pxd"))}
    return path.name, modules, done.stdout + done.stderr


@pytest.mark.slow
def test_a_wheel_of_this_platform_has_all_that_is_compiled(tmp_path: pathlib.Path) -> None:
    name, modules, _ = built(tmp_path, {"ZMTPSCOPE_COMPILED": "required"})
    assert not name.endswith("-py3-none-any.whl")
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    compiled_modules = {str(source.with_suffix("")) for source in SOURCES} | {MEMORY_VIEWS.replace(".", "/")}
    assert modules == {module + suffix for module in compiled_modules}


@pytest.mark.slow
def test_where_nothing_can_be_compiled_the_wheel_is_that_of_any_platform(tmp_path: pathlib.Path) -> None:
    name, modules, errors = built(tmp_path, {"CC": "/nowhere/cc", "ZMTPSCOPE_COMPILED": "1"})
    assert (name.endswith("-py3-none-any.whl"), modules) == (True, set())
    assert "was not compiled, and will be slower" in errors
