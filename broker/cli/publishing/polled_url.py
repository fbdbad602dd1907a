"""Documents of addresses that are fetched again and again."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import IO

import attrs

from broker.cli.publishing.document_reader import Item
from broker.cli.publishing.http_fetch import Answer, FetchError, Validators
from broker.cli.publishing.publication import PortionEnd, Refusal, SourceLocation
from broker.cli.publishing.published_table import PublishedTable, table_key
from broker.config.units import format_duration


@attrs.define
class UrlPoll:
    """The option `--every`."""

    urls: tuple[str, ...]
    interval: float
    """Seconds from the beginning of a round to the next, or more if a round takes longer."""
    read_body: Callable[[str, IO[bytes]], Iterable[Item]]
    fetch: Callable[[str, Validators], Answer]
    table: PublishedTable
    """Has the state of each address after its last answer."""
    wait: Callable[[float], bool]
    """Blocks for so many seconds; returns True if the polling is to end."""
    clock: Callable[[], float]
    """Monotonic time in seconds."""
    options: bytes = b""
    """Digest of the options by which a document becomes events."""
    _known: dict[str, Validators] = attrs.field(factory=dict)

    def read(self) -> Generator[Item | PortionEnd, None, None]:
        while True:
            began = self.clock()
            for url in self.urls:
                yield from self._read_url(url)
            if self.wait(max(0.0, began + self.interval - self.clock())):
                return

    def _read_url(self, url: str) -> Iterator[Item | PortionEnd]:
        key = table_key("url", url, self.options)
        stored = self.table.find(key)
        known = self._known.get(url) or _decode(stored or b"")
        try:
            answer = self.fetch(url, known)
        except FetchError as error:
            again = f"tried again in {format_duration(self.interval)}"
            yield Refusal(SourceLocation(url, 0), f"can not be fetched: {error}; {again}")
            yield PortionEnd(None)
            return
        if answer.body is not None:
            with answer.body as body:
                yield from self.read_body(url, body)
            yield PortionEnd(key, _encode(answer.validators))
        # Only now: if the reading is cancelled, the next process fetches it again.
        self._known[url] = answer.validators


def _encode(validators: Validators) -> bytes:
    return json.dumps(attrs.asdict(validators)).encode()


def _decode(value: bytes) -> Validators:
    try:
        fields = json.loads(value)
        return Validators(*(str(fields[each.name]) for each in attrs.fields(Validators)))
    except (ValueError, LookupError, TypeError):
        return Validators()
