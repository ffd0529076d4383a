"""Compile the regular expressions of filters with RE2, which matches any expression in time linear to the text."""

from __future__ import annotations

from typing import Any

from zmtpscope.filter.errors import FilterError
from zmtpscope.filter.predicates import Matches
from zmtpscope.filter.tokens import Token

MEMORY = 8 << 20
"""Maximum memory of a compiled expression, in octets."""

MISSING = "matches needs google-re2, of the extra regex: pip install 'zmtpscope[regex]'; contains needs no extra"


def pattern(expression: bytes, token: Token, text: str) -> Matches:
    """Compile `expression` to match anywhere in a text, ignoring case.

    Raises `FilterError` if the expression is invalid or google-re2 is not installed.
    """
    try:
        import re2  # slow to load
    except ModuleNotFoundError:
        raise FilterError(MISSING, text, token.start, token.stop) from None

    def compiled(encoding: Any) -> Any:
        options = re2.Options()
        options.case_sensitive = False
        options.log_errors = False
        options.max_mem = MEMORY
        options.dot_nl = True
        options.encoding = encoding
        return re2.compile(expression, options)

    try:
        texts, octets = compiled(re2.Options.Encoding.UTF8), compiled(re2.Options.Encoding.LATIN1)
    except re2.error as error:
        said = error.args[0]
        reason = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        raise FilterError(f"not a regular expression: {reason}", text, token.start, token.stop) from None

    return Matches(texts, octets)
