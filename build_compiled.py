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
"""The module that holds Cython's code for memory views. Without it every module carries 25,000 lines of C of its own,
which are three quarters of the time that compiling takes. That code runs once a block, so -O1 is enough."""

ARGUMENTS, MEMORY_VIEWS_ARGUMENTS = ([], []) if sys.platform == "win32" else (["-O2", "-g0"], ["-O1", "-g0"])
"""Compiler options. -O3 compiles an eighth longer and reads no capture faster."""

DIRECTIVES = {"auto_pickle": False, "binding": False}
"""Compiled functions are called and never pickled or introspected: leaving that out saves a sixth of the C."""


class CompilingHook(BuildHookInterface[Any]):
    """Compiles before a wheel is built, editable or not, and leaves each module beside its source."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        wanted = os.environ.get("ZMTPSCOPE_COMPILED", "1")
        if wanted == "0":
            return
        try:
            compile_all(Path(self.root))
        except (Exception, SystemExit) as error:  # compilers fail in many ways
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
    extensions = [
        Extension(".".join(source.with_suffix("").parts), [str(source)], extra_compile_args=ARGUMENTS)
        for source in sources
    ]
    extensions.append(Extension(MEMORY_VIEWS, [], extra_compile_args=MEMORY_VIEWS_ARGUMENTS))
    before = Path.cwd()
    os.chdir(root)
    try:
        with tempfile.TemporaryDirectory(prefix="zmtpscope-compiled-") as folder:
            modules = cythonize(
                extensions,
                build_dir=folder,
                quiet=True,
                language_level=3,
                compiler_directives=DIRECTIVES,
                shared_utility_qualified_name=MEMORY_VIEWS,
            )
            command = build_ext(Distribution({"name": "zmtpscope", "packages": ["zmtpscope"], "ext_modules": modules}))
            command.inplace, command.force, command.build_lib, command.build_temp = True, True, folder, folder
            command.parallel = os.cpu_count()
            command.ensure_finalized()
            command.run()
    finally:
        os.chdir(before)


if __name__ == "__main__":
    compile_all(Path(__file__).parent)
