"""Print the dependencies of pyproject.toml: `python .github/dependencies.py base` or `test`."""

import sys
import tomllib

with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
extras = [each for extra in project["optional-dependencies"].values() for each in extra]
# pyspark is pure Python and has no wheels; zmtpscope[...] are the extras themselves
without_wheels = ("pyspark", "zmtpscope[")
parts = {"base": project["dependencies"], "test": [each for each in extras if not each.startswith(without_wheels)]}
print(*parts[sys.argv[1]], sep="\n")
