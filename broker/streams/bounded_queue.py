"""Bounded queue that applies a queue policy, and records its losses in their places."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from itertools import islice
from typing import Generic, Protocol, TypeVar

import attrs

from broker.event.place import Mark
from broker.queue_memory import ENTRY_BYTES, QueueMemory
from broker.streams.queue_policy import Admission, IQueuePolicy


class QueueItem(Protocol):
    """An event, or something else with a place. Items of one origin come in order."""

    @property
    def origin(self) -> str: ...
    @property
    def mark(self) -> Mark: ...
    @property
    def size(self) -> int: ...


Item = TypeVar("Item", bound=QueueItem)
Owner = TypeVar("Owner", bound=Hashable)

#: Dropped entries in the middle of a queue, beside as many as it has items.
_SPARE_DROPPED = 64


@attrs.define
class QueueBudget:
    """Bounds that queues share: each has an equal part, and all together do not exceed them."""

    max_items: int
    max_bytes: int
    queues: int = 0
    items: int = 0
    bytes: int = 0
    unreported: int = 0
    """Losses that no `take_losses` has returned."""
    memory: QueueMemory = attrs.field(factory=QueueMemory)

    @property
    def cost(self) -> int:
        return self.bytes + ENTRY_BYTES * self.items

    def add_item(self, item: QueueItem) -> None:
        self.memory.holders += not self.items
        self.memory.add_item(item, item.size)
        self.items += 1
        self.bytes += item.size

    def remove_item(self, item: QueueItem) -> None:
        self.memory.remove_item(item, item.size)
        self.items -= 1
        self.bytes -= item.size
        self.memory.holders -= not self.items


@attrs.define
class LostRange:
    """Items of one origin and owner, dropped in succession."""

    first: Mark
    last: Mark
    count: int
    is_coalesced: bool
    """True if newer items replaced all of them."""
    is_logged: bool = True
    """False: the log does not have them either."""

    def extend(self, other: LostRange) -> None:
        self.first, self.last = min(self.first, other.first), max(self.last, other.last)
        self.count += other.count
        self.is_coalesced = self.is_coalesced and other.is_coalesced


@attrs.define(slots=True, eq=False)
class QueueEntry(Generic[Item, Owner]):
    item: Item | None
    """None: dropped."""
    owners: list[Owner]
    key: str | None = None
    losses: dict[tuple[Owner, str, bool], LostRange] = attrs.field(factory=dict)
    """By owner, origin and `is_logged`, of dropped items in this place."""

    def add_loss(self, owner: Owner, origin: str, lost: LostRange) -> None:
        known = self.losses.get((owner, origin, lost.is_logged))
        if known is None:
            self.losses[owner, origin, lost.is_logged] = lost
        else:
            known.extend(lost)

    def add_losses(self, later: QueueEntry[Item, Owner]) -> None:
        for (owner, origin, _), lost in later.losses.items():
            self.add_loss(owner, origin, lost)


@attrs.frozen(slots=True, eq=False)
class Dropped(Generic[Item, Owner]):
    item: Item
    owners: list[Owner]


@attrs.frozen(slots=True, eq=False)
class Added(Generic[Item, Owner]):
    """Result of a new item: its admission, and the items that were dropped, maybe itself."""

    admission: Admission
    dropped: Sequence[Dropped[Item, Owner]] = ()


class BoundedQueue(Generic[Item, Owner]):
    """Queue of items for owners, such as subscriptions or links.

    An item that does not fit into the queue's part of the budget is a matter of its policy. A
    dropped item leaves a loss in its place: `take_losses` returns it before the items behind it.
    Losses in succession are merged, so that their number is bounded by that of the items.
    """

    def __init__(self, policy: IQueuePolicy, budget: QueueBudget) -> None:
        self.policy = policy
        self._budget = budget
        budget.queues += 1
        self._entries: deque[QueueEntry[Item, Owner]] = deque()
        self._by_key: dict[str, QueueEntry[Item, Owner]] = {}
        self._head: QueueEntry[Item, Owner] = QueueEntry(None, [])
        """Losses before all entries."""
        self._items = self._bytes = 0
        self._new: QueueEntry[Item, Owner] = self._head
        self._dropped: list[Dropped[Item, Owner]] = []

    def __len__(self) -> int:
        return self._items

    @property
    def bytes(self) -> int:
        return self._bytes

    @property
    def has_pending(self) -> bool:
        return bool(self._entries or self._head.losses)

    @property
    def has_leading_losses(self) -> bool:
        self._merge_leading_losses()
        return bool(self._head.losses)

    def count_for(self, owner: Owner) -> int:
        return sum(owner in entry.owners for entry in self._entries)

    # ------------------------------------------------------------------ items in

    def add(self, item: Item, owners: list[Owner], key: str | None = None) -> Added[Item, Owner]:
        """Add an item, and return what its policy did. The queue uses the list of owners.

        An item that waits or failed changes nothing.
        """
        self._new = new = QueueEntry(item, owners, key)
        admission = self.policy.admit(self, item.size)
        if admission is Admission.TAKEN:
            self._entries.append(new)
            self._items += 1
            self._bytes += item.size
            self._budget.add_item(item)
            if key is not None:
                self._by_key[key] = new
        elif admission is Admission.DROPPED:
            self._record_drop(new, item, is_coalesced=False)
            self._append_losses(new)
        dropped, self._dropped = self._dropped, []
        return Added(admission, dropped)

    def add_loss(self, owner: Owner, origin: str, lost: LostRange) -> None:
        """Record items behind all queued ones that were dropped before they came here."""
        entry: QueueEntry[Item, Owner] = QueueEntry(None, [])
        entry.add_loss(owner, origin, lost)
        self._budget.unreported += lost.count
        self._append_losses(entry)

    def _append_losses(self, entry: QueueEntry[Item, Owner]) -> None:
        if self._entries and self._entries[-1].item is None:
            self._entries[-1].add_losses(entry)
        else:
            self._entries.append(entry)

    def has_room(self, size: int) -> bool:
        budget = self._budget
        return (
            self._items < max(1, budget.max_items // budget.queues)
            and self._bytes + size <= budget.max_bytes // budget.queues
            and budget.items < budget.max_items
            and budget.bytes + size <= budget.max_bytes
            and budget.memory.allows(budget.cost, ENTRY_BYTES + size)
        )

    def could_fit(self, size: int) -> bool:
        budget = self._budget
        return (
            size <= budget.max_bytes // budget.queues
            and budget.items - self._items < budget.max_items
            and budget.bytes - self._bytes + size <= budget.max_bytes
            and budget.memory.could_allow(budget.cost, ENTRY_BYTES + size)
        )

    def drop_oldest(self) -> bool:
        if not self._items:
            return False
        self._merge_leading_losses()
        entry = self._entries.popleft()
        self._drop(entry, is_coalesced=False)
        self._head.add_losses(entry)
        return True

    def drop_superseded(self) -> None:
        """Drop the queued item with the new item's key, if all its owners get the new one."""
        new = self._new
        entry = None if new.key is None else self._by_key.get(new.key)
        if entry is not None and set(entry.owners) <= set(new.owners):
            self._drop(entry, is_coalesced=True)
            if len(self._entries) > 2 * self._items + _SPARE_DROPPED:
                self._entries = deque(self._merge_dropped())

    # ------------------------------------------------------------------ items out

    def take_losses(self) -> list[tuple[Owner, str, LostRange]]:
        """Remove and return the losses before the oldest item: (owner, origin, range)."""
        self._merge_leading_losses()
        losses, self._head.losses = self._head.losses, {}
        merged: dict[tuple[Owner, str], LostRange] = {}
        for (owner, origin, _), lost in losses.items():
            self._budget.unreported -= lost.count
            if (known := merged.setdefault((owner, origin), lost)) is not lost:
                known.extend(lost)
        return [(owner, origin, lost) for (owner, origin), lost in merged.items()]

    def peek(self, count: int) -> list[Item]:
        """Return the oldest items, at most `count`, up to the next loss. Take losses before."""
        found = []
        for entry in islice(self._entries, count):
            if entry.item is None:
                break
            found.append(entry.item)
        return found

    def take(self, count: int) -> list[tuple[Item, list[Owner]]]:
        """Remove and return the first `count` items of `peek`, with their owners."""
        taken = []
        for _ in range(count):
            entry = self._entries.popleft()
            assert entry.item is not None
            taken.append((entry.item, entry.owners))
            self._release(entry, entry.item)
        return taken

    def remove_owner(self, owner: Owner) -> int:
        """Remove an owner with its items and losses; return the number of its items."""
        removed = 0
        remaining: deque[QueueEntry[Item, Owner]] = deque()
        for entry in (self._head, *self._entries):
            self._forget_losses(entry, owner)
            if entry.item is not None and owner in entry.owners:
                removed += 1
                self._remove_owner_of(entry, owner)
            if entry is not self._head and (entry.owners or entry.losses):
                remaining.append(entry)
        self._entries = remaining
        return removed

    def take_items_of(self, owner: Owner) -> tuple[list[Item], int, list[tuple[str, LostRange]]]:
        """Remove and return an owner's items, the number of logged ones that were lost behind the
        first, and the losses behind it that are not logged: (origin, range).

        These losses are removed: the caller reads the items from the log.
        """
        taken: list[Item] = []
        unlogged: list[tuple[str, LostRange]] = []
        lost = 0
        remaining: deque[QueueEntry[Item, Owner]] = deque()
        for entry in self._entries:
            if taken:
                found = self._forget_losses(entry, owner)
                lost += sum([each.count for _, each in found if each.is_logged])
                unlogged += [(origin, each) for origin, each in found if not each.is_logged]
            if entry.item is not None and owner in entry.owners:
                taken.append(entry.item)
                self._remove_owner_of(entry, owner)
            if entry.owners or entry.losses:
                remaining.append(entry)
        self._entries = remaining
        return taken, lost, unlogged

    def clear(self) -> list[Dropped[Item, Owner]]:
        """Remove everything without a loss; return the items."""
        dropped = [
            Dropped(entry.item, entry.owners) for entry in self._entries if entry.item is not None
        ]
        for entry in self._entries:
            if entry.item is not None:
                self._release(entry, entry.item)
        for entry in (self._head, *self._entries):
            self._budget.unreported -= sum(lost.count for lost in entry.losses.values())
        self._entries.clear()
        self._head.losses = {}
        return dropped

    def close(self) -> list[Dropped[Item, Owner]]:
        """Clear the queue, and leave its part of the budget to the others."""
        dropped = self.clear()
        self._budget.queues -= 1
        return dropped

    # ------------------------------------------------------------------ inside

    def _release(self, entry: QueueEntry[Item, Owner], item: Item) -> None:
        self._items -= 1
        self._bytes -= item.size
        self._budget.remove_item(item)
        if entry.key is not None and self._by_key.get(entry.key) is entry:
            del self._by_key[entry.key]

    def _drop(self, entry: QueueEntry[Item, Owner], *, is_coalesced: bool) -> None:
        item = entry.item
        assert item is not None
        self._release(entry, item)
        self._record_drop(entry, item, is_coalesced=is_coalesced)

    def _record_drop(
        self, entry: QueueEntry[Item, Owner], item: Item, *, is_coalesced: bool
    ) -> None:
        mark = item.mark
        for owner in entry.owners:
            entry.add_loss(owner, item.origin, LostRange(mark, mark, 1, is_coalesced))
        self._budget.unreported += len(entry.owners)
        self._dropped.append(Dropped(item, entry.owners))
        entry.item, entry.owners = None, []

    def _remove_owner_of(self, entry: QueueEntry[Item, Owner], owner: Owner) -> None:
        entry.owners.remove(owner)
        if not entry.owners and entry.item is not None:
            self._release(entry, entry.item)
            entry.item = None

    def _forget_losses(
        self, entry: QueueEntry[Item, Owner], owner: Owner
    ) -> list[tuple[str, LostRange]]:
        keys = [key for key in entry.losses if key[0] == owner]
        forgotten = [(key[1], entry.losses.pop(key)) for key in keys]
        self._budget.unreported -= sum([lost.count for _, lost in forgotten])
        return forgotten

    def _merge_leading_losses(self) -> None:
        while self._entries and self._entries[0].item is None:
            self._head.add_losses(self._entries.popleft())

    def _merge_dropped(self) -> Iterator[QueueEntry[Item, Owner]]:
        previous: QueueEntry[Item, Owner] | None = None
        for entry in self._entries:
            if entry.item is None and previous is not None and previous.item is None:
                previous.add_losses(entry)
            else:
                previous = entry
                yield entry
