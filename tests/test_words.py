"""Pages are in plain English (docs/style.md): few words that stand in place of a noun."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    {*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("zmtpscope/**/*.md")} - {ROOT / "docs/style.md"}
)
"""All but the page that quotes these words."""
VAGUE = re.compile(
    r"\b(what(ever)?|who(ever|m|se)?|nobody|somebody|say|says|said|saying|tells?|told|telling|those|such|stands?|stood"
    r"|standing|comes?|came|coming|brings?|brought|bringing)\b",
    re.IGNORECASE,
)
MAX_SHARE = 0.0125
"""Vague words per word of a page."""
MAX_FEW = 3
"""A short page may have these at least."""
NOT_YET = frozenset(
    {
        "CHANGELOG.md",
        "docs/check.md",
        "docs/decisions/capture.md",
        "docs/decisions/columns.md",
        "docs/decisions/compiled.md",
        "docs/decisions/core.md",
        "docs/decisions/curve.md",
        "docs/decisions/export.md",
        "docs/decisions/filters.md",
        "docs/decisions/live-capture.md",
        "docs/decisions/meaning.md",
        "docs/decisions/payloads.md",
        "docs/decisions/python.md",
        "docs/decisions/sockets.md",
        "docs/decisions/spark.md",
        "docs/decisions/store.md",
        "docs/decisions/tui.md",
        "docs/field-reference.md",
        "docs/payload-dissectors.md",
        "docs/performance.md",
        "docs/spark-analytics.md",
        "docs/stages.md",
    }
)
"""Pages that are not rewritten yet. A page leaves this set for good."""


def prose(text: str) -> str:
    """Return the sentences and tables of a page without code."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(?: {4}|\t).*$", "", text, flags=re.MULTILINE)
    return re.sub(r"`[^`]*`|\]\([^)]*\)", " ", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_what_acts(page: Path) -> None:
    text = prose(page.read_text())
    vague = VAGUE.findall(text)
    words = len(re.findall(r"[A-Za-z][A-Za-z'-]*", text))
    is_plain = len(vague) <= max(MAX_FEW, MAX_SHARE * words)
    name = str(page.relative_to(ROOT))
    assert is_plain or name in NOT_YET, sorted(match[0].lower() for match in vague)
    assert not (is_plain and name in NOT_YET), f"{name} is rewritten: take it out of NOT_YET"
