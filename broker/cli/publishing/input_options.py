"""The options `--watch` and `--every` of `pub`, and the reading of its sources by them."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import attrs
import click

from broker.cli.publishing.collection_splitter import Split
from broker.cli.publishing.document_reader import Item, read_all, read_opened
from broker.cli.publishing.http_fetch import check_url, fetch
from broker.cli.publishing.polled_url import UrlPoll
from broker.cli.publishing.preparation import Preparation
from broker.cli.publishing.publication import PortionEnd
from broker.cli.publishing.published_table import PublishedTable
from broker.cli.publishing.source import ByteBound, open_stream
from broker.cli.publishing.watched_folder import FolderWatch
from broker.cli.standard_input import open_stdin
from broker.config.units import parse_duration

#: Bytes of one answer, unpacked.
MAX_UNPACKED: Final = 4 << 30
_MIN_INTERVAL: Final = 1.0
_MAX_INTERVAL: Final = 7 * 86400.0

_F = TypeVar("_F", bound=Callable[..., Any])


@attrs.frozen
class InputOptions:
    watch: bool = False
    every: float | None = None

    @property
    def is_repeated(self) -> bool:
        return self.watch or self.every is not None

    def find_names(self, sources: tuple[str, ...]) -> tuple[str, ...]:
        """Return the sources of a repeated input, whatever the working folder; else nothing."""
        if self.watch:
            return tuple(str(Path(source).absolute()) for source in sources)
        return sources if self.every is not None else ()

    def check_sources(
        self, sources: tuple[str, ...], *, dry_run: bool = False, folders_exist: bool = True
    ) -> None:
        """`folders_exist` is False if missing folders may appear later.

        Raises `click.UsageError`.
        """
        if self.watch and self.every is not None:
            raise click.UsageError("--watch and --every exclude each other")
        if self.is_repeated and dry_run:
            raise click.UsageError("--dry-run excludes --watch and --every")
        for source in sources:
            if self.watch and folders_exist and not Path(source).is_dir():
                raise click.UsageError(f"--watch: {source} is not a folder")
            if self.every is not None:
                try:
                    check_url(source)
                except ValueError as error:
                    raise click.UsageError(f"--every: {source}: {error}") from None
            elif source.startswith(("http://", "https://")):
                raise click.UsageError(f"{source}: give --every 60s to fetch it")

    def read_sources(
        self,
        sources: tuple[str, ...],
        preparation: Preparation,
        split: Split | None,
        table: PublishedTable | None,
        stopped: threading.Event,
        digest: bytes,
    ) -> Generator[Item | PortionEnd, None, None]:
        """Read the sources until `stopped`; `digest` is that of the other options.

        A repeated input needs a `table`.
        """
        if table is None or not self.is_repeated:
            return read_all(sources, open_stdin, preparation, split)
        if self.watch:
            return FolderWatch(
                folders=tuple(map(Path, self.find_names(sources))),
                read_file=lambda path: read_all((path,), open_stdin, preparation, split),
                table=table,
                wait=stopped.wait,
                options=digest,
            ).read()

        def read_body(url: str, body: IO[bytes]) -> Generator[Item, None, None]:
            opened = open_stream(url, body, ByteBound(MAX_UNPACKED))
            return read_opened(opened, preparation, split)

        return UrlPoll(
            urls=sources,
            interval=self.every or _MIN_INTERVAL,
            read_body=read_body,
            fetch=fetch,
            table=table,
            wait=stopped.wait,
            clock=time.monotonic,
            options=digest,
        ).read()


def check_content_options(
    *,
    split: bool,
    namespaces: Mapping[str, str],
    expressions: Sequence[object],
    json_payload: bool,
) -> None:
    """Check options about the documents that exclude or need each other.

    `expressions` has the values of `--id` and `--time`, or None. Raises `click.UsageError`.
    """
    if json_payload and split:
        raise click.UsageError("--split cuts XML, and --json-payload takes JSON")
    if namespaces and not split and not any(expressions):
        raise click.UsageError("--namespace needs --split, --id or --time")


def input_options(command: _F) -> _F:
    """Give a command `--watch` and `--every`; it gets `input_`, an `InputOptions`."""

    @functools.wraps(command)
    def with_input(*args: Any, watch: bool, every: float | None, **rest: Any) -> Any:
        return command(*args, input_=InputOptions(watch, every), **rest)

    for option in (
        click.option(
            "--every",
            callback=_parse_interval,
            metavar="DURATION",
            help="Each SOURCE is an address, such as https://example.org/feed.atom: fetch it at "
            "this interval, such as 60s, until Ctrl-C.",
        ),
        click.option(
            "--watch",
            is_flag=True,
            help="Each SOURCE is a folder: publish its files as they appear, until Ctrl-C.",
        ),
    ):
        with_input = option(with_input)
    return with_input  # type: ignore[return-value]


def _parse_interval(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    try:
        interval = parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r}: {error}") from None
    if not _MIN_INTERVAL <= interval <= _MAX_INTERVAL:
        raise click.BadParameter(f"{value!r} is not from 1s to 7d")
    return interval
