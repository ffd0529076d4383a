"""The worker replies with safe text and without secrets, whatever peers send and files are named."""

from __future__ import annotations

import re
import unicodedata
from base64 import b64decode
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from tests.store.stores import opened
from tests.suites import examples, some
from tests.tui.hostile import PASSWORD, WORDS, hostile_capture, hostile_name
from tests.tui.worker.views.fed import opened_whole, view_of
from tests.tui.workers import Asker, worker_of
from zmtpscope.filter.fields import FIELDS
from zmtpscope.records import RECORDS
from zmtpscope.tui.choices import COPY_FORMS
from zmtpscope.tui.client import RequestFailed
from zmtpscope.tui.requests import (
    CheckFilter,
    CompleteFilter,
    CopyTextOf,
    DetailsOf,
    ListSpec,
    ListState,
    OpenList,
    Request,
    Rows,
    SaveRows,
    TableRow,
)
from zmtpscope.tui.worker.columns import COLUMNS
from zmtpscope.tui.worker.views.catalogue import VIEWS

FORBIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Categories of characters that a terminal might obey."""

PIECES = (*WORDS, b"\x1b", b"\x9b", b"[", b"]", b"/", b"\\", b'"', b"'", b" ", b"\xff", b"\0", b"a", b"=", b"m")

LISTS = [
    ListSpec(),
    ListSpec(tuple(RECORDS), columns=tuple(COLUMNS)),
    ListSpec(tuple(RECORDS), columns=tuple(FIELDS)),
]


def texts_in(reply: Any) -> Iterator[str]:
    """Yield all text of a reply that the screen may show."""
    if isinstance(reply, str):
        yield reply
    elif isinstance(reply, Struct):
        for name in reply.__struct_fields__:
            if not (isinstance(reply, TableRow) and name == "key"):
                yield from texts_in(getattr(reply, name))
    elif isinstance(reply, (tuple, list)):
        for each in reply:
            yield from texts_in(each)


def octets_in(reply: Any) -> Iterator[bytes]:
    if isinstance(reply, bytes):
        yield reply
    elif isinstance(reply, Struct):
        yield from octets_in([getattr(reply, name) for name in reply.__struct_fields__])
    elif isinstance(reply, (tuple, list)):
        for each in reply:
            yield from octets_in(each)


def assert_safe(replies: Iterable[Any]) -> None:
    for text in texts_in(list(replies)):
        assert not {unicodedata.category(character) for character in text} & FORBIDDEN, repr(text)


def answer(asker: Asker, request: Request[Any]) -> Any:
    """Return the reply, or the reason why there is none."""
    try:
        return asker.ask(request)
    except RequestFailed as error:
        return str(error)


def answers(path: Path, word: str) -> Iterator[Any]:
    """Yield the replies and notices of the worker of a capture, for every request of the screen."""
    with worker_of(str(path)) as asker:
        yield from answers_about_records(asker)
        yield from answers_about_filters(asker, word)
        yield answer(asker, SaveRows(f"{path.parent}/not there/{word}.pcapng", "messages"))
        yield asker.notices
    for name in VIEWS:
        yield opened_whole(view_of(name, opened(path).store))


def answers_about_records(asker: Asker) -> Iterator[Any]:
    for spec in LISTS:
        state = answer(asker, OpenList("messages", spec))
        assert isinstance(state, ListState)
        yield state
        yield answer(asker, Rows("messages", 0, state.found))
    for number in range(state.found):
        yield answer(asker, DetailsOf(number))
        for form in COPY_FORMS:
            copied = answer(asker, CopyTextOf(number, form))
            yield copied.split("\n")  # it may have several lines
            yield octets_of_copied(form, copied)


def octets_of_copied(form: str, copied: str) -> bytes:
    """Return the octets of a copied text, in its format."""
    with suppress(ValueError):  # it is the reason why there is none
        match form:
            case "hex":
                return bytes.fromhex(copied)
            case "base64":
                return b64decode(copied, validate=True)
            case "c":
                return bytes(int(octet, 16) for octet in re.findall("0x([0-9a-f]{2})", copied))
    return b""


def answers_about_filters(asker: Asker, word: str) -> Iterator[Any]:
    for filter in (word, f'topic == "{word}"', f"{word} == 1", f"topic ~ '{word}('"):
        yield answer(asker, CheckFilter(filter))
        yield answer(asker, OpenList("other", ListSpec(filter=filter)))
        yield answer(asker, CompleteFilter(filter, len(filter)))
    for field in FIELDS:
        yield answer(asker, CompleteFilter(f"{field} == ", len(field) + 4))


def written(folder: Path, word: bytes) -> Path:
    """Write a file with the word in its name and in all texts of its connections."""
    path = folder / hostile_name(word)
    path.write_bytes(hostile_capture(word))
    return path


ANY_WORD = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map(lambda pieces: b"".join(pieces)[:60])


@examples(10)
@given(ANY_WORD)
def test_answers_are_safe_to_show(tmp_path_factory: pytest.TempPathFactory, word: bytes) -> None:
    assert_safe(answers(written(tmp_path_factory.mktemp("any"), word), word.decode(errors="replace")))


@pytest.mark.parametrize("word", some(WORDS, 3), ids=ascii)
def test_answers_are_safe_to_show_whatever_the_danger(word: bytes, tmp_path: Path) -> None:
    assert_safe(answers(written(tmp_path, word), word.decode(errors="replace")))


def test_no_reply_contains_a_password(tmp_path: Path) -> None:
    """No text, octets of fields or completions contain it."""
    path = written(tmp_path, b"somebody")
    assert PASSWORD in path.read_bytes()
    found = list(answers(path, "somebody"))
    assert any("***" in text for text in texts_in(found))
    assert not [text for text in texts_in(found) if PASSWORD.decode() in text or PASSWORD.hex() in text]
    assert not [octets for octets in octets_in(found) if PASSWORD in octets]
