"""Effects of the core of the replay process."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from broker.errors import BrokerError
from broker.replay.replayer_messages import Message
from broker.replay.request import ReplayRequest


@attrs.frozen
class Send:
    message: Message


@attrs.frozen
class Drop:
    """Close the connection, since the node broke the protocol."""

    error: BrokerError


@attrs.frozen
class StartJob:
    """Run requests as one job; `job_done` or `job_failed` follows."""

    job: int
    requests: tuple[ReplayRequest, ...]


@attrs.frozen
class CancelJob:
    """Cancel the running job; `job_failed` follows."""

    job: int


@attrs.frozen
class ReadPage:
    """`page_read` or `page_failed` follows, with this effect."""

    id: int
    job: int
    number: int
    """Of the request in its job."""
    first: int


@attrs.frozen
class DeleteRequest:
    """Delete one request's order from a spool."""

    job: int
    number: int


@attrs.frozen
class DeleteJob:
    job: int


Effect: TypeAlias = Send | Drop | StartJob | CancelJob | ReadPage | DeleteRequest | DeleteJob
