"""Start the Python workers of a session from the pyspark that is installed.

Spark puts its own copy of pyspark, a zip file, in front of the path of each worker. Python caches no bytecode for
modules in a zip file, so each of the four processes that the first query starts compiled pyspark anew, for 0.4 s.
"""

from __future__ import annotations

import sys

sys.path[:] = [entry for entry in sys.path if not entry.endswith("pyspark.zip")]

from pyspark.daemon import manager  # noqa: E402

if __name__ == "__main__":
    manager()
