"""Pages, docstrings and comments are in plain English (docs/style.md): few words that replace a noun."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    {*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("zmtpscope/**/*.md")} - {ROOT / "docs/style.md"}
)
"""All but the page that quotes these words."""
MODULES = sorted((ROOT / "zmtpscope").glob("**/*.py"))
VAGUE = re.compile(
    r"\b(what(ever)?|who(ever|m|se)?|nobody|somebody|say|says|said|saying|tells?|told|telling|those|such|stands?|stood"
    r"|standing|comes?|came|coming|brings?|brought|bringing)\b",
    re.IGNORECASE,
)
COMMENT = re.compile(r'''""".*?"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|(#.*?)$''', re.MULTILINE | re.DOTALL)
"""Strings, and comments between them."""
MAX_SHARE = 0.0125
"""Vague words per word of a page."""
MAX_FEW = 3
"""A short page may have these at least."""


def prose(text: str) -> str:
    """Return the sentences and tables of a page without code."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(?: {4}|\t).*$", "", text, flags=re.MULTILINE)
    return re.sub(r"`[^`]*`|\]\([^)]*\)", " ", text)


def docstrings_and_comments(module: Path) -> str:
    """Return all docstrings of a module, of constants and attributes too, and all comments."""
    source = module.read_text()
    found = [match[1] for match in COMMENT.finditer(source) if match[1]]
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                found.append(text)
    return prose("\n".join(found))


def vague_words(text: str) -> list[str]:
    """Return the vague words of a text that has too many of them."""
    vague = [match[0].lower() for match in VAGUE.finditer(text)]
    words = len(re.findall(r"[A-Za-z][A-Za-z'-]*", text))
    return sorted(vague) if len(vague) > max(MAX_FEW, MAX_SHARE * words) else []


def test_pages_and_modules_name_what_acts() -> None:
    texts = {page: prose(page.read_text()) for page in PAGES}
    texts |= {module: docstrings_and_comments(module) for module in MODULES}
    assert {str(path.relative_to(ROOT)): found for path, text in texts.items() if (found := vague_words(text))} == {}
