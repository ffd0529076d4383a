"""Regular expressions of filters: RE2, whose time grows with the text alone, whatever the expression."""

from __future__ import annotations

from typing import Any

from zmtpscope.filter.errors import FilterError
from zmtpscope.filter.predicates import Matches
from zmtpscope.filter.tokens import Token

MEMORY = 8 << 20
"""Octets that an expression may take."""


def pattern(expression: bytes, token: Token, text: str) -> Matches:
    """A place that `expression` fits, whatever the case of letters. Raises `FilterError`."""
    import re2  # takes its time to load

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
        raise FilterError(f"this is no regular expression: {reason}", text, token.start, token.stop) from None

    return Matches(texts, octets)
