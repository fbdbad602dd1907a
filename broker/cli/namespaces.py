"""The option `--namespace`, which binds a prefix of a query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])


def namespace_option(command: _F) -> _F:
    """Give a command `--namespace`; it gets `namespaces`, prefix -> URI."""
    return click.option(
        "--namespace",
        "namespaces",
        callback=_parse_bindings,
        multiple=True,
        metavar="p=URI",
        help="Bind a prefix of the query; may be repeated.",
    )(command)


def _parse_bindings(
    _: click.Context, __: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    bindings = {}
    for value in values:
        prefix, _equals, uri = value.partition("=")
        if not (prefix and uri):
            raise click.BadParameter(f"{value!r} is not PREFIX=URI")
        bindings[prefix] = uri
    return bindings
