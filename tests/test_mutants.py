"""The patches of `make mutants` still fit the code. (That they are caught takes longer: `make mutants`.)"""

from __future__ import annotations

import pathlib
from functools import cache

from tests.mutants.__main__ import HERE, ROOT, apply, copy_to, named_tests

PATCHES = sorted(HERE.glob("*.patch"))


def fault_of(patch: pathlib.Path, copy: pathlib.Path) -> str:
    """Return why a mutant cannot run: it does not apply, or names no test, or a test that does not exist; else ""."""
    tests = named_tests(patch)
    unknown = [test for test in tests if f"def {test.rpartition('::')[2]}(" not in source(test.partition("::")[0])]
    return apply(patch, copy, check_only=True) or str(unknown or "" if tests else "no test")


@cache
def source(path: str) -> str:
    return (ROOT / path).read_text()


def test_mutants_apply_and_name_tests_that_exist(tmp_path: pathlib.Path) -> None:
    # git applies nothing to paths outside its repository, and would look at the index inside one
    copy_to(tmp_path)
    assert {patch.stem: fault for patch in PATCHES if (fault := fault_of(patch, tmp_path))} == {}
