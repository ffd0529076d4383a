"""The patches of `make mutants` still fit the code. (That they are caught takes longer: `make mutants`.)"""

from __future__ import annotations

import pathlib
from collections import defaultdict
from collections.abc import Mapping

import pytest

from tests.mutants.__main__ import HERE, ROOT, apply, copy_to, named_tests

PATCHES = sorted(HERE.glob("*.patch"))


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    # git applies nothing to paths outside its repository, and would look at the index inside one
    folder = tmp_path_factory.mktemp("copy")
    copy_to(folder)
    return folder


@pytest.fixture(scope="module")
def cases(request: pytest.FixtureRequest) -> Mapping[str, set[str]]:
    """The names of all tests that are run with several values, by their names without these."""
    found: dict[str, set[str]] = defaultdict(set)
    for item in request.session.items:
        if "[" in item.nodeid:
            found[item.nodeid.partition("[")[0]].add(item.nodeid)
    return found


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_mutant_applies_and_names_a_test_that_exists(
    patch: pathlib.Path, copy: pathlib.Path, cases: Mapping[str, set[str]]
) -> None:
    assert apply(patch, copy, check_only=True) == ""
    tests = named_tests(patch)
    assert tests
    for test in tests:
        path, _, name = test.partition("::")
        function = name.rpartition("::")[2].partition("[")[0]
        assert f"def {function}(" in (ROOT / path).read_text()
        known = cases.get(test.partition("[")[0])
        assert known is None or "[" not in test or test in known, f"{test} is none of {known}"
