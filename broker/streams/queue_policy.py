"""Queue policies: the rule of a bounded queue that is full."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import ClassVar, Final, Protocol

import attrs
from zope.interface import Attribute, Interface, implementer

from broker.errors import BadQuery, BadQueuePolicy
from broker.matching.payload_key import check_key_path
from broker.matching.query.query import Query, parse_query

#: Characters of a policy's text.
MAX_POLICY_TEXT: Final = 1024
#: Subscriptions of a session that evaluate a path on each queued event.
MAX_KEY_PATHS: Final = 16


class Admission(enum.Enum):
    """Result for a new item of a queue."""

    TAKEN = "taken"
    DROPPED = "dropped"
    """The new item is lost; the queue records the loss."""
    WAITS = "waits"
    """The producer keeps the item, or reads it from the log later."""
    FAILED = "failed"
    """The queue's owner must end it."""


class QueueRoom(Protocol):
    """The part of a bounded queue that a policy uses."""

    def has_room(self, size: int) -> bool:
        """Return whether an item of this size fits."""

    def could_fit(self, size: int) -> bool:
        """Return whether an item of this size would fit into the empty queue."""

    def drop_oldest(self) -> bool:
        """Drop the oldest item and record the loss; return False if the queue is empty."""

    def drop_superseded(self) -> None:
        """Drop the queued item with the new item's key, and record the loss."""


class IQueuePolicy(Interface):
    """Rule of a bounded queue. Equal policies behave alike; a policy has no state."""

    name = Attribute("`block`, `drop-oldest`, `drop-newest`, `coalesce` or `fail`")
    text = Attribute("As a subscription names it, such as `coalesce:/flight/@id`")
    namespaces = Attribute("Prefixes of the key's path: sorted pairs of prefix and URI")

    def admit(queue: QueueRoom, size: int) -> Admission:
        """Make room for a new item of `size` bytes, or refuse it. Called before each one."""


@implementer(IQueuePolicy)
@attrs.frozen
class Block:
    """The producer waits. A subscription reads the log at its own cursor."""

    name = text = "block"
    namespaces: ClassVar[tuple[tuple[str, str], ...]] = ()

    def admit(self, queue: QueueRoom, size: int) -> Admission:
        return Admission.TAKEN if queue.has_room(size) else Admission.WAITS


@implementer(IQueuePolicy)
@attrs.frozen
class DropOldest:
    """The oldest items make room."""

    name = text = "drop-oldest"
    namespaces: ClassVar[tuple[tuple[str, str], ...]] = ()

    def admit(self, queue: QueueRoom, size: int) -> Admission:
        while not queue.has_room(size):
            if not queue.drop_oldest():
                return Admission.DROPPED
        return Admission.TAKEN


@implementer(IQueuePolicy)
@attrs.frozen
class DropNewest:
    """New items are dropped until there is room."""

    name = text = "drop-newest"
    namespaces: ClassVar[tuple[tuple[str, str], ...]] = ()

    def admit(self, queue: QueueRoom, size: int) -> Admission:
        return Admission.TAKEN if queue.has_room(size) else Admission.DROPPED


@implementer(IQueuePolicy)
@attrs.frozen
class Coalesce:
    """A new item replaces the queued one with its key; beyond the bounds the oldest go.

    The key is the stream, or the value of a path in the payload. Items without the key are never
    replaced.
    """

    name = "coalesce"
    path: str = ""
    """Empty: the stream."""
    namespaces: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        return f"coalesce:{self.path}" if self.path else "coalesce"

    def admit(self, queue: QueueRoom, size: int) -> Admission:
        if not queue.could_fit(size):
            return Admission.DROPPED
        queue.drop_superseded()
        return DROP_OLDEST.admit(queue, size)


@implementer(IQueuePolicy)
@attrs.frozen
class Fail:
    """The queue ends when an item does not fit."""

    name = text = "fail"
    namespaces: ClassVar[tuple[tuple[str, str], ...]] = ()

    def admit(self, queue: QueueRoom, size: int) -> Admission:
        return Admission.TAKEN if queue.has_room(size) else Admission.FAILED


BLOCK: Final = Block()
DROP_OLDEST: Final = DropOldest()
DROP_NEWEST: Final = DropNewest()
FAIL: Final = Fail()
_WITHOUT_KEY: Final[Mapping[str, IQueuePolicy]] = {
    each.name: each for each in (BLOCK, DROP_OLDEST, DROP_NEWEST, FAIL)
}
POLICY_NAMES: Final = (*_WITHOUT_KEY, Coalesce.name)


def has_key_path(policy: IQueuePolicy) -> bool:
    """Return whether the policy evaluates a path on each queued event."""
    return isinstance(policy, Coalesce) and bool(policy.path)


def default_policy(*, is_durable: bool) -> IQueuePolicy:
    """Return the policy of a subscription that names none."""
    return BLOCK if is_durable else DROP_OLDEST


def parse_queue_policy(
    text: str,
    namespaces: Mapping[str, str] | None = None,
    parse: Callable[[str, Mapping[str, str]], Query] = parse_query,
) -> IQueuePolicy:
    """Return the policy of a text such as `drop-newest` or `coalesce:/flight/@id`.

    `parse` parses the key within the limits of a query.
    Raises `BadQueuePolicy` for an unknown one, or a path that is no key.
    """
    if len(text) > MAX_POLICY_TEXT:
        raise BadQueuePolicy(
            f"the queue policy has {len(text)} characters, at most {MAX_POLICY_TEXT} are allowed"
        )
    name, colon, path = text.partition(":")
    if name == Coalesce.name:
        if not colon:
            return Coalesce()
        try:
            key = parse(path, namespaces or {})
            return Coalesce(key.text, check_key_path(key))
        except BadQuery as error:
            raise BadQueuePolicy(f"the key of {text[:80]!r}: {error.text}") from None
    known = _WITHOUT_KEY.get(text)
    if known is None:
        raise BadQueuePolicy(f"queue policy {text[:80]!r} is none of {', '.join(POLICY_NAMES)}")
    return known


def merge_policies(first: IQueuePolicy, second: IQueuePolicy) -> IQueuePolicy:
    """Return the policy that loses no item which one of both keeps: `block`, if they differ."""
    return first if first == second else BLOCK


def merge_all(policies: Iterable[IQueuePolicy]) -> IQueuePolicy:
    """Return `merge_policies` of all, `block` of none."""
    first, *others = [*policies] or [BLOCK]
    return reduce(merge_policies, others, first)
