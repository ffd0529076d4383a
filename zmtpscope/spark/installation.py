"""Let Spark start from the installed pyspark.

Spark puts its own copy of pyspark, a zip file, first in the path of each Python process. Python caches no bytecode for
zip files, so each of the four processes that the first query starts would compile pyspark again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pyspark

from zmtpscope.ownership import exposed_in
from zmtpscope.spark.java import cache

LINKED = ("bin", "conf", "jars", "sbin")
"""The parts of an installation that a session on one machine needs."""


@contextmanager
def installed_pyspark() -> Iterator[None]:
    """Make a session started within the block import the installed pyspark instead of Spark's copy."""
    home = None if "SPARK_HOME" in os.environ else _without_copy(Path(pyspark.__file__).parent)
    if home is None:
        yield
        return
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]


def _without_copy(real: Path) -> Path | None:
    """Return a folder in the user's cache that Spark accepts as the installation `real`, without the copy of pyspark.

    None if others can change the folder, or it cannot be created. Then Spark starts with its copy.
    """
    home = cache() / f"spark-{sha256(str(real).encode()).hexdigest()[:16]}"
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if exposed_in(home.resolve()) is not None:
            return None
        for name in LINKED:
            if (real / name).exists() and not (home / name).is_symlink():
                (home / name).symlink_to(real / name)
    except OSError:
        return None
    return home
