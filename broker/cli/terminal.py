"""Text on a terminal, JSON lines in a pipe (DESIGN 9)."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from rich.console import Console

# Control characters could command the terminal; XML allows C1 controls and DEL. The others are
# invisible, and could reorder or hide text. Surrogates can not be written.
_UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)


def printable(text: str) -> str:
    """Escape control and invisible characters, but tab and newline."""
    return _UNPRINTABLE.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def one_line(text: str) -> str:
    """Return one printable line, for file names and reasons."""
    return printable(" ".join(text.split()))


def json_line(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def print_note(text: str) -> None:
    click.echo(one_line(text), err=True)


def is_terminal() -> bool:
    return sys.stdout.isatty()


def make_console(*, err: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=err, highlight=False, markup=False)
