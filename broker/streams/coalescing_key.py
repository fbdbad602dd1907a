"""Keys of events for a queue that coalesces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgpack

from broker.log.logged_event import LoggedEvent, header_from_fields
from broker.matching.payload_key import compile_key_path
from broker.streams.queue_policy import Coalesce, IQueuePolicy

#: Bytes; the event of a larger document has no key. Parsing takes time on the reactor's thread.
MAX_KEY_DOCUMENT: Final = 64 * 1024


def make_key_reader(policy: IQueuePolicy) -> Callable[[LoggedEvent], str | None]:
    """Return a function from an event to its key; None without one, or for another policy."""
    if not isinstance(policy, Coalesce):
        return _read_nothing
    if not policy.path:
        return _read_stream
    read_path = compile_key_path(policy.path, dict(policy.namespaces))

    def read_key(event: LoggedEvent) -> str | None:
        is_short = len(event.document) <= MAX_KEY_DOCUMENT
        return (read_path(event.document) or None) if is_short else None

    return read_key


def _read_nothing(event: LoggedEvent) -> None:
    return None


def _read_stream(event: LoggedEvent) -> str | None:
    return header_from_fields(msgpack.unpackb(event.record, use_list=False)).stream
