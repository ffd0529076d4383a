"""How functions are compiled when zmtpscope is built or installed: all of `zmtpscope/**/*_compiled.pyx`.

A compiler is no condition: without one, or where it fails, the wheel is the one for any platform, and does everything
in Python (`zmtpscope/compiled.py`). With ZMTPSCOPE_COMPILED=required it has to succeed, with ZMTPSCOPE_COMPILED=0
nothing is compiled.

    python -m build --wheel                         a wheel for this Python and platform
    ZMTPSCOPE_COMPILED=0 python -m build --wheel    the one for any
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
"""How the name of a compiled module ends that is for this Python and platform."""

ARGUMENTS = [] if sys.platform == "win32" else ["-O3", "-g0"]


class CompilingHook(BuildHookInterface[Any]):
    """Compiles in front of the build of a wheel, also of an editable one: what comes of it stands beside its source."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        wanted = os.environ.get("ZMTPSCOPE_COMPILED", "1")
        if wanted == "0":
            return
        try:
            compile_all(Path(self.root))
        except (Exception, SystemExit) as error:  # whatever a compiler, or the lack of one, comes up with
            if wanted == "required":
                raise
            self.app.display_warning(f"zmtpscope was not compiled, and will be slower: {error}")
            return
        build_data["pure_python"], build_data["infer_tag"] = False, True
        build_data["artifacts"].append(f"*_compiled{SUFFIX}")


def compile_all(root: Path) -> None:
    """Compile in place: all of it, or nothing is left of it, nor of what was compiled from earlier sources."""
    remove_compiled(root)
    try:
        _compile(root)
    except (Exception, SystemExit):
        remove_compiled(root)
        raise


def remove_compiled(root: Path) -> None:
    """Remove what was compiled in place for this Python."""
    for path in root.glob(f"zmtpscope/**/*_compiled{SUFFIX}"):
        path.unlink()


def _compile(root: Path) -> None:
    if sys.maxsize < 2**32:
        raise RuntimeError("places and sizes are numbers of 64 bits")
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    sources = [path.relative_to(root) for path in sorted(root.glob("zmtpscope/**/*_compiled.pyx"))]
    extensions = [
        Extension(".".join(source.with_suffix("").parts), [str(source)], extra_compile_args=ARGUMENTS)
        for source in sources
    ]
    before = Path.cwd()
    os.chdir(root)
    try:
        with tempfile.TemporaryDirectory(prefix="zmtpscope-compiled-") as folder:
            made = cythonize(extensions, build_dir=folder, quiet=True, language_level=3)
            command = build_ext(Distribution({"name": "zmtpscope", "packages": ["zmtpscope"], "ext_modules": made}))
            command.inplace, command.force, command.build_lib, command.build_temp = True, True, folder, folder
            command.ensure_finalized()
            command.run()
    finally:
        os.chdir(before)


if __name__ == "__main__":
    compile_all(Path(__file__).parent)
