"""The notebook runs from its first cell to its last, with the output that it contains; `pytest --update-golden` updates
it.

Its cells run in this process, as in a kernel, and with the Spark session that all tests share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import nbformat
import pandas
import pytest
from IPython.core.displayhook import DisplayHook
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from tests.readings import CAPTURES

if TYPE_CHECKING:
    import pathlib

    from pyspark.sql import SparkSession

NOTEBOOK = CAPTURES.parent / "docs" / "analytics.ipynb"


IN_NOTEBOOKS = ("display.max_columns", 20, "display.width", 80, "display.max_colwidth", 50)
"""How pandas shows tables there."""


def shown(notebook: Any) -> list[list[Any]]:
    """Return the output and the result of each code cell."""
    return [[each.get("text") or each["data"] for each in cell.outputs] for cell in notebook.cells if "outputs" in cell]


class Result(DisplayHook):
    """Stores the result of the last expression of a cell in all its forms, which a terminal would print."""

    forms: tuple[dict[str, Any], dict[str, Any]] | None = None

    def write_output_prompt(self) -> None:
        self.forms = None

    def write_format_data(self, data: dict[str, Any], metadata: dict[str, Any] | None = None) -> None:
        self.forms = data, metadata or {}

    def finish_displayhook(self) -> None:
        self._is_active = False


class Shell(InteractiveShell):
    displayhook_class = Result


def run(shell: Shell, cell: Any) -> None:
    """Run a code cell, and store its output and result in it."""
    shell.displayhook.forms = None
    with capture_output() as captured:
        result = shell.run_cell(cell.source, store_history=True)
    result.raise_error()
    cell.execution_count = result.execution_count
    cell.outputs = []
    if captured.stdout:
        cell.outputs.append(nbformat.v4.new_output("stream", name="stdout", text=captured.stdout))
    if shell.displayhook.forms is not None:
        data, metadata = shell.displayhook.forms
        given = {"data": data, "metadata": metadata, "execution_count": result.execution_count}
        cell.outputs.append(nbformat.v4.new_output("execute_result", **given))


@pytest.mark.slow
def test_the_notebook_shows_what_it_computes(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.chdir(CAPTURES.parent)
    before, notebook = nbformat.read(NOTEBOOK, 4), nbformat.read(NOTEBOOK, 4)
    shell = Shell()
    with pandas.option_context(*IN_NOTEBOOKS):
        for cell in notebook.cells:
            if cell.cell_type == "code":
                run(shell, cell)
    assert shell.user_ns["spark"] is spark
    for frame in shell.user_ns["tables"].values():
        frame.unpersist()
    if request.config.getoption("--update-golden"):
        nbformat.write(notebook, NOTEBOOK)
    else:
        assert shown(notebook) == shown(before)
    assert sum(map(len, shown(notebook))) >= 6
