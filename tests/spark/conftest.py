"""The Spark of these tests. Others have none: with `pytest -n` one process runs all of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A real Spark, one for all tests: starting it takes as long as all of them."""
    from tests.spark.session import session

    with session(tmp_path_factory.mktemp("spark")) as spark:
        yield spark
