"""What the pages show as output is what the program prints; `pytest --update-golden` refreshes it."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

from tests.readings import CAPTURES

ROOT = CAPTURES.parent
PAGES = ["README.md", "docs/cookbook.md", "docs/keys.md", "docs/records.md"]
EXAMPLE = re.compile(r"^```\n\$ (zmtpscope .*)\n((?:.*\n)*?)```$", re.MULTILINE)


def output_of(command: str) -> str:
    """What a shell prints for a command of a page."""
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.check_output(
        command, shell=True, cwd=ROOT, text=True, env=os.environ | {"PATH": path, "TZ": "UTC"}
    )


@pytest.mark.parametrize("page", PAGES)
def test_output_in_pages_is_real(page: str, request: pytest.FixtureRequest) -> None:
    path = ROOT / page
    text = path.read_text()
    real = EXAMPLE.sub(lambda match: f"```\n$ {match[1]}\n{output_of(match[1])}```", text)
    assert EXAMPLE.search(text)
    if request.config.getoption("--update-golden"):
        path.write_text(real)
    else:
        assert text == real


def test_links_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "captures/README.md", *(ROOT / "docs").rglob("*.md")]
    links = [(page, link) for page in pages for link in re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", page.read_text())]
    assert [(str(page), link) for page, link in links if not (page.parent / link).exists()] == []
