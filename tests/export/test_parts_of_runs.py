"""A part of a run gives the lines, tables and findings of the whole run."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.export.test_arrow import batches, table
from tests.export.test_json_lines import OPTIONS, frames_of, message_runs
from tests.readings import CAPTURE_FILES
from tests.runs import assert_columns_agree, assert_runs_agree, joined
from tests.suites import examples
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser, Batch, MessageTable, Options
from zmtpscope.dissect.findings.row_rules import broken_rows
from zmtpscope.dissect.records.row_contents import contents, plain_texts
from zmtpscope.export.clock import Clock
from zmtpscope.export.json_lines import lines
from zmtpscope.export.tables import by_type
from zmtpscope.export.text import Look, TextLines
from zmtpscope.payloads.registry import Registry

FILES = ["a", None]


def parts(run: MessageTable, cuts: set[int]) -> list[MessageTable]:
    """Cut the run before the messages `cuts`, as far as they exist."""
    count = len(run.first)
    bounds = [0, *sorted(cut for cut in cuts if 0 < cut < count), count]
    return [run.part(low, high) for low, high in pairwise(bounds)]


def text(batch: Batch, options: Options, width: int | None = None) -> list[str]:
    look = Look(Clock("e", lambda: 0), width=width)
    return list(TextLines(look, options).lines(batch))


def assert_says_the_same(parted: Batch, whole: Batch, options: Options) -> None:
    """Compare every output, row by row."""
    assert list(lines(parted, options)) == list(lines(whole, options))
    assert table(parted, "message", options) == table(whole, "message", options)
    assert text(parted, options) == text(whole, options)
    assert text(parted, options, 80) == text(whole, options, 80)


CUTS = st.sets(st.integers(1, 4))


@examples(200)
@given(message_runs(), CUTS, st.sampled_from(OPTIONS))
def test_any_parts_of_a_run_give_the_lines_of_the_whole(run: MessageTable, cuts: set[int], options: Options) -> None:
    made = parts(run, cuts)
    for part in made:
        assert_columns_agree(part)
    assert_says_the_same(Batch(FILES, messages=made), Batch(FILES, messages=[run]), options)


@examples(200)
@given(batches(), st.sampled_from(OPTIONS))
def test_messages_of_several_sides_give_the_same_as_one_table(batch: Batch, options: Options) -> None:
    table = Batch(batch.files, messages=[joined(batch.messages)])
    assert_runs_agree(table)
    assert_says_the_same(table, batch, options)


@given(message_runs(), CUTS, CUTS)
def test_parts_of_parts_are_parts(run: MessageTable, cuts: set[int], more: set[int]) -> None:
    made = [inner for part in parts(run, cuts) for inner in parts(part, more)]
    assert_says_the_same(Batch(FILES, messages=made), Batch(FILES, messages=[run]), Options())


@given(message_runs(), CUTS, st.integers(0, 40))
def test_what_is_inside_a_message_does_not_depend_on_its_run(run: MessageTable, cuts: set[int], limit: int) -> None:
    _, _, _, known = contents(run, limit)
    texts = plain_texts(run, *contents(run, limit)).tolist()
    broken = {name: rows.tolist() for name, rows in broken_rows(run)}
    before = 0
    for part in parts(run, cuts):
        behind = before + len(part.first)
        assert contents(part, limit)[3].tolist() == known.tolist()[before:behind]
        assert plain_texts(part, *contents(part, limit)).tolist() == texts[before:behind]
        for name, rows in broken_rows(part):
            assert rows.tolist() == [row - before for row in broken[name] if before <= row < behind]
        before = behind


@given(message_runs(), st.booleans(), st.sampled_from(OPTIONS))
def test_a_batch_of_one_type_gives_the_lines_of_the_whole_batch(
    run: MessageTable, first: bool, options: Options
) -> None:
    batch = Batch(FILES, messages=[run], frames=[frames_of(run)])
    apart = dict(by_type(batch))
    for record in ("message", "frame"):
        wanted = [line for line in lines(batch, options) if b'"record":"%b"' % record.encode() in line]
        assert list(lines(apart[record], options)) == wanted
        assert len(table(apart[record], record, options)) == len(wanted)


@pytest.mark.parametrize("options", [Options(), Options(payloads=Registry())], ids=["off", "payloads"])
def test_parts_of_the_runs_of_captures_give_the_lines_of_the_whole(options: Options) -> None:
    for path in CAPTURE_FILES:
        if path.suffix == ".json" or path.stat().st_size > 100_000:
            continue
        for batch in Analyser(options).run(open_captures([str(path)])):
            if not batch.messages:
                continue
            parted = [part for run in batch.by_sender() for part in parts(run, set(range(1, 4)) | {len(run.first) - 1})]
            assert_says_the_same(
                Batch(batch.files, messages=parted), Batch(batch.files, messages=batch.messages), options
            )
