from __future__ import annotations


class FilterError(ValueError):
    """An error at the characters `start` to `stop` of `text`, with a remedy as `hint`. `expected` is the kind of
    token that could be at `start`: "field", "operator", "value", or None if none helps."""

    def __init__(
        self, sentence: str, text: str, start: int, stop: int, *, hint: str | None = None, expected: str | None = None
    ) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.text = text
        self.start = start
        self.stop = max(stop, start + 1)
        self.hint = hint
        self.expected = expected

    def __str__(self) -> str:
        """Return sentence, filter, and carets below the error."""
        hint = "" if self.hint is None else f"; {self.hint}"
        carets = " " * self.start + "^" * (self.stop - self.start)
        return f"{self.sentence}{hint}\n  {self.text}\n  {carets}"
