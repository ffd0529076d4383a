"""Writes a report to a directory. Its files appear only when all are complete."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from zmtpscope.export.files import OutputFile
from zmtpscope.spark.report.page import About, page
from zmtpscope.spark.report.sections import SECTIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PAGE = "index.html"
FILES = (PAGE, *(f"{section.name}.parquet" for section in SECTIONS))


@contextmanager
def workspace(directory: Path) -> Iterator[Path]:
    """Yield a temporary directory within `directory`, which is created if missing."""
    made = not directory.exists()
    directory.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".analyze-", dir=directory))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if made:
            with suppress(OSError):  # it contains a report
                directory.rmdir()


def write_report(answers: Mapping[str, DataFrame], directory: Path, about: About, work: Path) -> list[Path]:
    """Run the answers, and write tables and page. `work` is a folder for temporary files on the same file system."""
    tables = {name: _run(answer, work / name) for name, answer in answers.items()}
    files = [OutputFile(directory / name) for name in FILES]
    try:
        for file in files:
            file.open()
            if file.target.name == PAGE:
                file.write(page(tables, about).encode())
            else:
                pq.write_table(tables[file.target.stem], pa.PythonFile(file, "w"), compression="zstd")
            file.finish()
        for file in files:
            file.commit()
    finally:
        for file in files:
            file.discard()
    return [file.target for file in files]


def _run(answer: DataFrame, folder: Path) -> pa.Table:
    """Write the rows of an answer with Spark, so that large results do not pass through JVM memory at once."""
    answer.write.parquet(str(folder))
    return pq.read_table(folder)
