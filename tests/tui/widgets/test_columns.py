"""The layout of columns."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zmtpscope.tui.requests import Sort, TableColumn
from zmtpscope.tui.widgets.columns import fitted, lay_out, next_sort, scaled_plot, width_of

COLUMNS = (
    TableColumn("time", "time", is_number=True, width=12),
    TableColumn("from", "from", width=20, rank=2, is_name=True),
    TableColumn("topic", "topic", width=20, is_name=True),
    TableColumn("size", "size", is_number=True, width=8, rank=1),
    TableColumn("payload", "payload"),
)
WIDTHS = [column.width for column in COLUMNS]


def names(width: int) -> list[str]:
    return [COLUMNS[slot.column].name for slot in lay_out(COLUMNS, WIDTHS, width)]


def test_columns_with_the_highest_rank_are_hidden_first() -> None:
    assert names(200) == ["time", "from", "topic", "size", "payload"]
    assert names(80) == ["time", "topic", "size", "payload"]
    assert names(60) == ["time", "topic", "payload"]


def test_a_hidden_column_is_shown_if_a_wider_one_has_no_room() -> None:
    columns = (
        TableColumn("peer", "peer", is_name=True),
        TableColumn("messages", "messages", is_number=True, rank=2),
        TableColumn("finding", "finding", is_name=True, rank=1),
        TableColumn("ended", "ended"),
    )
    shown = lay_out(columns, [30, 8, 40, 16], 60)
    assert [columns[slot.column].name for slot in shown] == ["peer", "messages", "ended"]


@pytest.mark.parametrize(
    ("width", "slots"),
    [
        (120, "conn 4, peer 30, value 40, size 8, ended 30"),
        (96, "conn 4, peer 30, value 30, size 8, ended 16"),
        (80, "conn 4, peer 30, value 24, ended 16"),
        (72, "conn 4, peer 30, value 16, ended 16"),
        (60, "conn 4, peer 18, value 16, ended 16"),
    ],
)
def test_names_are_narrowed_last(width: int, slots: str) -> None:
    columns = (
        TableColumn("conn", "conn", is_number=True),
        TableColumn("peer", "peer", is_name=True),
        TableColumn("value", "value"),
        TableColumn("size", "size", is_number=True, rank=1),
        TableColumn("ended", "ended"),
    )
    shown = lay_out(columns, [4, 30, 40, 8, 18], width)
    assert ", ".join(f"{columns[slot.column].name} {slot.width}" for slot in shown) == slots


@pytest.mark.parametrize(
    ("plot", "width", "shown"),
    [
        ("··██┃·██", 8, "··██┃·██"),
        ("··██┃·██", 4, "·█┃█"),
        ("████████···┃", 4, "███┃"),
        ("▁▂▃▄▅▆▇█·", 3, "▃▆█"),
        ("███     ", 4, "██  "),
    ],
)
def test_plots_are_scaled_and_keep_ends_and_peaks(plot: str, width: int, shown: str) -> None:
    assert scaled_plot(plot, width) == shown


def test_the_last_column_takes_the_rest() -> None:
    assert lay_out(COLUMNS, WIDTHS, 200)[-1].stop == 200


@given(st.integers(0, 250))
def test_columns_stand_side_by_side_within_the_width(width: int) -> None:
    slots = lay_out(COLUMNS, WIDTHS, width)
    assert all(left.stop < right.start for left, right in itertools.pairwise(slots))
    assert all(slot.stop <= width for slot in slots)


@given(st.text(st.sampled_from("ab ü漢🎉é"), max_size=30), st.integers(1, 20), st.booleans(), st.integers(0, 5))
def test_texts_take_exactly_the_cells_that_they_are_given(text: str, width: int, is_number: bool, skip: int) -> None:
    assert width_of(fitted(text, width, is_number, skip)) == width


def test_a_cut_text_has_marks_at_both_ends() -> None:
    assert fitted("0123456789", 6) == "01234…"
    assert fitted("0123456789", 6, skip=2) == "…3456…"
    assert fitted("0123456789", 12, skip=2) == "…3456789    "


def test_choosing_a_column_again_reverses_the_order() -> None:
    assert next_sort(COLUMNS[3], None) == Sort("size", descending=True)
    assert next_sort(COLUMNS[3], Sort("size", descending=True)) == Sort("size")
    assert next_sort(COLUMNS[2], Sort("size")) == Sort("topic")
