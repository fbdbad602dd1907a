from __future__ import annotations

import pytest

from broker.cli.chat_room.line_editor import Key, LineEditor
from broker.cli.chat_room.message import MAX_TEXT


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("hello\r", ["hello"]),
        ("a\x7fb\x08c\n", ["c"]),
        ("one two\x17three\r", ["onethree"]),
        ("all\x15new\r", ["new"]),
        ("\t\x1b[5~\x1b[6~\x0c\x04", [Key.NEXT_ROOM, Key.UP, Key.DOWN, Key.REDRAW, Key.END]),
        ("x\x04\r", ["x"]),
        ("a\x1b[A\x1b[200~b\x1bOPc\r", ["abc"]),
        ("a\x1b\x9b\x00b\r", ["ab"]),
        ("a\u202eb\r", [""]),
        ("é日本\r\r", ["é日本", ""]),
    ],
)
def test_keys_make_lines(typed: str, expected: list[str | Key]) -> None:
    assert LineEditor().feed(typed) == expected
    # In pieces they do the same, but for a text in one piece with what is not printable.
    if "\u202e" not in typed:
        editor = LineEditor()
        assert [each for one in typed for each in editor.feed(one)] == expected


def test_a_line_is_bounded() -> None:
    editor = LineEditor()
    for _ in range(10):
        editor.feed("x" * 1_000)
    assert len(editor.line) == MAX_TEXT
    editor.feed("\x1b[" + "9" * 1_000)
    assert editor.feed("\r") != []
