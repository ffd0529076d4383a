"""A capture that is changed, cut or removed after it was read: rows stay, and missing octets are reported."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.readings import CAPTURES
from tests.store.stores import opened, options_for
from zmtpscope.store import OctetsError

CAPTURE = CAPTURES / "patterns" / "pubsub.pcap"


def cut(path: Path) -> None:
    os.truncate(path, 100)


def overwrite(path: Path) -> None:
    octets = path.read_bytes()
    path.write_bytes(bytes(len(octets)))
    os.utime(path, (1, 1))


def replace(path: Path) -> None:
    os.rename(shutil.copy(path, path.with_suffix(".new")), path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (cut, "was truncated since it was read -> read it again"),
        (overwrite, "changed since it was read -> read it again"),
        (replace, "is not the file that was read -> read it again"),
        (os.remove, "No such file or directory -> restore it, and read it again"),
    ],
    ids=["cut", "overwritten", "replaced", "removed"],
)
def test_a_changed_file_is_reported(change: Callable[[Path], None], sentence: str, tmp_path: Path) -> None:
    path = Path(shutil.copy(CAPTURE, tmp_path))
    options = options_for(path, frames=False)
    store, _ = opened(path, options)
    intact, _ = opened(CAPTURE, options)
    row = next(row for row in range(len(intact)) if intact.row(row)["record"] == "message")
    change(path)
    assert [line.rstrip().endswith(sentence) for line in store.detail(row)] == [True]
    with pytest.raises(OctetsError, match="->"):
        store.octets(row)
    values, were = store.row(row), intact.row(row)
    assert store.problem is not None
    assert store.problem.endswith(sentence)
    different = {name for name in values if name != "file" and values[name] != were[name]}
    assert different <= {"bodies", "bodies_kept", "envelope", "payload"}
    assert b"payload" not in b"".join(values["bodies"] or [])
    assert values["topic"] is not None
    for each in range(len(store)):
        assert store.row(each).get("topic") == intact.row(each).get("topic")


def test_octets_of_pipes_and_compressed_files_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "pubsub.pcap.gz"
    path.write_bytes(gzip.compress(CAPTURE.read_bytes()))
    options = options_for(CAPTURE)
    (plain, _), (compressed, _) = opened(CAPTURE, options), opened(path, options)
    os.remove(path)
    assert plain.spool.end < compressed.spool.end
    for row in range(len(plain)):
        assert compressed.octets(row) == plain.octets(row)
        assert compressed.detail(row) == plain.detail(row)
