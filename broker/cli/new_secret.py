"""A new secret from the terminal or a pipe."""

from __future__ import annotations

import sys

import click

from broker.cli.failure import Failure


def hash_new_secret() -> str:
    """Ask for a secret twice, or read the first line of a pipe, and return its hash."""
    from broker.identity.secret import hash_secret

    if sys.stdin.isatty():
        secret = click.prompt("Secret", hide_input=True, confirmation_prompt=True, err=True)
    else:
        secret = sys.stdin.readline().rstrip("\r\n")
    try:
        return hash_secret(secret)
    except ValueError as error:
        raise Failure(str(error)) from None
