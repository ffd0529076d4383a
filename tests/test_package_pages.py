"""Each package has a page with its purpose; it names every file, and each file that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import zmtpscope

ROOT = Path(zmtpscope.__file__).parent
PACKAGES = sorted(path.parent for path in ROOT.rglob("__init__.py"))
SCREEN = 60


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(ROOT.parent)))
def test_a_package_has_a_page_of_a_screen_that_names_its_files(package: Path) -> None:
    lines = (package / "README.md").read_text().splitlines()
    assert lines[0] == f"# {package.relative_to(ROOT.parent)}"
    assert len(lines) <= SCREEN
    order = "\n".join(lines).partition("**Reading order:**")[2]
    first_cells = " ".join(line.split(" | ")[0] for line in lines if line.startswith("| "))
    named = re.findall(r"`([^`]+)`", order or first_cells)
    assert {path.name for path in package.glob("*.py")} - {"__init__.py"} <= set(named)
    assert [name for name in named if not (package / name).exists()] == []
    assert len(named) == len(set(named))
