"""The options `--split`, `--copy` and `--namespace`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast, get_args

import click

from broker.cli.namespaces import namespace_option
from broker.cli.publishing.ancestor_values import Copy, Field
from broker.cli.publishing.collection_splitter import Split
from broker.cli.publishing.split_path import StreamingPath, parse_split_path
from broker.errors import BadQuery

_F = TypeVar("_F", bound=Callable[..., Any])
#: Each costs time at each start tag.
_MAX_COPIES: Final = 16


_split = click.option(
    "--split",
    metavar="XPATH",
    help="Cut each document into events, one for each element of a path such as //cap:alert.",
)
_copy = click.option(
    "--copy",
    "copies",
    multiple=True,
    metavar="FIELD=PATH",
    help="With --split: copy a value of the collection, such as summary=/feed/title or "
    "application-type=/feed/@kind, into each event's envelope; may be repeated.",
)


def split_options(command: _F) -> _F:
    """Give a command `--split` and its companions; it gets `split` and `namespaces`."""
    return namespace_option(_copy(_split(_parse_options(command))))


def split_option(command: _F) -> _F:
    """Give a command `--split` without copies; it gets `split`."""

    @functools.wraps(command)
    def without_namespaces(*args: Any, namespaces: dict[str, str], **rest: Any) -> Any:
        if namespaces and rest["split"] is None:
            raise click.UsageError("--namespace needs --split")
        return command(*args, **rest)

    return namespace_option(_split(_parse_options(without_namespaces)))  # type: ignore[return-value]


def _parse_options(command: _F) -> _F:
    @functools.wraps(command)
    def with_split(
        *args: Any,
        split: str | None,
        namespaces: dict[str, str],
        copies: tuple[str, ...] = (),
        **rest: Any,
    ) -> Any:
        parsed = parse_split(split, copies, namespaces)
        return command(*args, split=parsed, namespaces=namespaces, **rest)

    return with_split  # type: ignore[return-value]


def parse_split(
    text: str | None, copies: tuple[str, ...], namespaces: Mapping[str, str]
) -> Split | None:
    if text is None:
        if copies:
            raise click.UsageError("--copy needs --split")
        return None
    path = _parse_path("--split", text, namespaces)
    if len(copies) > _MAX_COPIES:
        raise click.UsageError(f"--copy is given {len(copies)} times, at most {_MAX_COPIES} work")
    parsed = tuple(_parse_copy(each, namespaces) for each in copies)
    if [copy.field for copy in parsed].count("summary") > 1:
        raise click.UsageError("--copy summary=PATH is given twice: an envelope has one summary")
    return Split(path, parsed)


def _parse_copy(text: str, namespaces: Mapping[str, str]) -> Copy:
    field, equals, path = text.partition("=")
    if field not in get_args(Field) or not equals:
        raise click.UsageError(
            f"--copy {text}: give summary=PATH or application-type=PATH, such as "
            "summary=/feed/title"
        )
    return Copy(cast(Field, field), _parse_path("--copy", path, namespaces, allow_attribute=True))


def _parse_path(
    option: str, text: str, namespaces: Mapping[str, str], *, allow_attribute: bool = False
) -> StreamingPath:
    try:
        return parse_split_path(text, namespaces, allow_attribute=allow_attribute)
    except ValueError as error:
        raise click.UsageError(f"{option} {text}: {error}") from None
    except BadQuery as error:
        raise click.UsageError(f"{option} {text}: {error.text}") from None
