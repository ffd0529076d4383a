"""What is wrong with a filter, where, and what might have been meant."""

from __future__ import annotations


class FilterError(ValueError):
    """`start` and `stop` are the characters of `text` that it is about; `sentence` says what is wrong, and `hint` what
    to write. `expected` says what could stand at `start`: "field", "operator" or "value"; None where nothing helps."""

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
        """The sentence, the filter, and carets under what is wrong."""
        hint = "" if self.hint is None else f"; {self.hint}"
        carets = " " * self.start + "^" * (self.stop - self.start)
        return f"{self.sentence}{hint}\n  {self.text}\n  {carets}"
