"""Text of events and peers does not command a terminal."""

from __future__ import annotations

import io
import json
import sys

import pytest

from broker.cli.event_format import as_document, as_json, as_payload, as_printable
from broker.cli.terminal import echo, json_line, make_console
from tests.cli.fake_node import received

#: Sets the title, clears the screen, and shows text reversed.
EVIL = "\x1b]0;x\x07\x7f\x9b2J\u202a\u202e\u2066\u2069\u200e\u200f\u061c"
FORBIDDEN = set(EVIL) - set("]0;x2J")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("form", [as_payload, as_document, as_json])
def test_no_form_of_an_event_commands_a_terminal(form: object) -> None:
    event = received(1, f"<flight><id>{EVIL[6:]}</id></flight>".encode())
    shown = as_printable(form)(event).decode()  # type: ignore[arg-type]
    assert not set(shown) & FORBIDDEN
    if form is not as_json:
        # A pipe gets the bytes.
        assert set(form(event).decode()) & FORBIDDEN  # type: ignore[operator]


def test_json_keeps_its_meaning_without_control_characters() -> None:
    line = json_line({"text": EVIL, EVIL: ["\U000e0041"]})
    assert json.loads(line) == {"text": EVIL, EVIL: ["\U000e0041"]}
    assert not set(line) & (FORBIDDEN | {"\U000e0041"})


def test_terminals_get_escaped_lines_and_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.table import Table

    monkeypatch.setattr(sys, "stdout", out := Terminal())
    echo(f"name {EVIL}")
    table = Table(EVIL)
    table.add_row(EVIL)
    console = make_console()
    console.no_color = True
    console.print(table)
    console.print(EVIL)
    text = out.getvalue()
    # rich itself may style a header.
    for own in ("\x1b[1m", "\x1b[0m"):
        text = text.replace(own, "")
    assert "name \\x1b]0;x" in text and not set(text) & FORBIDDEN
