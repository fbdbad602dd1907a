"""Keys of events for a queue that coalesces."""

from __future__ import annotations

from collections.abc import Callable

import msgpack

from broker.log.logged_event import LoggedEvent, header_from_fields
from broker.matching.payload_key import compile_key_path
from broker.streams.queue_policy import Coalesce, IQueuePolicy


def make_key_reader(policy: IQueuePolicy) -> Callable[[LoggedEvent], str | None]:
    """Return a function from an event to its key; None without one, or for another policy."""
    if not isinstance(policy, Coalesce):
        return _read_nothing
    if not policy.path:
        return _read_stream
    read_path = compile_key_path(policy.path, dict(policy.namespaces))
    return lambda event: read_path(event.document) or None


def _read_nothing(event: LoggedEvent) -> None:
    return None


def _read_stream(event: LoggedEvent) -> str | None:
    return header_from_fields(msgpack.unpackb(event.record, use_list=False)).stream
