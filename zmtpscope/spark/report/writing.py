"""A report in a directory: all of its files are complete, or none is there."""

from __future__ import annotations

import errno
import os
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


def check_directory(directory: Path, *, force: bool) -> None:
    """Raises `FileExistsError` where a report is there already, unless `force` is set, `NotADirectoryError` and
    `IsADirectoryError` where there is something that no report can take the place of."""
    if directory.exists() and not directory.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory))
    for path in (directory / name for name in FILES):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if os.path.lexists(path) and not force:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


@contextmanager
def workspace(directory: Path) -> Iterator[Path]:
    """A directory within `directory`, which is made when missing, for what is not wanted any more afterwards."""
    made = not directory.exists()
    directory.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".analyze-", dir=directory))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if made:
            with suppress(OSError):  # it holds a report
                directory.rmdir()


def write_report(answers: Mapping[str, DataFrame], directory: Path, about: About, work: Path) -> list[Path]:
    """Run the answers, and write them and the page into `directory`; the files. `work` is on the same file system."""
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
    """Spark writes the rows itself, so that what comes of many captures goes through no JVM's memory at once."""
    answer.write.parquet(str(folder))
    return pq.read_table(folder)
