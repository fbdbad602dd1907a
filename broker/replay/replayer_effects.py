"""What the core of the replay process wants done."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from broker.errors import BrokerError
from broker.replay.replayer_messages import Message
from broker.replay.request import ReplayRequest


@attrs.frozen
class Send:
    """To the node at this connection."""

    connection: int
    message: Message


@attrs.frozen
class Drop:
    """Close a connection whose other end broke a rule."""

    connection: int
    error: BrokerError


@attrs.frozen
class StartJob:
    """Run these requests together; afterwards `job_done` or `job_failed` is called."""

    job: int
    requests: tuple[ReplayRequest, ...]


@attrs.frozen
class CancelJob:
    """Nobody waits for the running job any more; `job_failed` is called all the same."""

    job: int


@attrs.frozen
class ReadPage:
    """Read events of a request from a spool; afterwards `page_read` or `page_failed` is called,
    with the same `turn`."""

    id: int
    job: int
    number: int
    """Of the request in its job."""
    first: int
    generation: int
    connection: int
    """The connection that the page is for."""


@attrs.frozen
class DeleteRequest:
    """Nobody reads this request's spool any more."""

    job: int
    number: int


@attrs.frozen
class DeleteJob:
    """Nor that of any other of its job: the folder goes."""

    job: int


Effect: TypeAlias = Send | Drop | StartJob | CancelJob | ReadPage | DeleteRequest | DeleteJob
