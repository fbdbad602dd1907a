"""Failures of a command: one line with the cause and the next step."""

from __future__ import annotations

import sys
from typing import IO, Any, Final

import click

from broker.cli.terminal import echo
from broker.errors import (
    AuthenticationFailed,
    BadName,
    BadPosition,
    BadQuery,
    BrokerError,
    CleartextForbidden,
    ConfigurationError,
    GaveUp,
    IncarnationAhead,
    IncarnationRefused,
    NotAllowed,
    QueryTooExpensive,
    SessionSuperseded,
    TooManySessions,
    UnknownSubscription,
    VersionMismatch,
)

#: The first match applies.
_ADVICE: Final[tuple[tuple[type[BrokerError], str], ...]] = (
    (GaveUp, "start a node with `twistd -n xmlbroker`, or give another --node"),
    (
        AuthenticationFailed,
        "give --account and --secret-file as in the node's configuration, or --cert, --token-file",
    ),
    (IncarnationAhead, "correct the clock of this machine or of the node"),
    (CleartextForbidden, "give a tls: endpoint, or --allow-cleartext on a trusted network"),
    (IncarnationRefused, "another process uses this client id: give another --client-id"),
    (SessionSuperseded, "another process took this client id over: give another --client-id"),
    (NotAllowed, "ask the node's administrator to give the account that right"),
    (TooManySessions, "end another session first"),
    (VersionMismatch, "install the same version here and at the node"),
    (QueryTooExpensive, "simplify the query, or raise [query] in the node's configuration"),
    (BadQuery, "correct the query; bind a prefix with --namespace p=URI"),
    (BadPosition, "begin at a time, or at a position from this node"),
    (UnknownSubscription, "ask the client's last node, or name another client"),
    (BadName, "see the grammar of names in docs/cli.md"),
    (ConfigurationError, "`xmlbroker config --explain` shows every setting"),
)


class Failure(click.ClickException):
    """Ends the command with `xmlbroker: MESSAGE` on stderr and exit status 1."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        echo(f"xmlbroker: {self.format_message()}", file=file or sys.stderr)


def failure_of(error: BrokerError) -> Failure:
    for kind, advice in _ADVICE:
        if isinstance(error, kind):
            return Failure(f"{error}; {advice}")
    return Failure(str(error))
