"""Effects of keys, rows and their order; no octet from the network moves the cursor."""

from __future__ import annotations

import pytest
from rich.console import Console

from zmtpscope.export.top.columns import LastMessage
from zmtpscope.export.top.counters import Counts
from zmtpscope.export.top.peers import Peer, Topic
from zmtpscope.export.top.rows import Row, name_of
from zmtpscope.export.top.table import help_table, scaled, table_of
from zmtpscope.export.top.view import COLUMNS as VIEW_COLUMNS
from zmtpscope.export.top.view import View

PUBLISHER = Peer(None, "10.0.0.1", 5556, "PUB")


def row(name: bytes | None, messages: int, octets: int = 0, value: bytes = b"v", subscribers: int | None = 1) -> Row:
    key = Topic(PUBLISHER, name) if name is not None else None
    counts = Counts(messages, octets, 0, 0, messages, 0)
    last = LastMessage(messages, name, ((value, len(value)),), 2, None)
    return Row(key, name_of(key, 7), counts, counts, 1.0, messages, subscribers, 0, last)


ROWS = [row(b"a", 5, 100), row(b"b", 9, 10), row(None, 99), row(b"c", 7, 1000)]


def names(view: View) -> list[str]:
    return [each.name for each in view.select(ROWS)]


def pressed(*keys: str) -> View:
    view = View()
    for key in keys:
        view.follow(view.select(ROWS))
        assert view.press(key, view.select(ROWS), 2)
    return view


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        ("", "bca"),
        ("m", "bca"),
        ("o", "cab"),
        ("O", "cab"),
        ("n", "abc"),
        ("nr", "cba"),
        ("r", "acb"),
        ("m>", "bca"),
        ("o<", "bca"),
        ('/"b\n', "b"),
        ('/"b\n\x1b', "bca"),
        ('/"b\x1b', "bca"),
        ('/"bx\b\n', "b"),
        ("/", "bca"),
        ('f"B', "b"),
        ("/5556\n", "bca"),
        ("/nothing\n", ""),
        ("jj\n", "abc"),
        ("jj\nj\n", "abc"),
        ("jj\njj\n", "acb"),
        ("jj\n\n", "bca"),
        ('j\n/"a\n', "ca"),
    ],
)
def test_keys_choose_what_is_shown(keys: str, shown: str) -> None:
    meanings = {"\n": "enter", "\x1b": "escape", "\b": "backspace"}
    view = pressed(*[meanings.get(key, key) for key in keys])
    others = [] if view.filter or view.typed else ["(7 others)"]
    assert names(view) == [f'"{letter}"' for letter in shown] + others


def test_keys_move_the_selected_row_within_the_rows() -> None:
    assert pressed("down", "j", "up").selected == 1
    assert pressed("page down").selected == 2
    assert pressed("end", "down").selected == 3
    assert pressed("end", "home").selected == 0
    assert pressed("up").selected == 0


def test_keys_for_kinds_pause_help_and_leaving() -> None:
    assert pressed("c").kind == "connection"
    assert pressed("p", "t").kind == "topic"
    assert pressed(" ").paused
    assert not pressed(" ", " ").paused
    assert pressed("h").help
    assert not pressed("?", "q").help
    assert pressed("/", "q").typed == "q"
    assert not View().press("q", [], 1)


def test_the_row_of_all_others_cannot_be_pinned() -> None:
    view = pressed("end", "enter")
    assert view.pinned == []


def test_every_column_can_be_sorted_by() -> None:
    for kind, columns in VIEW_COLUMNS.items():
        for column in columns:
            View(kind=kind, sort=column.name).select(ROWS)


def drawn(rows: list[Row], width: int | None) -> str:
    console = Console(width=width or 1000, highlight=False, markup=False, emoji=False, no_color=True)
    with console.capture() as captured:
        console.print(table_of(View(), rows, width))
    return captured.get()


HOSTILE = [
    b"\x1b[2Jgone",
    b"\x1b]0;title\x07",
    "\u202egpj.exe".encode(),
    b"a\r\nb\x9b1m",
    b"[red]markup[/] :smile:",
    b"\xff\xfe\x00",
    "\u200b\U000e0041".encode(),
]


@pytest.mark.parametrize("octets", HOSTILE)
@pytest.mark.parametrize("width", [None, 80, 200, 20, 1])
def test_nothing_from_the_network_reaches_the_terminal_unescaped(octets: bytes, width: int | None) -> None:
    text = drawn([row(octets, 3, value=octets)], width)
    assert all(line.isprintable() for line in text.split("\n"))
    if width is None and octets.startswith(b"[red]"):
        assert text.count("[red]markup[/] :smile:") == 2


@pytest.mark.parametrize("width", [20, 40, 80, 81, 120, 200])
def test_a_table_is_no_wider_than_the_terminal(width: int) -> None:
    rows = [row(b"prices." * size, 10**size, 10 ** (2 * size), b"value " * size) for size in range(9)]
    lines = drawn(rows, width).splitlines()
    assert len(lines) == len(rows) + 1
    assert max(map(len, lines)) <= width
    wide = drawn([row("\u4ef7\u683c".encode() * 30, 1)], width).splitlines()
    assert len(wide) == 2


def test_columns_give_way_to_names_the_less_important_first() -> None:
    def headings(width: int) -> list[str]:
        return drawn([row(b"n" * 20, 3)], width).splitlines()[0].split()

    assert headings(60) == ["TOPIC", "MSG/S", "OCTETS/S", "SUBS", "LAST", "VALUE"]
    assert "MESSAGES" in headings(80)
    assert "FROM" not in headings(80)
    assert "PARTS" in headings(200)


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (0.254, "0.25"), (9.96, "10"), (3.0, "3"), (9999, "9999"), (10_000, "10.0k"), (123_456, "123k")],
)
def test_numbers_are_short(number: float, text: str) -> None:
    assert scaled(number) == text


def test_help_names_every_letter_that_sorts() -> None:
    console = Console(width=100, no_color=True)
    with console.capture() as captured:
        console.print(help_table())
    letters = {column.letter for columns in VIEW_COLUMNS.values() for column in columns if column.letter}
    shown = {word for line in captured.get().splitlines() for word in line.split()}
    assert letters <= shown


def test_messages_without_a_topic_can_be_distinguished_in_80_columns() -> None:
    senders = [Peer(None, "127.0.0.1", 50_000 + number, "PUSH") for number in range(3)]
    rows = [row(b"market/europe/frankfurt/prices/ten", 9)]
    rows += [row(b"a", 1)._replace(key=Topic(sender, None), name="(no topic)") for sender in senders]
    lines = drawn(rows, 80).splitlines()
    assert "FROM" not in lines[0]
    for sender, line in zip(senders, lines[2:], strict=True):
        assert f"(no topic) of {sender} " in line
    assert "(no topic) of" not in drawn(rows, 132)
