"""Seam P11: the modules that an import of a part of zmtpscope loads in a fresh interpreter.

import-linter checks the layers from the source (`[tool.importlinter]` in pyproject.toml). These tests check
`sys.modules`, which also includes modules that third parties load, and limit the start-up time of `read`.
"""

from __future__ import annotations

import pathlib
import pkgutil
import re
import subprocess
import sys

import pytest

import zmtpscope
from zmtpscope import zmtp
from zmtpscope.cli import COMMANDS

PACKAGE = pathlib.Path(zmtpscope.__file__).parent
CAPTURE = pathlib.Path(__file__).parent.parent / "captures" / "patterns" / "pubsub.pcap"
CORE = ["zmtpscope", "zmtpscope.records", "zmtpscope.findings", "zmtpscope.zmtp"] + [
    module.name for module in pkgutil.walk_packages(zmtp.__path__, "zmtpscope.zmtp.")
]
HEAVY = {"dpkt", "lark", "nacl", "pandas", "pyarrow", "pyspark", "scapy", "textual"}
"""Modules that `read` does not load: each costs more than reading a small capture, or needs an extra.

nacl is loaded if keys are given.
"""


MAX_MODULES, MAX_DATACLASSES = 212, 38
"""Number of our modules and dataclasses that `read` may load for a small capture, without compiled ones: slightly
above the number when the limits were last updated."""


NEEDLESS = (
    "zmtpscope.dissect.datagrams",
    "zmtpscope.dissect.findings.relayed",
    "zmtpscope.dissect.findings.zre",
    "zmtpscope.dissect.stream.decryption",
    "zmtpscope.dissect.stream.searching",
    "zmtpscope.payloads.json",
    "zmtpscope.payloads.sequence",
    "zmtpscope.payloads.text",
    "zmtpscope.zmtp.boundaries",
)
"""Modules that only captures with UDP, proxies, ZRE, keys or lost octets need."""


def loaded_by(code: str) -> set[str]:
    """Return the third-party top-level modules in `sys.modules` after `code` ran in a fresh interpreter."""
    # -I leaves out the working directory and the user's site; the package itself is put in front by hand.
    root = str(PACKAGE.parent)
    program = (
        f"import sys; before = set(sys.modules); sys.path.insert(0, {root!r})\n{code}\n"
        "print('\\nLOADED', *{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split()[1:]) - sys.stdlib_module_names - {"zmtpscope"}
    # Cython's own modules are part of compiled ones, and it enters the one for memory views by its bare name as well.
    return {name for name in loaded if "cython" not in name and name != "memory_views_compiled"}


def reading(arguments: list[str], command: str = "read") -> str:
    return (
        f"sys.argv = {['zmtpscope', command, *arguments, str(CAPTURE)]!r}\n"
        "from zmtpscope.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code"
    )


def test_the_core_loads_nothing_third_party() -> None:
    assert loaded_by(f"import {', '.join(CORE)}") == set()


def test_the_core_does_not_see_the_parts_above_it() -> None:
    above = ("zmtpscope.capture", "zmtpscope.dissect", "zmtpscope.export", "zmtpscope.cli")
    loaded_by(f"import zmtpscope.zmtp\nassert not [name for name in sys.modules if name.startswith({above})]")


@pytest.mark.parametrize(
    "module", ["zmtpscope.capture", "zmtpscope.dissect", "zmtpscope.export", "zmtpscope.cli", "zmtpscope.live"]
)
def test_importing_a_part_loads_no_heavy_library(module: str) -> None:
    assert loaded_by(f"import {module}") & HEAVY == set()


def test_the_screen_of_tui_loads_nothing_of_captures_and_its_worker_no_screen() -> None:
    """The time for a key press, and until rows are displayed, depends on it (docs/decisions/tui.md)."""
    below = ("zmtpscope.capture", "zmtpscope.dissect", "zmtpscope.filter", "zmtpscope.store")
    code = (
        "import zmtpscope.tui.screen\n"
        f"assert not [name for name in sys.modules if name.startswith({below})]\n"
        "assert {name for name in sys.modules if name.startswith('zmtpscope.export')} <= "
        "{'zmtpscope.export', 'zmtpscope.export.safe_text'}, 'there is one function that makes text safe'"
    )
    assert {"numpy", *HEAVY - {"textual"}} & loaded_by(code) == set()
    assert {"rich", *HEAVY} & loaded_by("import zmtpscope.tui.worker.loop") == set()


def test_the_command_line_starts_without_what_single_commands_need() -> None:
    """Help, usage errors and completion load only click."""
    code = "import zmtpscope.cli\nassert not {'asyncio', 'zmtpscope.dissect', 'zmtpscope.zmtp.peer'} & set(sys.modules)"
    assert loaded_by(code) == {"click"}


def test_spark_plans_a_query_without_the_analyser() -> None:
    """The first query of a session loads the data source in four processes, one after the other."""
    analyser = ("zmtpscope.dissect", "zmtpscope.filter", "zmtpscope.diagnosis", "pyarrow")
    code = (
        "import pyspark_zmtp\n"
        "assert not {'numpy', 'zmtpscope.capture'} & set(sys.modules), 'Spark only asks for the name'\n"
        "from zmtpscope.spark.planning import check\n"
        f"check({{'path': {str(CAPTURE)!r}, 'columns': 'topic', 'port': '5555'}})\n"
        f"assert not set({analyser}) & set(sys.modules)"
    )
    loaded_by(code)


@pytest.mark.parametrize("arguments", [["--json"], [], ["-V", "-x"], ["-q"]])
def test_reading_a_capture_loads_no_heavy_library(arguments: list[str]) -> None:
    # rich is for terminals only, and standard output is a pipe here
    assert loaded_by(reading(arguments)) & (HEAVY | {"rich"}) == set()


@pytest.mark.parametrize("arguments", [[], ["--json"], ["-q"]])
def test_reading_a_capture_loads_no_other_command_nor_what_only_they_need(arguments: list[str]) -> None:
    others = {f"zmtpscope.cli.{name}" for name in COMMANDS if name != "read"}
    needless = {"getpass", "hmac", "ipaddress", "pathlib", "shlex", "shutil", "urllib.parse", *NEEDLESS}
    loaded_by(f"{reading(arguments)}\nloaded = {others | needless} & set(sys.modules)\nassert not loaded, loaded")


def test_counting_a_capture_loads_no_writer_of_lines() -> None:
    loaded_by(f"{reading(['-q'])}\nassert 'zmtpscope.export.text' not in sys.modules")


def test_checking_a_capture_loads_no_module_that_only_reports_need() -> None:
    needless = {"difflib", "ipaddress", "pathlib", "random", "statistics", "xml", *NEEDLESS}
    loaded_by(f"{reading([], 'check')}\nloaded = {needless} & set(sys.modules)\nassert not loaded, loaded")


def test_reading_a_capture_loads_few_modules_and_makes_few_dataclasses() -> None:
    """A module costs about 0.2 ms, a dataclass 0.5 ms, five times as much as a NamedTuple. Modules for some captures
    only are imported when needed, and classes that are neither compared nor changed are no dataclasses."""
    counting = (
        "\nimport dataclasses\n"
        "names = [name for name in sys.modules if name.startswith('zmtpscope') and not name.endswith('_compiled')]\n"
        "ours = [sys.modules[name] for name in names]\n"
        "kinds = [kind for module in ours for kind in vars(module).values() if isinstance(kind, type)]\n"
        "made = {kind for kind in kinds if kind.__module__[:9] == 'zmtpscope' and dataclasses.is_dataclass(kind)}\n"
        f"assert len(ours) <= {MAX_MODULES}, len(ours)\n"
        f"assert len(made) <= {MAX_DATACLASSES}, len(made)"
    )
    loaded_by(reading([]) + counting)


def test_exporting_parquet_loads_no_pandas_nor_hides_it(tmp_path: pathlib.Path) -> None:
    """pandas takes longer to load than everything else. An application that uses pyarrow with pandas in the same
    process can still do so."""
    arguments = ["zmtpscope", "export", "--format", "parquet", "--frames", "-o", str(tmp_path / "tables"), str(CAPTURE)]
    code = reading([]).replace(repr(["zmtpscope", "read", str(CAPTURE)]), repr(arguments))
    behind = "\nassert 'pandas' not in sys.modules\nimport pyarrow, pandas"
    behind += "\nassert pyarrow.array(pandas.Series([1.0, None])).null_count == 1"
    assert "pyarrow" in loaded_by(code + behind)


def test_reading_with_keys_loads_libsodium_and_nothing_else(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "keys.txt"
    path.touch()
    assert loaded_by(reading(["--keys", str(path)])) & HEAVY == {"nacl"}


@pytest.mark.parametrize(("library", "module"), [("dpkt", "live/recording/segments.py"), ("nacl", "curve_crypto.py")])
def test_one_module_imports(library: str, module: str) -> None:
    statement = re.compile(rf"^\s*(?:import|from) {library}\b", re.MULTILINE)
    importers = [str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if statement.search(path.read_text())]
    assert importers == [module]
