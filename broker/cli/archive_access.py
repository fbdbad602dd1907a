"""Argument types of `xmlbroker archive`, and access to the archive that an argument names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from broker.cli.failure import Failure
from broker.config.units import parse_duration, parse_size
from broker.private_files import PRIVATE_UMASK, use_umask

if TYPE_CHECKING:
    from broker.archive.archive import Archive


class _Quantity(click.ParamType[int]):
    def __init__(self, name: str, parse: Callable[[str], int]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return self._parse(str(value))
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)


#: Milliseconds.
duration_type = _Quantity("duration", lambda text: round(parse_duration(text) * 1000))
#: Bytes.
size_type = _Quantity("size", parse_size)


def open_archive(where: str) -> Archive:
    """Open an existing archive by URI, path, or a node's configuration."""
    from broker.archive.archive import Archive

    uri = _configured_uri(Path(where)) if where.endswith(".toml") and "://" not in where else where
    if Path(uri).is_dir():
        # What a command writes is open to the same users.
        use_umask(PRIVATE_UMASK & ~Path(uri).stat().st_mode)
    return Archive.open(uri, create=False)


def _configured_uri(file: Path) -> str:
    from broker.config import load

    settings = load(file)
    uri = settings.archive.uri(settings.node.data)
    if not uri:
        raise Failure(f"{file} has no archive: archive.enabled is false")
    return uri
