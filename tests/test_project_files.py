"""The files for contributors agree with the project: commands, versions, tests and links that they name exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.readings import CAPTURES
from zmtpscope.version import __version__

ROOT = CAPTURES.parent
PAGES = ["CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]
GUIDES = sorted((ROOT / "docs").glob("new-*.md"))
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def project() -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return table


@pytest.mark.parametrize("path", [*map(ROOT.joinpath, PAGES), *WORKFLOWS], ids=lambda path: path.name)
def test_make_commands_are_targets(path: Path) -> None:
    text = path.read_text()
    commands = re.findall(r"(?:`|^ +|run: )make ([a-z-]+)", text, re.MULTILINE)
    assert commands or path.name in {"CHANGELOG.md", "SECURITY.md"}
    assert set(commands) - TARGETS == set()


@pytest.mark.parametrize("name", PAGES)
def test_links_and_paths_exist(name: str) -> None:
    text = (ROOT / name).read_text()
    links = re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", text)
    paths = re.findall(r"`(\.?(?:docs|tests|zmtpscope)/[\w./-]*)`", text)
    assert [path for path in [*links, *paths] if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("path", [ROOT / "SECURITY.md", *GUIDES], ids=lambda path: path.name)
def test_tests_that_pages_name_exist(path: Path) -> None:
    named = TEST.findall(path.read_text())
    assert named
    for file, function in named:
        if file != "tests/diagnosis/test_ageing.py":  # the page on rules creates it
            assert f"def {function}" in (ROOT / file).read_text(), (file, function)


def test_the_changelog_begins_with_this_version_or_what_is_unreleased() -> None:
    first, *_ = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first == "Unreleased" or first.startswith(f"{__version__} ")


def test_the_citation_has_this_version_and_licence() -> None:
    citation = dict(re.findall(r"^([a-z-]+): (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE))
    assert citation["version"] == __version__
    assert citation["license"] == project()["license"]


def test_workflows_test_each_python_that_is_declared() -> None:
    classifiers = "\n".join(project()["classifiers"])
    declared = re.findall(r"Python :: (3\.\d+)$", classifiers, re.MULTILINE)
    text = (ROOT / ".github/workflows/test.yml").read_text()
    (tested,) = re.findall(r"^ +python: \[(.*)\]$", text, re.MULTILINE)
    assert re.findall(r"3\.\d+", tested) == declared
    assert project()["requires-python"] == f">={declared[0]}"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_are_careful(path: Path) -> None:
    """They may only read, every job ends, and actions have a major version."""
    text = path.read_text()
    assert re.search(r"^permissions:\n  contents: read\n", text, re.MULTILINE)
    assert re.search(r"^concurrency:$", text, re.MULTILINE)
    assert text.count("runs-on:") == text.count("timeout-minutes:")
    actions = re.findall(r"uses: (\S+)", text)
    assert actions
    assert [action for action in actions if not re.fullmatch(r"[\w/-]+@v\d+", action)] == []
