"""The notebook runs from its first cell to its last, and shows what it says; `pytest --update-golden` refreshes it."""

from __future__ import annotations

import pathlib
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.readings import CAPTURES

NOTEBOOK = CAPTURES.parent / "docs" / "analytics.ipynb"


def shown(notebook: Any) -> list[list[Any]]:
    """What each cell of code prints and gives."""
    return [[each.get("text") or each["data"] for each in cell.outputs] for cell in notebook.cells if "outputs" in cell]


def without_noise(notebook: Any) -> Any:
    """Without what Spark says while it starts, and when cells ran."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if "outputs" in cell:
            cell.outputs = [each for each in cell.outputs if each.get("name") != "stderr"]
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def test_the_notebook_shows_what_it_computes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, request: pytest.FixtureRequest
) -> None:
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    before, notebook = nbformat.read(NOTEBOOK, 4), nbformat.read(NOTEBOOK, 4)
    where = {"metadata": {"path": str(CAPTURES.parent)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=where).execute()
    real = without_noise(notebook)
    if request.config.getoption("--update-golden"):
        nbformat.write(real, NOTEBOOK)
    else:
        assert shown(real) == shown(before)
    assert sum(map(len, shown(real))) >= 6
