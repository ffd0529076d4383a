"""What the pages show as output is what the program prints."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.readings import CAPTURES, run

ROOT = CAPTURES.parent
PAGES = ["README.md", "docs/cookbook.md"]
LEFT_OUT = "[...]"


def examples(page: str) -> list[tuple[str, list[str]]]:
    """(command, lines of output) of the fenced blocks that begin with `$ zmtpscope`."""
    blocks = re.findall(r"^```\n\$ zmtpscope (.*?)\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    return [(command, output.splitlines()) for command, output in blocks]


EXAMPLES = [(page, command, output) for page in PAGES for command, output in examples(page)]


@pytest.mark.parametrize(("page", "command", "output"), EXAMPLES, ids=[f"{p}: {c}" for p, c, _ in EXAMPLES])
def test_output_in_pages_is_real(page: str, command: str, output: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line of the page is a line of the output, in order; lines may be left out only where the page says so."""
    monkeypatch.chdir(ROOT)
    printed = run(*shlex.split(command)).stdout.decode().splitlines()
    gap = False
    for line in output:
        if line == LEFT_OUT:
            gap = True
            continue
        assert line in printed, f"{line!r} is not printed (any more)"
        at = printed.index(line)
        assert gap or at == 0, f"{line!r} does not follow the line above it"
        printed, gap = printed[at + 1 :], False
    assert gap or printed == []
