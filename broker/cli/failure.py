"""Failures of a command: one line with the cause and the next step."""

from __future__ import annotations

import re
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
    (BadQuery, "correct the query"),
    (BadPosition, "begin at a time, or at a position from this node"),
    (
        UnknownSubscription,
        "`xmlbroker durable list` lists those of this node; the client's last node may have it",
    ),
    (BadName, "see the grammar of names in docs/cli.md"),
    (ConfigurationError, "`xmlbroker config --explain` shows every setting"),
)
_UNBOUND: Final = re.compile("the prefix '([^']+)' is not bound")


class Failure(click.ClickException):
    """Ends the command with `xmlbroker: MESSAGE` on stderr and exit status 1."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        echo(f"xmlbroker: {self.format_message()}", file=file or sys.stderr)


def failure_of(error: BrokerError) -> Failure:
    if isinstance(error, BadQuery):
        if "'' can not be bound" in error.text:
            return Failure("the node's version has no default namespace: bind a prefix")
        if (unbound := _UNBOUND.search(error.text)) is not None:
            return Failure(f"{error}: --namespace {unbound[1]}=URI")
        if "there is no function" in error.text:
            return Failure(f"{error}; use its functions, such as contains() and starts-with()")
        if "the end of the query" in error.text:
            return Failure(f"{error}; quote the whole query: a shell takes > and blanks for itself")
    for kind, advice in _ADVICE:
        if isinstance(error, kind):
            return Failure(f"{error}; {advice}")
    return Failure(str(error))
