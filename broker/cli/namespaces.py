"""The option `--namespace`, which binds a prefix of a query, or names without prefix."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from broker.matching.query.namespaces import DEFAULT

_F = TypeVar("_F", bound=Callable[..., Any])
_PREFIX = re.compile(r"[^\W\d][\w.-]*")
_COLON_FOR_EQUALS = re.compile(r"([^\W\d][\w.-]*):(\w+://.*)")


def namespace_option(command: _F) -> _F:
    """Give a command `--namespace`; it gets `namespaces`, prefix -> URI.

    A URI without prefix is that of the prefix "".
    """
    return click.option(
        "--namespace",
        "namespaces",
        callback=_parse_bindings,
        multiple=True,
        metavar="[p=]URI",
        help="Bind a prefix of the query, or without p= its element names without prefix; may be "
        "repeated.",
    )(command)


def _parse_bindings(
    _: click.Context, __: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    bindings: dict[str, str] = {}
    for value in values:
        prefix, uri = parse_binding(value)
        if bindings.setdefault(prefix, uri) != uri:
            name = f"the prefix {prefix!r}" if prefix else "the default namespace"
            raise click.BadParameter(f"{name} is given twice, with different URIs")
    return bindings


def parse_binding(value: str) -> tuple[str, str]:
    prefix, equals, uri = value.partition("=")
    if equals and uri and _PREFIX.fullmatch(prefix):
        return prefix, uri
    if (colon := _COLON_FOR_EQUALS.fullmatch(value)) is not None:
        raise click.BadParameter(
            f"{value!r}: write {'='.join(colon.groups())} to bind the prefix {colon[1]!r}"
        )
    if ":" not in value or not prefix:
        raise click.BadParameter(
            f"{value!r} is neither PREFIX=URI nor, for names without prefix, a URI such as "
            "http://example.org/feed or urn:example:feed"
        )
    return DEFAULT, value
