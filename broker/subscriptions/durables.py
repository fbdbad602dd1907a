"""Durable subscriptions: what is remembered of them between sessions (Q2, M42)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import attrs
import msgpack

from broker.delivery.lag import Lags
from broker.event.place import Mark, Position
from broker.log.event_log import EventLog


@attrs.frozen
class Durable:
    """One durable subscription as stored: the client's profile entry and how far it has got."""

    pattern: str
    query: str
    namespaces: Mapping[str, str]
    position: Position
    used: int
    """Ms since 1970 when it was last subscribed, acknowledged, or left."""
    flows_from: Position | None = None
    """Behind this the node's log has all of it; None: it has yet to flow."""
    former: str = ""
    """The address of the node that has handed it over, and keeps it until its client has processed
    all that came before it flowed here."""
    moved_to: str = ""
    """The address of the node that it was handed over to."""
    paused: bool = False
    """Nothing is delivered, and it stays at this node, until it is resumed."""

    def encode(self) -> bytes:
        """The stored bytes."""
        flows_from = None if self.flows_from is None else self.flows_from.to_wire()
        packed: bytes = msgpack.packb(
            (
                *(self.pattern, self.query, self.namespaces, self.position.to_wire(), self.used),
                *(flows_from, self.former, self.moved_to),
                # Earlier versions know eight fields, and read them in archives.
                *([True] if self.paused else []),
            )
        )
        return packed

    @classmethod
    def decode(cls, stored: bytes) -> Durable:
        """The durable subscription that `encode` wrote."""
        pattern, query, namespaces, position, used, flows_from, *rest = msgpack.unpackb(stored)
        flows = None if flows_from is None else Position.from_wire(flows_from)
        return cls(pattern, query, namespaces, Position.from_wire(position), used, flows, *rest)

    @property
    def complete(self) -> Mapping[str, Mark]:
        """Behind these marks the node's log has all of other origins; empty before it flows."""
        return {} if self.flows_from is None else self.flows_from.marks

    @property
    def settled(self) -> bool:
        """Whether its client has processed all that came before it flowed here."""
        if self.flows_from is None:
            return False
        return all(
            had >= mark or had[1] == mark[1]  # An epoch may have begun in which there is nothing.
            for origin, mark in self.flows_from.marks.items()
            for had in [self.position.marks.get(origin, (0, 0))]
        )


class Durables:
    """All durable subscriptions of a node, in memory, and written behind through the log."""

    def __init__(self, log: EventLog, wall_clock: Callable[[], int], expiry_ms: int) -> None:
        self._log = log
        self._wall_clock = wall_clock
        self._expiry_ms = expiry_ms
        self._kept = {key: Durable.decode(value) for key, value in log.durables()}
        self._damaged = set(log.damaged_durables())
        self._counts = Counter(map(_client_of, self._kept))
        self._in_use: set[bytes] = set()
        self.gone: Callable[[str, str], object] = lambda client_id, name: None
        """Told when one is no more."""

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, client_id: str, name: str) -> Durable | None:
        """What is stored under a client's name for it."""
        return self._kept.get(_key(client_id, name))

    def is_damaged(self, client_id: str, name: str) -> bool:
        """Whether one was stored here and is lost to damage."""
        return _key(client_id, name) in self._damaged

    def all(self) -> Iterator[tuple[str, str, Durable]]:
        """All that are stored: client, name, and what it is."""
        for key, durable in self._kept.items():
            client, _, name = key.partition(b"\0")
            yield client.decode(), name.decode(), durable

    def of(self, client_id: str) -> dict[str, Durable]:
        """What is stored for a client, by name."""
        prefix = _key(client_id, "")
        return {
            key[len(prefix) :].decode(): durable
            for key, durable in self._kept.items()
            if key.startswith(prefix)
        }

    def in_use(self, client_id: str, name: str) -> bool:
        """Whether a session has it now."""
        return _key(client_id, name) in self._in_use

    def state(self, client_id: str, name: str) -> str:
        """`moved`, `paused`, `in-use` or `away`, of one that is stored."""
        durable = self._kept[_key(client_id, name)]
        if durable.moved_to:
            return "moved"
        if durable.paused:
            return "paused"
        return "in-use" if self.in_use(client_id, name) else "away"

    def lags(self) -> Lags:
        """Lags as of now."""
        return Lags(self._log, self._wall_clock)

    def count(self, client_id: str) -> int:
        """How many a client has."""
        return self._counts[client_id.encode()]

    def put(
        self,
        client_id: str,
        name: str,
        *,
        pattern: str,
        query: str,
        namespaces: Mapping[str, str],
        position: Position,
        stored: Callable[[], object],
        flows_from: Position | None = None,
        former: str = "",
    ) -> None:
        """Store a new one, or a changed profile of a known one; `stored` is told when it is.

        It is in use from now on, until `release`.
        """
        key = _key(client_id, name)
        self._in_use.add(key)
        known = self._kept.get(key)
        if known is None:
            self._counts[_client_of(key)] += 1
        durable = Durable(
            *(pattern, query, dict(namespaces), position, self._wall_clock()),
            flows_from=flows_from,
            former=former,
            paused=known is not None and known.paused,
        )
        self._kept[key] = durable
        self._log.put_durable(key, durable.encode(), stored)

    def acknowledge(self, client_id: str, name: str, position: Position) -> None:
        """The client has processed everything up to `position`."""
        key = _key(client_id, name)
        durable = self._kept.get(key)
        if durable is not None:
            moved = durable.position.merged(position)
            self._store(key, attrs.evolve(durable, position=moved, used=self._wall_clock()))

    def flows(self, client_id: str, name: str, position: Position) -> None:
        """From behind `position` on the node's log has all of it, and did not before."""
        key = _key(client_id, name)
        durable = self._kept.get(key)
        if durable is not None:
            self._store(key, attrs.evolve(durable, flows_from=position))

    def settled_former(self, client_id: str, name: str) -> str:
        """The address of the node that need not keep it any more; empty where there is none."""
        durable = self._kept.get(_key(client_id, name))
        return "" if durable is None or not durable.settled else durable.former

    def let_go(self, client_id: str, name: str, former: str) -> None:
        """The node at this address keeps it no more."""
        key = _key(client_id, name)
        durable = self._kept.get(key)
        if durable is not None and durable.former == former:
            self._store(key, attrs.evolve(durable, former=""))

    def pause(self, client_id: str, name: str, paused: bool) -> None:
        """Note whether anything is delivered of a known one."""
        key = _key(client_id, name)
        durable = attrs.evolve(self._kept[key], paused=paused, used=self._wall_clock())
        self._store(key, durable)

    def reset(self, client_id: str, name: str, position: Position) -> None:
        """Move the position of a known one that is not in use, forward or back."""
        key = _key(client_id, name)
        assert key not in self._in_use
        durable = attrs.evolve(self._kept[key], position=position, used=self._wall_clock())
        self._store(key, durable)

    def move(self, client_id: str, name: str, whereto: str, stored: Callable[[], object]) -> None:
        """It is handed over to the node at an address; `stored` is told when that is durable."""
        key = _key(client_id, name)
        durable = self._kept[key]
        moved = attrs.evolve(durable, moved_to=whereto, used=self._wall_clock())
        self._kept[key] = moved
        self._log.put_durable(key, moved.encode(), stored)

    def release(self, client_id: str, name: str) -> None:
        """It is not in use any more: its time to expire begins."""
        key = _key(client_id, name)
        self._in_use.discard(key)
        durable = self._kept.get(key)
        if durable is not None:
            self._store(key, attrs.evolve(durable, used=self._wall_clock()))

    def forget(self, client_id: str, name: str) -> None:
        """Drop a durable subscription for good."""
        key = _key(client_id, name)
        if key in self._kept:
            self._drop(key)

    def expire(self) -> int:
        """Drop those that nobody used for their time; returns how many."""
        limit = self._wall_clock() - self._expiry_ms
        kept = self._kept.items()
        old = [key for key, d in kept if d.used < limit and key not in self._in_use]
        for key in old:
            self._drop(key)
        return len(old)

    def _drop(self, key: bytes) -> None:
        del self._kept[key]
        client = _client_of(key)
        self._counts[client] -= 1
        if not self._counts[client]:
            del self._counts[client]
        self._log.put_durable(key, None)
        name = key[len(client) + 1 :]
        self.gone(client.decode(), name.decode())

    def _store(self, key: bytes, durable: Durable) -> None:
        self._kept[key] = durable
        self._log.put_durable(key, durable.encode())


def _key(client_id: str, name: str) -> bytes:
    return client_id.encode() + b"\0" + name.encode()


def _client_of(key: bytes) -> bytes:
    return key.partition(b"\0")[0]
