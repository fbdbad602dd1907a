"""Hints for arguments that a new user takes for a query."""

from __future__ import annotations

import click

from broker.errors import BadName
from broker.event.stream import StreamPattern


def check_single_query(extra: list[str], query: str) -> None:
    """Raise `click.UsageError` if a shell has split the query into several arguments."""
    if extra:
        whole = " ".join((query, *extra))
        raise click.UsageError(f"a query is one argument: quote it, as in '{whole}'")


def hint_at_streams(query: str) -> str:
    """Return a hint for a query that looks like the name or pattern of streams; else empty."""
    try:
        StreamPattern.parse(query)
    except BadName:
        return ""
    if "." not in query:
        return ""
    return f"{query!r} is a query; --streams '{query}' names streams"
