"""The options `--id`, `--changed`, `--published` and `--published-max` of `pub`."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs
import click

from broker.cli.publishing.publication_key import KeyRule, parse_key_rule
from broker.cli.publishing.published_table import DEFAULT_ENTRIES, PublishedTable
from broker.errors import BadQuery

_F = TypeVar("_F", bound=Callable[..., Any])
#: Characters of a table's default name, before its hash.
_MAX_LABEL: Final = 40
_NOT_IN_LABEL = re.compile(r"[^A-Za-z0-9]+")


@attrs.frozen
class KeyOptions:
    id: str | None = None
    changed: bool = False
    published: Path | None = None
    most: int | None = None

    def parse_rule(self, namespaces: Mapping[str, str]) -> KeyRule | None:
        if self.id is None:
            if self.changed:
                raise click.UsageError("--changed needs --id")
            return None
        try:
            return parse_key_rule(self.id, namespaces, with_content=self.changed)
        except BadQuery as error:
            raise click.UsageError(f"--id {self.id}: {error.text}") from None

    def open_table(self, label: str, description: Mapping[str, Any]) -> PublishedTable:
        """Open the table of an input; its default name has the label and the description's hash.

        Raises `TableUnavailable`.
        """
        path = self.published or _default_path(label, description)
        return PublishedTable(path, self.most or DEFAULT_ENTRIES)


def key_options(command: _F) -> _F:
    """Give a command `--id` and its companions; it gets `keys`, a `KeyOptions`."""

    @functools.wraps(command)
    def with_keys(
        *args: Any,
        id_: str | None,
        changed: bool,
        published: Path | None,
        published_max: int | None,
        **rest: Any,
    ) -> Any:
        keys = KeyOptions(id_, changed, published, published_max)
        return command(*args, keys=keys, **rest)

    for option in (
        click.option(
            "--published-max",
            type=click.IntRange(min=1),
            metavar="N",
            help="Entries of that table; beyond them the longest unused ones go.  "
            f"[default: {DEFAULT_ENTRIES}]",
        ),
        click.option(
            "--published",
            type=click.Path(path_type=Path, dir_okay=False),
            metavar="FILE",
            help="The table of what was published.  "
            "[default: a file for this input in ~/.local/state/xmlbroker]",
        ),
        click.option(
            "--changed",
            is_flag=True,
            help="With --id: publish an event with a known id again if its content is new.",
        ),
        click.option(
            "--id",
            "id_",
            metavar="XPATH",
            help="Publish each event once, also in later runs: the value of this expression in its "
            "payload identifies it.",
        ),
    ):
        with_keys = option(with_keys)
    return with_keys  # type: ignore[return-value]


def _default_path(label: str, description: Mapping[str, Any]) -> Path:
    digest = blake2b(json.dumps(description, sort_keys=True).encode(), digest_size=6).hexdigest()
    # The query of an address may have a secret.
    label = _NOT_IN_LABEL.sub("-", label.partition("?")[0]).strip("-")[:_MAX_LABEL].strip("-")
    return _state_folder() / "published" / f"{label or 'input'}-{digest}.db"


def _state_folder() -> Path:
    # A relative path is invalid there.
    configured = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(configured):
        return Path(configured, "xmlbroker")
    try:
        return Path.home() / ".local" / "state" / "xmlbroker"
    except RuntimeError:
        raise click.UsageError("there is no home folder: give --published FILE") from None
