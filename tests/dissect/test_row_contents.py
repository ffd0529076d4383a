"""The messages of a run for which dissectors are called: one by one, and all at once."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.export.test_json_lines import SHAPES, message_runs
from tests.payloads.reading import dissected
from tests.rows_by_hand import body_of, payload_of
from tests.suites import examples
from tests.twins import twins
from zmtpscope.dissect import MessageTable
from zmtpscope.dissect.records.row_contents import SEVERAL, Wanted, contents
from zmtpscope.payloads.json import ordinary
from zmtpscope.payloads.text import Text

WANTED = st.builds(Wanted, *[st.booleans()] * 5, limit=st.sampled_from([0, 5, 300, 1 << 20]))


@examples(1500, least=1500)
@given(run=message_runs(), wanted=WANTED)
def test_dissectors_of_messages_are_the_same_one_by_one_and_as_columns(run: MessageTable, wanted: Wanted) -> None:
    found = [
        asked_rows(run, SHAPES, wanted) for asked_rows in twins("zmtpscope.dissect.records.row_contents.asked_rows")
    ]
    one, other = (
        each._replace(texts=None if each.texts is None else each.texts.tolist()) for each in (found[0], found[-1])
    )
    assert one == other


@given(run=message_runs(), wanted=WANTED)
def test_each_message_is_unknown_or_json_or_asked_about_or_of_no_interest(run: MessageTable, wanted: Wanted) -> None:
    for asked_rows in twins("zmtpscope.dissect.records.row_contents.asked_rows"):
        asked = asked_rows(run, SHAPES, wanted)
        content, last, starts, known = contents(run, wanted.limit)
        assert asked.unknown == np.flatnonzero(~known).tolist()
        assert not {*asked.rows} & {*asked.json}
        assert {*asked.rows, *asked.json} <= {*np.flatnonzero(known).tolist()}
        if wanted.everything:
            assert asked.rows == np.flatnonzero(known).tolist() or asked.json
        places = zip(starts.tolist(), run.sizes[content].tolist(), strict=True)
        bodies = [run.data[start : start + size] for start, size in places]
        for row in asked.json:
            assert ordinary(bodies[row]) is not None
            assert content[row] == last[row]
        for place, row in enumerate(asked.rows):
            assert run.data[asked.starts[place] : asked.stops[place]] == bodies[row]
            assert asked.content[place] == content[row]
            assert asked.shapes[place] == SEVERAL or content[row] == last[row]
            assert asked.sizes[place] == sum(run.sizes[run.first[row] : last[row] + 1].tolist())
            assert asked.begins[place] == run.offsets[run.first[row]]


@given(run=message_runs())
def test_plain_text_is_printable_in_every_content_frame(run: MessageTable) -> None:
    content, last, _, known = contents(run, 1 << 20)
    plain = []
    for row in np.flatnonzero(known).tolist():
        frames = range(int(content[row]), int(last[row]) + 1)
        bodies = [body_of(run, frame) or b"" for frame in frames]
        if any(bodies) and all(body.isascii() and body.decode().isprintable() for body in bodies):
            plain.append(row)
            run.payloads, run.json, run.texts = None, None, np.ones(len(known), np.bool_)
            assert payload_of(run, row) == {
                "protocol": "text",
                "summary": dissected(Text, *bodies).summary,
                "fields": None,
            }
    for asked_rows in twins("zmtpscope.dissect.records.row_contents.asked_rows"):
        texts = asked_rows(run, SHAPES, Wanted(False, False, False, texts=True, json=False, limit=1 << 20)).texts
        assert ([] if texts is None else np.flatnonzero(texts).tolist()) == plain
