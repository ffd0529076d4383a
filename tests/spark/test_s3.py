"""Captures and tables in S3, as moto's server gives it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.readings import CAPTURES, PUBSUB
from tests.waiting import PATIENCE

SCRIPT = """
from pyarrow import fs, parquet
from zmtpscope.capture import CaptureError
from zmtpscope.spark import ingest, read, session, tables

s3, _ = fs.FileSystem.from_uri("s3://bucket")
for name in ("day/pubsub.pcap", "day/again.pcap"):
    with s3.open_output_stream(f"bucket/{{name}}") as stream:
        stream.write(open({path!r}, "rb").read())
spark = session({{"spark.master": "local[1]"}})
for uri in ("s3a://bucket/day/pubsub.pcap", "s3://bucket/*/p*.pcap"):
    assert read(spark, uri).count() == 19
for mode in ("error", "overwrite"):
    assert ingest(spark, "s3a://bucket/day/pubsub.pcap", "s3a://bucket/out", mode=mode)["messages"].rows == 19
files = [info.path for info in s3.get_file_info(fs.FileSelector("bucket/out", recursive=True)) if info.is_file]
assert not [path for path in files if "_ingest-" in path]
assert parquet.read_table("bucket/out/messages.parquet", filesystem=s3).num_rows == 19
try:
    tables(spark, "s3://bucket/out")
except CaptureError as error:
    print(error)
"""


@pytest.fixture
def endpoint() -> Iterator[str]:
    pytest.importorskip("moto", reason="moto is not installed")
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            give_up = time.monotonic() + PATIENCE
            while not answers(f"{url}/moto-api/"):
                assert time.monotonic() < give_up
                time.sleep(0.1)
            urllib.request.urlopen(urllib.request.Request(f"{url}/bucket", method="PUT")).close()
            yield url
        finally:
            server.terminate()


def answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url).close()
    except OSError:
        return False
    return True


@pytest.mark.slow
def test_captures_are_read_from_s3_and_tables_written_to_it(endpoint: str) -> None:
    environment = os.environ | {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "PYTHONPATH": str(CAPTURES.parent),
    }
    script = SCRIPT.format(path=str(PUBSUB))
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("s3a://bucket/out/connections.parquet: Spark has no connector for this file system; ")
