"""Options and output of the commands `xmlbroker dtd`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from broker.cli.failure import Failure
from broker.cli.terminal import echo

_F = TypeVar("_F", bound=Callable[..., Any])


def type_options(*, required: bool = False) -> Callable[[_F], _F]:
    """Give a command `type_` and `version`; without them the file gives the type."""
    default = (
        ""
        if required
        else "  [default: from the file's name, such as flight-1.1.dtd, or its first comment]"
    )

    def decorate(command: _F) -> _F:
        named = click.option(
            "--type", "type_", metavar="NAME", required=required, help=f"The event type.{default}"
        )
        versioned = click.option(
            "--version", metavar="VERSION", required=required, help=f"Its version.{default}"
        )
        return named(versioned(command))

    return decorate


def write_output(text: str) -> None:
    """Print a DTD. Raises `Failure` on a full disk."""
    try:
        echo(text, nl=False)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Failure(f"the DTD can not be written: {error.strerror}") from None
