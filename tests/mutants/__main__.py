"""`make mutants`: prove that tests detect mistakes.

Every `NAME.patch` in this folder is a unified diff from the root of the repository that breaks the code in one known
way. Lines in front of the diff that start with `#` are comments; `# test: tests/...::test_name` names a test that must
go red (repeat the line for several). The runner first makes sure that all named tests are green, then applies each
patch to a fresh copy of the package and the tests, runs the tests that it names, and demands that every one fails. A
patch that does not apply any more is an error. Tests run without what is compiled, but for patches of that: then it is
compiled anew.

    python -m tests.mutants [--quick] [PART-OF-NAME ...]

`--quick` runs the named tests as `make test` does, and so lists the mutants that `make test` alone would miss.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
FAILED, PASSED = 1, 0
"""Exit codes of pytest; every other one (missing test, nothing collected, usage) is an error of the patch."""


def named_tests(patch: pathlib.Path) -> list[str]:
    return re.findall(r"^# test: *(\S+)", patch.read_text(), flags=re.MULTILINE)


def copy_to(folder: pathlib.Path) -> None:
    """Copy the package and the tests into `folder`; captures and test vectors are only read in place."""
    for part in ("zmtpscope", "tests"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copy(ROOT / "build_compiled.py", folder)
    for part in ("captures", "docs"):
        (folder / part).symlink_to(ROOT / part)


def apply(patch: pathlib.Path, folder: pathlib.Path, *, check_only: bool = False) -> str:
    """Apply a patch in `folder`; return the error, or "". The context must match, line numbers may differ."""
    command = ["git", "apply", *(["--check"] if check_only else []), str(patch)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True).stderr.strip()


def is_compiled(patch: pathlib.Path) -> bool:
    return re.search(r"^\+\+\+ .*_compiled\.(pyx|pxd)$", patch.read_text(), flags=re.MULTILINE) is not None


def compiled_in(folder: pathlib.Path) -> str:
    """Compile the copy in `folder`; return the error, or ""."""
    command = [sys.executable, "-m", "build_compiled"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return done.stderr.strip() if done.returncode else ""


def run(tests: list[str], folder: pathlib.Path, *, compiled: bool, suite: str) -> subprocess.CompletedProcess[str]:
    # No bytecode: a file patched within the same second and with the same size would be taken for the old one.
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    environment["ZMTPSCOPE_COMPILED"] = str(int(compiled))
    environment["ZMTPSCOPE_TEST_SUITE"] = suite
    options = ["-q", "-x", "-p", "no:cacheprovider", "--hypothesis-profile=mutants"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def verdict(patch: pathlib.Path, suite: str) -> str:
    """Return "killed", or describe why a mutant was not."""
    tests = named_tests(patch)
    if not tests:
        return "ERROR: names no test"
    with tempfile.TemporaryDirectory(prefix="zmtpscope-mutant-") as name:
        folder = pathlib.Path(name)
        copy_to(folder)
        if trouble := apply(patch, folder):
            return f"ERROR: does not apply: {trouble.splitlines()[0]}"
        if is_compiled(patch) and (trouble := compiled_in(folder)):
            return f"ERROR: does not compile: {trouble.splitlines()[-1]}"
        for test in tests:
            done = run([test], folder, compiled=is_compiled(patch), suite=suite)
            if done.returncode == PASSED:
                return f"SURVIVED {test}"
            if done.returncode != FAILED:
                return f"ERROR: {test}: pytest exit code {done.returncode}"
    return "killed"


def main(arguments: list[str]) -> int:
    wanted = [argument for argument in arguments if argument != "--quick"]
    suite = "full" if wanted == arguments else "quick"
    patches = [path for path in sorted(HERE.glob("*.patch")) if not wanted or any(part in path.stem for part in wanted)]
    if not patches:
        print("no such mutant")
        return 1
    with tempfile.TemporaryDirectory(prefix="zmtpscope-mutant-") as name:
        copy_to(pathlib.Path(name))
        for compiled in {is_compiled(patch) for patch in patches}:
            chosen = [patch for patch in patches if is_compiled(patch) == compiled]
            tests = sorted({test for patch in chosen for test in named_tests(patch)})
            if (done := run(tests, pathlib.Path(name), compiled=compiled, suite=suite)).returncode != PASSED:
                print("the tests must be green before the code is broken:", done.stdout, done.stderr, sep="\n")
                return 1
    width = max(len(patch.stem) for patch in patches)
    bad = 0
    for patch in patches:
        start = time.monotonic()
        text = verdict(patch, suite)
        bad += text != "killed"
        print(f"{patch.stem:{width}}  {time.monotonic() - start:5.1f} s  {text}", flush=True)
    print(f"{len(patches) - bad} of {len(patches)} mutants killed")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
