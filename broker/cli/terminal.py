"""What is printed where: for people on a terminal, JSON lines in a pipe (DESIGN 9)."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from rich.console import Console

# Control characters could command the terminal; XML lets C1 controls and DEL pass.
_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """The text with every control character but tab and newline written as an escape."""
    return _UNPRINTABLE.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def one_line(text: str) -> str:
    """`printable`, and on one line: for names of files and reasons."""
    return printable(" ".join(text.split()))


def json_line(content: Any) -> str:
    """The content as one line of JSON."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def print_note(text: str) -> None:
    """One line on stderr, beside what the command prints."""
    click.echo(one_line(text), err=True)


def is_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout.isatty()


def make_console(*, err: bool = False) -> Console:
    """A rich console on stdout or stderr."""
    from rich.console import Console

    return Console(stderr=err, highlight=False, markup=False)
