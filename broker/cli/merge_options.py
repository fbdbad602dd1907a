"""The options `--merge`, `--merge-order` and `--merge-wait` of `sub`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from broker.client.merged import Merging
from broker.errors import ConfigurationError

_F = TypeVar("_F", bound=Callable[..., Any])

_DEFAULT_WAIT = Merging().wait


def merge_options(command: _F) -> _F:
    """Give a command `--merge` and its companions; it gets `merge`, a `Merging` or None."""

    @functools.wraps(command)
    def with_merge(
        *args: Any,
        merge: str | None,
        merge_order: str | None,
        merge_wait: float | None,
        **rest: Any,
    ) -> Any:
        return command(*args, merge=_parse_merging(merge, merge_order, merge_wait), **rest)

    for option in (
        click.option(
            "--merge-wait",
            type=click.FloatRange(min=0),
            metavar="SECONDS",
            help=f"How long to wait for earlier events.  [default: {_DEFAULT_WAIT:g}]",
        ),
        click.option(
            "--merge-order",
            metavar="STREAM,...",
            help="Order of concurrent events, by stream; bundle:ID names a bundle.",
        ),
        click.option(
            "--merge",
            metavar="HOW",
            help="Merge the streams: 'linked' (by event linkage), 'time', 'time within 250ms', "
            "'time window 2s' or 'bundle'.",
        ),
    ):
        with_merge = option(with_merge)
    return with_merge  # type: ignore[return-value]


def _parse_merging(how: str | None, order: str | None, wait: float | None) -> Merging | None:
    if how is None:
        if order is not None or wait is not None:
            raise click.UsageError("--merge-order and --merge-wait need --merge")
        return None
    try:
        return Merging.by(
            how,
            [] if order is None else order.split(","),
            wait=_DEFAULT_WAIT if wait is None else wait,
        )
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from None
