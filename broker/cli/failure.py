"""How a command ends when it can not do what it was asked: one line that says what to do."""

from __future__ import annotations

import sys
from typing import IO, Any, Final

import click

from broker.errors import (
    AuthenticationFailed,
    BadName,
    BadPosition,
    BadQuery,
    BrokerError,
    ConfigurationError,
    GaveUp,
    IncarnationRefused,
    NotAllowed,
    QueryTooExpensive,
    SessionSuperseded,
    TooManySessions,
    UnknownSubscription,
    VersionMismatch,
)

#: What to do, by the error's class; the first that fits.
_ADVICE: Final[tuple[tuple[type[BrokerError], str], ...]] = (
    (GaveUp, "start a node with `twistd -n xmlbroker`, or name another one with --node"),
    (AuthenticationFailed, "give --account and --secret-file as the node's configuration has them"),
    (IncarnationRefused, "another process uses this client id: give another --client-id"),
    (SessionSuperseded, "another process took this client id over: give another --client-id"),
    (NotAllowed, "ask whoever keeps the node to give the account that right"),
    (TooManySessions, "end another session first"),
    (VersionMismatch, "install the same version here and at the node"),
    (QueryTooExpensive, "make the query simpler, or raise [query] of the node's configuration"),
    (BadQuery, "mend the query; a prefix is bound with --namespace p=URI"),
    (BadPosition, "begin at a time, or at a position that this node gave"),
    (UnknownSubscription, "ask the node where that client was last, or name another client"),
    (BadName, "see the grammar of names in docs/cli.md"),
    (ConfigurationError, "`xmlbroker config --explain` shows every setting"),
)


class Failure(click.ClickException):
    """Ends the command with `xmlbroker: MESSAGE` on stderr and exit status 1."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line."""
        click.echo(f"xmlbroker: {self.format_message()}", file=file or sys.stderr)


def failure_of(error: BrokerError) -> Failure:
    """The failure that an error of ours or of the node is: what happened, and what to do."""
    for kind, advice in _ADVICE:
        if isinstance(error, kind):
            return Failure(f"{error}; {advice}")
    return Failure(str(error))
