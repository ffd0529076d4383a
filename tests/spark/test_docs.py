"""The examples of the pages on Spark run and print the output there; `pytest --update-golden` refreshes it."""

from __future__ import annotations

import contextlib
import io
import pathlib
import re
from typing import TYPE_CHECKING

import pytest

from tests.readings import CAPTURES, run
from zmtpscope.spark.settings import NAMES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = CAPTURES.parent / "docs" / "spark.md"
DISSECTORS = PAGE.with_name("payload-dissectors.md")
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLE_OF_AN_EXPORT = re.compile(
    r"`(zmtpscope export .*) -o out/ --format parquet`:\n\n```python\n(.*?)```\n```\n(.*?)```", re.DOTALL
)

PAGES = [PAGE, PAGE.with_name("spark-analytics.md"), PAGE.with_name("spark-clusters.md")]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.stem))
def test_examples_print_what_the_page_shows(
    spark: SparkSession, page: pathlib.Path, tmp_path: pathlib.Path, request: pytest.FixtureRequest
) -> None:
    """One after the other, as a reader types them."""
    names: dict[str, object] = {}

    def printed_by(example: re.Match[str]) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(example[1].replace("captures/", f"{CAPTURES}/").replace('"out/', f'"{tmp_path}/'), names)
        output = printed.getvalue().replace(f"{CAPTURES}/", "captures/").strip("\n")
        return f"```python\n{example[1]}```\n```\n{output}\n```"

    text = page.read_text()
    real = EXAMPLE.sub(printed_by, text)
    assert names["spark"] is spark
    if request.config.getoption("--update-golden"):
        page.write_text(real)
    else:
        assert text == real


def test_exported_tables_are_read_as_the_page_shows(
    spark: SparkSession, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    text = DISSECTORS.read_text()
    (example,) = EXAMPLE_OF_AN_EXPORT.finditer(text)
    _, *arguments = example[1].split()
    arguments[-1] = str(CAPTURES.parent / arguments[-1])
    assert run(*arguments, "-o", str(tmp_path), "--format", "parquet").returncode == 0
    exec(example[2].replace("out/", f"{tmp_path}/"), {"spark": spark})
    real = capsys.readouterr().out.rstrip("\n") + "\n"
    if request.config.getoption("--update-golden"):
        DISSECTORS.write_text(text[: example.start(3)] + real + text[example.end(3) :])
    else:
        assert example[3] == real


def test_the_page_has_every_option() -> None:
    named = re.findall("`([A-Za-z_]+)`", " ".join(re.findall(r"^\| (`[^|]*) \|", PAGE.read_text(), re.MULTILINE)))
    assert [name for name in named if name in NAMES] == list(NAMES)
