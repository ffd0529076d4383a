"""Compile the extension modules of a wheel: every `zmtpscope/**/*_compiled.pyx`.

A compiler is optional. Without one, or if it fails, the build makes a wheel for any platform that runs everything in
Python (`zmtpscope/compiled.py`). ZMTPSCOPE_COMPILED=required turns that failure into an error, and ZMTPSCOPE_COMPILED=0
skips the compiler.

    python -m build --wheel                         a wheel for this Python and platform
    ZMTPSCOPE_COMPILED=0 python -m build --wheel    a wheel for any platform
"""

from __future__ import annotations

import os
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
"""File name suffix of an extension module for this Python and platform."""

MEMORY_VIEWS = "zmtpscope.memory_views_compiled"
"""The module with the code of Cython for memory views, shared by all. Otherwise each module contains these 25,000 lines
of C, and compiling takes four times as long."""

OPTIONS, FASTER_OPTIONS = ([], []) if sys.platform == "win32" else (["-O1", "-g0"], ["-O2", "-g0"])
"""Compiler options. -O2 takes half as long again to compile, and only the modules in `FASTER` run faster with it."""

FASTER = {"zmtpscope.export.json_text_compiled"}

DIRECTIVES = {"auto_pickle": False, "binding": False}
"""No compiled function is pickled or inspected; without support for it there is a sixth less C."""


class CompilingHook(BuildHookInterface[Any]):
    """Compiles before a wheel is built, editable or not, and leaves each module beside its source."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        wanted = os.environ.get("ZMTPSCOPE_COMPILED", "1")
        if wanted == "0":
            return
        try:
            compile_all(Path(self.root))
        except (Exception, SystemExit) as error:  # setuptools raises either
            if wanted == "required":
                raise
            self.app.display_warning(f"zmtpscope was not compiled, and will be slower: {error}")
            return
        build_data["pure_python"], build_data["infer_tag"] = False, True
        build_data["artifacts"].append(f"*_compiled{SUFFIX}")


def compile_all(root: Path) -> None:
    """Compile every module in place. If one fails, remove all of them, so that none is older than its source."""
    remove_compiled(root)
    try:
        _compile(root)
    except (Exception, SystemExit):
        remove_compiled(root)
        raise


def remove_compiled(root: Path) -> None:
    """Remove the modules that were compiled in place for this Python."""
    for path in root.glob(f"zmtpscope/**/*_compiled{SUFFIX}"):
        path.unlink()


def _compile(root: Path) -> None:
    if sys.maxsize < 2**32:
        raise RuntimeError("offsets and sizes need a 64-bit Python")
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    sources = [path.relative_to(root) for path in sorted(root.glob("zmtpscope/**/*_compiled.pyx"))]
    modules = {".".join(source.with_suffix("").parts): [str(source)] for source in sources} | {MEMORY_VIEWS: []}
    extensions = [
        Extension(name, files, extra_compile_args=FASTER_OPTIONS if name in FASTER else OPTIONS)
        for name, files in modules.items()
    ]
    before = Path.cwd()
    os.chdir(root)
    try:
        with tempfile.TemporaryDirectory(prefix="zmtpscope-compiled-") as folder:
            made = cythonize(
                extensions,
                build_dir=folder,
                quiet=True,
                language_level=3,
                compiler_directives=DIRECTIVES,
                shared_utility_qualified_name=MEMORY_VIEWS,
            )
            command = build_ext(Distribution({"name": "zmtpscope", "packages": ["zmtpscope"], "ext_modules": made}))
            command.inplace, command.force, command.build_lib, command.build_temp = True, True, folder, folder
            command.parallel = os.cpu_count()
            command.ensure_finalized()
            command.run()
    finally:
        os.chdir(before)


if __name__ == "__main__":
    compile_all(Path(__file__).parent)
