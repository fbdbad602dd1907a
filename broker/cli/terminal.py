"""Text on a terminal, JSON lines in a pipe (DESIGN 9)."""

from __future__ import annotations

import json
import sys
from typing import IO, TYPE_CHECKING, Any

import click

from broker.printable import escape_in_json, printable

if TYPE_CHECKING:
    from rich.console import Console


def one_line(text: str) -> str:
    """Return one printable line, for file names and reasons."""
    return printable(" ".join(text.split()))


def json_line(content: Any) -> str:
    return escape_in_json(json.dumps(content, ensure_ascii=False, separators=(",", ":")))


def echo(
    message: object = "", file: IO[Any] | None = None, nl: bool = True, err: bool = False
) -> None:
    """Print a text, on a terminal without its control characters; bytes as they are."""
    stream = file or (sys.stderr if err else sys.stdout)
    text = printable(message) if isinstance(message, str) and stream.isatty() else message
    click.echo(text, file=file, nl=nl, err=err)


def print_note(text: str) -> None:
    click.echo(one_line(text), err=True)


def is_terminal() -> bool:
    return sys.stdout.isatty()


def make_console(*, err: bool = False) -> Console:
    from rich.console import Console

    class EscapingConsole(Console):
        def render_str(self, text: str, **options: Any) -> Any:
            return super().render_str(printable(text), **options)

    return EscapingConsole(stderr=err, highlight=False, markup=False)
