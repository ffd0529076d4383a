"""Batches for Spark have a bounded size for any blocks, and missing parts are reported."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema

from tests.readings import CAPTURES
from tests.spark.local import local_rows
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser
from zmtpscope.spark import rows
from zmtpscope.spark.schemas import column_names
from zmtpscope.spark.settings import ReadSettings

FILES = [str(CAPTURES / "patterns" / name) for name in ("pubsub.pcap", "reqrep.pcap")]


@given(
    record=st.sampled_from(["message", "frame", "command", "connection"]),
    most_rows=st.integers(1, 30),
    most_octets=st.sampled_from([1, 1000, 1 << 20]),
    block=st.sampled_from([200, 1 << 20]),
)
def test_batches_are_as_large_as_they_may_be_and_no_larger(
    record: str, most_rows: int, most_octets: int, block: int
) -> None:
    settings = ReadSettings(record=record)
    columns = column_names(record)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rows, "MAX_ROWS", most_rows)
        patched.setattr(rows, "LARGEST_BATCH", most_octets)
        made = rows.RowBatches(settings, columns)
        batches = [*made.convert(Analyser(made.options).run(open_captures(FILES, block_size=block)))]
    schema = to_arrow_schema(settings.schema(columns), timezone="UTC")
    assert all(batch.schema == schema for batch in batches)
    assert all(batch.num_rows <= most_rows for batch in batches)
    assert all(batch.num_rows == 1 for batch in batches) or most_octets > 1
    assert [row for batch in batches for row in batch.to_pylist()] == local_rows(FILES, settings)


def test_without_spark_the_extra_is_named() -> None:
    code = "import sys; sys.modules['pyspark'] = None\nimport zmtpscope.spark\nzmtpscope.spark.session()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.endswith(
        "ModuleNotFoundError: zmtpscope.spark needs pyspark, of the extra spark: pip install 'zmtpscope[spark]'\n"
    )
