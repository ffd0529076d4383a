"""Examples of output in the pages equal the output of the program; `pytest --update-golden` updates them."""

from __future__ import annotations

import glob
import importlib
import pathlib
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import chain

import pytest

from tests.cli.running import Run
from tests.readings import CAPTURES
from zmtpscope.diagnosis.rules.catalogue import RULES
from zmtpscope.findings import FINDINGS

ROOT = CAPTURES.parent
PAGES = [
    "README.md",
    "docs/cookbook.md",
    "docs/check.md",
    "docs/command-line.md",
    "docs/diagram.md",
    "docs/fields.md",
    "docs/keys.md",
    "docs/payload-dissectors.md",
    "docs/websocket.md",
    "docs/records.md",
    "docs/scan.md",
    "docs/stats.md",
    "docs/top.md",
]
EXAMPLE = re.compile(r"^```\n\$ (zmtpscope .*)\n((?:.*\n)*?)```$", re.MULTILINE)


@pytest.fixture
def output_of(zmtpscope: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Run a command of a page: `zmtpscope` in this process, the programs that its output is piped to in a shell."""
    monkeypatch.chdir(ROOT)

    def call(command: str) -> str:
        command, _, programs = command.partition(" | ")
        words = [sorted(glob.glob(word)) if "*" in word else [word] for word in shlex.split(command)[1:]]
        code, output, _ = zmtpscope(*chain(*words))
        if programs:
            return subprocess.check_output(programs, shell=True, input=output, text=True)
        assert code == 0
        return output

    return call


def can_run(command: str) -> bool:
    """Whether all programs that the command needs are installed; without jq the other examples are tested."""
    return " jq " not in command or shutil.which("jq") is not None


@pytest.mark.parametrize("page", PAGES)
def test_output_in_pages_is_real(page: str, output_of: Callable[[str], str], request: pytest.FixtureRequest) -> None:
    path = ROOT / page
    text = path.read_text()
    real = EXAMPLE.sub(
        lambda match: f"```\n$ {match[1]}\n{output_of(match[1])}```" if can_run(match[1]) else match[0], text
    )
    assert EXAMPLE.search(text)
    if request.config.getoption("--update-golden"):
        path.write_text(real)
    else:
        assert text == real


PICTURE = re.compile(r"^    zmtpscope (diagram .*) -o (docs/diagram/\S+\.svg)$", re.MULTILINE)


def test_pictures_in_the_page_of_diagrams_are_real(
    output_of: Callable[[str], str], request: pytest.FixtureRequest
) -> None:
    pictures = PICTURE.findall((ROOT / "docs/diagram.md").read_text())
    assert pictures
    for command, name in pictures:
        real = output_of(f"zmtpscope {command} --format svg")
        if request.config.getoption("--update-golden"):
            (ROOT / name).write_text(real)
        assert (ROOT / name).read_text() == real


def test_the_page_of_fields_is_what_they_are(request: pytest.FixtureRequest) -> None:
    page = ROOT / "docs/field-reference.md"
    real = runpy.run_path(str(ROOT / "docs/field_reference.py"))["page"]()
    if request.config.getoption("--update-golden"):
        page.write_text(real)
    else:
        assert page.read_text() == real


RULE_TABLE = re.compile(r"(?<=^\| rule \| reports \|\n\|---\|---\|\n)(?:\|.*\n)*", re.MULTILINE)


def test_the_page_of_check_has_every_rule(request: pytest.FixtureRequest) -> None:
    page = ROOT / "docs/check.md"
    table = "".join(f"| `{rule.id}` | {rule.title} |\n" for rule in RULES.values())
    real, count = RULE_TABLE.subn(lambda _: table, page.read_text())
    assert count == 1
    if request.config.getoption("--update-golden"):
        page.write_text(real)
    assert page.read_text() == real


def anchors(page: pathlib.Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_to_a_file_and_a_heading() -> None:
    pages = [
        *ROOT.glob("*.md"),
        *(page for part in ("benchmarks", "captures", "docs", "zmtpscope") for page in (ROOT / part).rglob("*.md")),
    ]
    broken = []
    for page in pages:
        for link, anchor in re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", page.read_text()):
            target = page.parent / link if link else page
            if not target.exists() or (anchor and anchor not in anchors(target)):
                broken.append((str(page), link, anchor))
    assert broken == []


def test_the_script_about_sockets_prints_the_output_of_the_page() -> None:
    text = (ROOT / "docs/sockets.md").read_text()
    (script, output) = re.findall(r"```python\n(.*?)```\n```\n(.*?)```", text, re.DOTALL)[0]
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert (done.stdout, done.stderr) == (output, "")


def test_the_page_has_the_sections_that_findings_name() -> None:
    page = "payload-dissectors.md"
    named = {each.section.removeprefix(f"{page}, ") for each in FINDINGS.values() if each.section.startswith(page)}
    assert named <= set(re.findall(r"^## (.*)$", (ROOT / "docs" / page).read_text(), re.MULTILINE))
    assert named


def test_what_the_page_on_architecture_names_is_there() -> None:
    """A renamed part must be renamed on the page too."""
    text = (ROOT / "docs/architecture.md").read_text()
    steps = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`\s`([A-Za-z_.]+)`", text)
    assert len(steps) > 20
    for path, name in steps:
        value: object = importlib.import_module(f"zmtpscope.{path.removesuffix('.py').replace('/', '.')}")
        for part in name.split("."):
            value = getattr(value, part)
    assert [
        path for path in re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", text) if not (ROOT / "zmtpscope" / path).exists()
    ] == []
