"""Examples of docs/python.md run and print the shown output; `pytest --update-golden` refreshes it."""

from __future__ import annotations

import contextlib
import io
import re

import pytest

from tests.readings import CAPTURES

ROOT = CAPTURES.parent
PAGE = ROOT / "docs/python.md"
EXAMPLE = re.compile(r"```python\n(.*?)```\n```\n(.*?)```", re.DOTALL)


def test_examples_print_the_output_of_the_page(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.chdir(ROOT)
    text = PAGE.read_text()
    names: dict[str, object] = {}

    def run(match: re.Match[str]) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(match[1], names)
        return f"```python\n{match[1]}```\n```\n{out.getvalue()}```"

    real = EXAMPLE.sub(run, text)
    assert len(EXAMPLE.findall(text)) > 8
    if request.config.getoption("--update-golden"):
        PAGE.write_text(real)
    else:
        assert text == real
